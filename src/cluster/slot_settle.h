/* Slot settle: the end of an atomic migration with a controller (managed_move.h): the slots are given in one version of the topology, and it is found out who has them.
 * Owner: the thread of the exporter.
 */
#ifndef KELVIN_CLUSTER_SLOT_SETTLE_H
#define KELVIN_CLUSTER_SLOT_SETTLE_H

#include "cluster/slot_run.h"

/* *is_due: both nodes have the same version, or there is no controller. False: they do not get it. */
bool slot_settle_compare_versions(struct slot_run *run, bool *is_due);
/* TAKE, after all that has to be before. All calls for the slots wait from then on. */
enum slot_fate slot_settle_take(struct slot_run *run);
/* Until the outcome is known, the server ends, or it is another node's to find out: what is in doubt stays so then (leaves_doubt). True: the other node has the slots. */
bool slot_settle(struct slot_run *run, enum slot_fate fate);

#endif

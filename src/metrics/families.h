/* Families: the metrics that there are. Each function writes those of one subject; docs/monitoring.md lists them. Private to the room. */
#ifndef KELVIN_METRICS_FAMILIES_H
#define KELVIN_METRICS_FAMILIES_H

#include "metrics/exposition.h"
#include "metrics/readings.h"

typedef void families_writer(struct exposition *out, const struct readings *readings);

families_writer families_server, families_clients, families_persistence;        /* families_server.c */
families_writer families_commands;                                              /* families_commands.c */
families_writer families_memory, families_keys, families_tier;                  /* families_data.c */
families_writer families_replication, families_cluster;                         /* families_replication.c */

/* Each writes a family of one sample without labels. */
void family_counter(struct exposition *out, const char *name, const char *unit, const char *help, double number);
void family_gauge(struct exposition *out, const char *name, const char *unit, const char *help, double number);

/* Samples of a family whose only label has these values. */
struct family_sample {
    const char *value;
    double number;
};
void family_labelled(struct exposition *out, const struct metric *family, const char *label, const struct family_sample *samples, int count);

#endif

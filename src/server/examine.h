/* Examine: whether a start would find what the configuration names, for `kelvin-server --check`. Nothing is created, bound or changed, but
 * the working directory of this process.
 *
 * It is examined with the rights of the process: as the user of the service, not as root, it finds files that the server could not write.
 */
#ifndef KELVIN_SERVER_EXAMINE_H
#define KELVIN_SERVER_EXAMINE_H

#include "config/config.h"

/* Receives a finding: with a problem the start fails, or the server does not do what is configured (a log or PID file that can't be
 * written); a remark is about what may not be meant. */
typedef void examine_report(void *context, bool is_problem, const char *text);

/* Examines a configuration that config_check and config_check_absent have seen. */
void examine(struct config *config, examine_report *report, void *context);

#endif

/* Process: daemonizing, the pid file, the log, the supervisor: what a server is to the machine. Main thread, at start and end. */
#ifndef KELVIN_SERVER_PROCESS_H
#define KELVIN_SERVER_PROCESS_H

#include <stdbool.h>

#include "base/log.h"
#include "base/message.h"
#include "config/config.h"
#include "net/loop.h"

/* daemonize, umask, chdir to `dir`. False: `message` says why. */
bool process_enter(struct config *config, struct message *message);
struct log *process_open_log(struct config *config);
/* Writes the pid file if one is asked for (or the process is a daemon); its path, freed with mem_free, or NULL. */
char *process_write_pidfile(struct config *config);
/* sd_notify, if `supervised` says so and systemd is there. */
void process_tell_supervisor(struct config *config, const char *state);
/* 40 random hexadecimal digits and a NUL. */
void process_make_id(char id[41]);

/* A start that failed half-way: lets the loops, which never ran, close all their handles. `more` ends with NULL; those not begun
 * (without a loop) are left alone. */
void process_run_out(struct loop **loops, int loop_count, uv_handle_t **more);

#endif

/* Info rows: what INFO's sections say, in the order of Redis 7.2, and Kelvin's own section, Tiering. */
#ifndef KELVIN_SERVER_INFO_ROWS_H
#define KELVIN_SERVER_INFO_ROWS_H

#include "stats/info.h"

struct engine;

/* Notes how much memory is in use and lets INFO be asked for; before there is any data. */
void info_start(struct engine *engine);
void info_stop(struct engine *engine);

/* Private: the writers of the rows, by file; their context is the engine. */
info_writer info_server, info_clients, info_cpu, info_modules, info_cluster;                        /* info_process.c */
info_writer info_replication;                                                                       /* info_replication.c */
info_writer info_memory, info_persistence, info_keyspace;                                           /* info_data.c */
info_writer info_stats, info_command_stats, info_error_stats, info_latency_stats;                   /* info_stats.c */
info_writer info_tiering;                                                                           /* info_tiering.c */

/* Fields of other sections (info_replication.c). */
void info_write_syncs(struct buffer *out, struct engine *engine);
void info_write_backlog_memory(struct buffer *out, struct engine *engine);

#endif

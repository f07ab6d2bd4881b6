/* Backlog: the last bytes of the stream, by position. */
#ifndef KELVIN_STREAM_BACKLOG_H
#define KELVIN_STREAM_BACKLOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct backlog;
struct backlog_reader;
struct backlog_options { uint64_t memory_size, disk_size, file_size, first; const char *dir; };
struct backlog_stats { uint64_t memory_used, disk_used; };
enum backlog_result { BACKLOG_OK, BACKLOG_LOST };
struct backlog *backlog_create(const struct backlog_options *options);
void backlog_destroy(struct backlog *backlog);
void backlog_append(struct backlog *backlog, struct bytes bytes);
uint64_t backlog_begin(struct backlog *backlog), backlog_end(struct backlog *backlog);
struct backlog_reader *backlog_attach(struct backlog *backlog, uint64_t position);
enum backlog_result backlog_read(struct backlog_reader *reader, char *to, size_t max, uint64_t limit, size_t *got);
uint64_t backlog_position(struct backlog_reader *reader);
void backlog_detach(struct backlog_reader *reader);
void backlog_stats(struct backlog *backlog, struct backlog_stats *stats);

#endif

/* Marks: lines of the log's increments that say where in the replication stream the bytes after them are. All other bytes of an increment are
 * the stream's, but for lines that begin with '#' and for what a LOCAL line names. docs/formats/aof.md describes the text.
 *
 *   #STREAM:<id> <offset> <db> <second id> <second offset> <CRC-64>\r\n
 *       what follows begins after `offset` bytes of the stream, with `db` selected (-1: none); the IDs as in struct history_identity
 *   #LOCAL:<bytes> <CRC-64>\r\n
 *       this number of bytes after it are this server's own, and do not count
 *
 * The sum is that of the text before its blank, so that a damaged line is not taken for another position.
 */
#ifndef KELVIN_PERSIST_AOF_MARK_H
#define KELVIN_PERSIST_AOF_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "stream/history.h"

/* Redis' readers take lines of up to 1023 bytes. */
enum { AOF_MARK_SIZE = 192, AOF_MARK_LOCAL_SIZE = 64 };

/* STREAM. Returns the size; `out` has AOF_MARK_SIZE bytes. */
size_t aof_mark_print(const struct history_point *point, char *out);
/* LOCAL. `out` has AOF_MARK_LOCAL_SIZE bytes. */
size_t aof_mark_print_local(size_t size, char *out);

/* AOF_MARK_NONE: another annotation. AOF_MARK_BAD: one of these, but damaged. */
enum aof_mark_kind { AOF_MARK_NONE, AOF_MARK_STREAM, AOF_MARK_LOCAL, AOF_MARK_BAD };

/* Takes a line apart, which ends in \n. STREAM: all of *point but its lsn; LOCAL: *size. */
enum aof_mark_kind aof_mark_parse(struct bytes line, struct history_point *point, uint64_t *size);

/* The text of a STREAM line between the colon and the sum, for other files. */
size_t aof_mark_print_point(const struct history_point *point, char *out);      /* adds a NUL, which does not count */
bool aof_mark_parse_point(struct bytes text, struct history_point *point);

#endif

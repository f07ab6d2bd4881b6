/* Is an RDB file empty? Redis 7 begins a log with a base that is an RDB file, without a key when it was started
 * empty. */
#ifndef KELVIN_PERSIST_AOF_RDB_H
#define KELVIN_PERSIST_AOF_RDB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

/* `head` is the first bytes of the file, all of it or at least AOF_RDB_HEAD_SIZE. */
enum { AOF_RDB_HEAD_SIZE = 64 << 10 };

bool aof_rdb_is_one(struct bytes head);

/* STATUS_OK: neither keys nor functions, and `*size` is where the RDB part ends (commands may follow). STATUS_VERSION:
 * it holds something. STATUS_CORRUPT: it is none, ends early, or its checksum is wrong. */
enum status aof_rdb_skip_empty(struct bytes head, size_t *size);

/* CRC-64 as RDB has it (Jones' polynomial, reflected, no inversion). */
uint64_t aof_rdb_crc(struct bytes bytes);

#endif

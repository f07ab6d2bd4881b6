/* RDB compress: a value's body with its long strings as LZF, as `rdbcompression yes` writes them.
 *
 * Owner: one thread. After 128 strings in a row that did not get smaller, only every 16th of those below 4 KiB is tried, until one gets smaller.
 */
#ifndef KELVIN_PERSIST_RDB_COMPRESS_H
#define KELVIN_PERSIST_RDB_COMPRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"

struct rdb_compress;

struct rdb_compress *rdb_compress_create(void);
void rdb_compress_destroy(struct rdb_compress *compress);       /* NULL is fine */

/* Compresses the body of a value of an RDB type. False: the body is to be used as it is; nothing in it got smaller, its type has no strings
 * that are known here, or it is larger than 64 MiB (and would need as much memory again). *smaller is set only if true is returned, and
 * valid until the next call. */
bool rdb_compress_body(struct rdb_compress *compress, uint8_t type, struct bytes body, struct bytes *smaller);
/* The same for some of the elements of such a value. */
bool rdb_compress_elements(struct rdb_compress *compress, uint8_t type, struct bytes elements, struct bytes *smaller);

#endif

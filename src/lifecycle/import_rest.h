/* Import rest: the further parts of a large set, hash, sorted set, list, stream or string of an RDB file (persist/rdb_reader.h), which are added to the entry that the first part has made.
 *
 * In the order of its pages, and some at a time: so those that are cold are read together, and what is in memory is the part and a batch of pages, however large the value is.
 * Of a value of more than a quarter of maxmemory the parts are put aside first (lifecycle/spool.h), by ranges of pages, as each part has elements of nearly all pages: so each page is
 * loaded and written once. (A sorted set's tree gets the elements as they come, since files have them in its order; its table gets them like that. The end of a list, stream or string is in memory, and nothing is put aside.) The disk needs room for the value once more meanwhile.
 *
 * Owner: the import's thread.
 */
#ifndef KELVIN_LIFECYCLE_IMPORT_REST_H
#define KELVIN_LIFECYCLE_IMPORT_REST_H

#include "base/status.h"
#include "call/turn.h"
#include "containers/page_row.h"
#include "engine/engine.h"
#include "value/value.h"

struct fetch;
struct spool;

/* Zero but for what is set by the importer. */
struct import_rest {
    struct engine *engine;
    const struct turn *turn;        /* whose time and limits count */
    enum status (*wait)(void *context);     /* called in between, without locks: waits for room */
    void *context;
    struct fetch *fetch;            /* NULL: not needed yet, or the system gives no thread */
    uint64_t batches;
    struct spool *spool;            /* of the value that is being imported; or NULL */
    uint32_t buckets, pages;        /* of the spool; of the value, when that began */
};

struct rest_key {
    int db;
    struct bytes name;
    uint64_t hash;
    enum value_type type;
    bool has_times;                 /* a hash whose fields may have times */
};

/* After the first part of a value, which will have `size` bytes. Errors as of spool_create. */
enum status import_rest_begin(struct import_rest *rest, const struct rest_key *key, uint64_t size);
/* Adds the elements of `part`, which stays the caller's, now or at the end. STATUS_NOT_FOUND: the key is not there, it has been evicted or has expired. STATUS_INVALID: an element is
 * there already, or the key is of another type. Others as of reading a cold key or page, of `wait`, and of the spool. */
enum status import_rest_add(struct import_rest *rest, const struct rest_key *key, const struct value *part);
/* After the last part. */
enum status import_rest_end(struct import_rest *rest, const struct rest_key *key);
/* After the last nodes of a stream: what follows them in a payload of this RDB type. Errors as of import_rest_add; STATUS_INVALID: it is damaged. */
enum status import_rest_end_stream(struct import_rest *rest, const struct rest_key *key, uint8_t type, struct bytes bytes);
void import_rest_release(struct import_rest *rest);

#endif

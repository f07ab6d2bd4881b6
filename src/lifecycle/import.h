/* Import: loads the keys of an RDB file into the data set, at the start, before clients are served.
 *
 * Keys are decoded and put in one by one. When memory is full the import waits until the tier has made room, so a data set larger than maxmemory goes
 * into the store as it comes. With the tier off or in error maxmemory-policy decides: keys are evicted, or the import fails. It does not fail for memory that
 * is not the keys', nor, with the tier off, on a replica and in a reload.
 *
 * Besides the data set, one value is in memory at a time, as its bytes and as the decoded value: about two and a half times its size. With tier-page-threshold a set or hash is a
 * part of it, of about 1 MiB, so that it may be larger than maxmemory (lifecycle/import_rest.h).
 *
 * Keys whose time is up are left out only if no history goes on after the file: no log, no stream, and no position in one in the file's head. Else they
 * are put in, whatever this server's role, and go by the clock or by the primary later. What follows in the history may count on them (PERSIST), and
 * replicas that continue it have them until they get a DEL.
 *
 * What would be lost silently is an error: a value of a type that Kelvin does not have, a database beyond `databases`, a library that can't be loaded.
 */
#ifndef KELVIN_LIFECYCLE_IMPORT_H
#define KELVIN_LIFECYCLE_IMPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "base/status.h"
#include "persist/aof.h"

struct engine;

/* A key that is there already: hot or cold, or twice in the file. */
enum import_twins {
    IMPORT_REFUSES_TWINS,
    IMPORT_REPLACES_TWINS,      /* and libraries of the same names; needs appendonly no, as the change is not logged */
};

struct import_rules {
    enum import_twins twins;
    bool is_reload;             /* the data set was there before */
    const _Atomic bool *cancel; /* NULL, or ends the import soon when any thread sets it: STATUS_CANCELLED */
};

/* Where in a stream the file's content is: its aux fields repl-id, repl-offset and repl-stream-db. None if not all of the content was put in. */
struct import_position {
    char repl_id[41];           /* 40 hex digits; empty: the file does not say, or not all, or not correctly */
    int64_t offset;             /* of the last byte of the stream that the content includes */
    int64_t db;                 /* that is selected there; -1: not said. It may be more than there are databases */
};

struct import_result {
    uint64_t keys, expired;     /* put in, and dropped */
    uint64_t empty;             /* left out: collections without an element */
    bool has_evicted;           /* some of the keys, as maxmemory-policy says */
    uint64_t size;              /* bytes of the file up to the end of the RDB */
    struct import_position position;
};

/* From the file's beginning to the RDB's end. `progress` (may be NULL) is called with the bytes done every now and then. On the calling thread, which
 * has joined the meter and holds no lock; while the state is ENGINE_LOADING, or no client can reach a key (lifecycle/reload.h). STATUS_CLOSED: the server is to end meanwhile.
 * `message` says what went wrong and where; what was put in until then stays. */
enum status import_rdb(struct engine *engine, int fd, const struct import_rules *rules, aof_import_progress *progress, void *context,
    struct import_result *result, struct message *message);

/* A dump: all of the file at `path`, with progress in the log and in engine->loading_*. */
enum status import_dump(struct engine *engine, const char *path, struct import_result *result, struct message *message);

/* A dump into the data set of a server that runs. */
enum status import_again(struct engine *engine, const char *path, const struct import_rules *rules, struct message *message);

/* For aof_on_import: the base of a log. The context is the engine. */
enum status import_base(void *engine, int fd, aof_import_progress *progress, void *context, uint64_t *size, struct message *message);

#endif

/* Probe: a look at one key from outside of a call's declared keys, for DEBUG: the key is brought into RAM if it is cold (in place,
 * tier rule 8), and its partition is locked until the probe is closed, with the one that has its pages. Nothing may be locked before. Any thread.
 */
#ifndef KELVIN_ENGINE_PROBE_H
#define KELVIN_ENGINE_PROBE_H

#include "engine/engine.h"
#include "keyspace/pages.h"

struct probe {
    struct partition *partition;
    struct partition *home;     /* where its pages are, if that is another one; else NULL */
    struct keyspace *keyspace;
    const struct entry *entry;
    struct value value;         /* borrowed from the entry */
    struct pages_access pages;  /* if it is in pages, which are all resident */
};

/* STATUS_NOT_FOUND: no such key (nothing is locked then), or it has expired; anything else but OK: it can't be read. */
enum status probe_open(struct engine *engine, int db, struct bytes key, struct probe *probe) UNCHECKED_LOCKS;
void probe_close(struct probe *probe) UNCHECKED_LOCKS;

/* Order-independent digest of all keys, values and of which keys expire, in all databases; or of one key's value (all zero if
 * it is absent). Equal data, equal digest. */
enum { PROBE_DIGEST_SIZE = 20 };
enum status probe_digest_value(struct engine *engine, int db, struct bytes key, uint8_t digest[PROBE_DIGEST_SIZE]);
/* Walks over everything, and may wait for memory, and for owners other than `as` (NULL: none): on a job's thread. */
enum status probe_digest_all(struct engine *engine, const struct claim *as, uint8_t digest[PROBE_DIGEST_SIZE]);

#endif

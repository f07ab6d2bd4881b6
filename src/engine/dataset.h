/* Dataset: what commands do to all keys at once, hot and cold. The commands need not know which keys are cold.
 *
 * Functions that return bool may have to wait for the store: false means that the call is parked and will be run again from
 * the top, or that the store can't be read, and the error was replied; the handler returns at once, without a reply.
 */
#ifndef KELVIN_ENGINE_DATASET_H
#define KELVIN_ENGINE_DATASET_H

#include "base/status.h"
#include "call/call.h"
#include "keyspace/scan_page.h"

/* Exact number of keys. Nothing may be locked: the command has no keys. */
bool dataset_count(struct call *call, int db, uint64_t *count);

/* The same on a thread that may wait for the store and for owners of partitions: of a job, not of a unit that owns some. `as`: a claim of the caller that owns
 * all partitions; NULL: there is none. */
enum status dataset_size(struct engine *engine, const struct claim *as, int db, uint64_t *count);

/* One page of SCAN from `cursor` on, about `count` keys. The page is the call's; `page->status` says whether the store could be
 * read. Keys that had expired when the call was given are left out. The caller must not compare with a later time: a key of the page may
 * have lost its expiry since, and would be missing although it was there all the time. */
bool dataset_scan(struct call *call, uint64_t cursor, size_t count, struct scan_page **page);

/* All keys that match (pattern NULL: all). */
bool dataset_keys(struct call *call, const struct bytes *pattern, struct scan_page **page);

/* A random key, fairly; `*found` false if there is none. The name lives as long as the call. */
bool dataset_random(struct call *call, bool *found, struct bytes *key);

/* One slot of a database, where hashes are by slot (cluster mode): the exact number of its keys, and `count` of them, or all; also such as have
 * expired and are still there, as MIGRATE and DEL have to find them. The commands are COMMAND_WHOLE, and no keys are locked. */
bool dataset_slot_count(struct call *call, int db, uint16_t slot, uint64_t *count);
bool dataset_slot_keys(struct call *call, int db, uint16_t slot, size_t count, struct scan_page **page);
/* The number on a thread as for dataset_size. `as`: a claim of the caller that owns the slot's partition; NULL: there is none. */
enum status dataset_slot_size(struct engine *engine, const struct claim *as, int db, uint16_t slot, uint64_t *count);
/* Whether any database has keys in the slot; the same without a claim. */
enum status dataset_slot_has_keys(struct engine *engine, uint16_t slot, bool *has_keys);

/* By commands with COMMAND_EXCLUSIVE only. They free in the background, and count as one change (the log gets the call's words). */
void dataset_flush(struct call *call, int db);
void dataset_flush_all(struct call *call);
void dataset_swap(struct call *call, int a, int b);

/* All partitions are locked: what these do without a call, of which no client is notified, and which nothing logs. */
void dataset_empty(struct engine *engine, int db);

#endif

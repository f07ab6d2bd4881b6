/* Lazy free: a thread that frees big values, so that no other thread spends time on it. Any thread may hand values over. */
#ifndef KELVIN_ENGINE_LAZY_FREE_H
#define KELVIN_ENGINE_LAZY_FREE_H

#include "base/meter.h"
#include "keyspace/keyspace.h"

struct lazy_free;
struct waiting;

struct lazy_free *lazy_free_create(void);
/* `waiting` is bumped when something was freed; NULL is fine. Returns 0, or the error number: what is handed over is kept until the end. */
int lazy_free_start(struct lazy_free *lazy, struct meter *meter, struct waiting *waiting);
void lazy_free_destroy(struct lazy_free *lazy);     /* frees all that is left */

/* Small values are freed at once. */
void lazy_free_value(struct lazy_free *lazy, struct value value);
void lazy_free_keyspace(struct lazy_free *lazy, struct keyspace *keyspace);     /* NULL is fine */

/* Values and keyspaces waiting (NULL: none); and freed so far. */
uint64_t lazy_free_pending(struct lazy_free *lazy);
uint64_t lazy_free_done(struct lazy_free *lazy);

#endif

/* Pops from the first of several keys that exists: what LMPOP, ZMPOP and the blocking commands share. */
#ifndef KELVIN_COMMANDS_POP_H
#define KELVIN_COMMANDS_POP_H

#include "call/key.h"

struct pop {
    enum value_type type;
    int key_first, key_count;       /* arguments */
    int end;                        /* enum list_end or enum zset_end */
    size_t count;                   /* at most this many elements */
    /* Pops from the key, which is present and opened for writing; replies its name and the elements, and logs the pop. `arg` is the
     * key's argument. */
    void (*run)(const struct pop *pop, struct key *key, int arg);
};

/* Parses numkeys key [key ...] end [COUNT count] from argument `arg` to the last one into key_first, key_count, end and count.
 * `ends` are the words for ends 0 and 1. False: the error was replied. */
bool pop_parse(struct pop *pop, struct call *call, int arg, const char *const ends[2]);

/* True if it has replied; false if no key exists. */
bool pop_first(const struct pop *pop, struct call *call);
/* Makes the client wait until one of the keys exists; `deadline_us` is that of arg_timeout. */
void pop_wait(const struct pop *pop, struct call *call, int64_t deadline_us);

#endif

/* Random draws from pairs: what HRANDFIELD and ZRANDMEMBER share. */
#ifndef KELVIN_COMMANDS_DRAW_H
#define KELVIN_COMMANDS_DRAW_H

#include <stdbool.h>
#include <stddef.h>

#include "call/call.h"

/* Redis accepts any number of draws and fills its memory with the reply; Kelvin draws at most this often. */
enum { DRAWS_MAX = 1 << 24 };

/* Drawing until enough different pairs were found is fast if at most 1/3 of all are wanted. */
enum { DRAW_SPARSE_FACTOR = 3 };

struct draw {
    struct call *call;
    const struct value *value;
    size_t count;           /* number of pairs in the reply */
    bool repeats;           /* each draw is from all pairs: the count was negative */
    bool with_seconds;      /* values or scores, too: `word` was given */
};

/* key count [word]. False: the error was replied. */
bool draw_parse(struct draw *draw, struct call *call, const char *word);

void draw_reply_count(const struct draw *draw);
/* Before each pair: opens an array in RESP3 if the pair has its second. */
void draw_reply_pair(const struct draw *draw);

#endif

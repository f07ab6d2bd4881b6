/* Random draws: what HRANDFIELD and ZRANDMEMBER share: key [count [word]]. */
#ifndef KELVIN_COMMANDS_DRAW_H
#define KELVIN_COMMANDS_DRAW_H

#include <stdbool.h>
#include <stddef.h>

#include "call/key.h"

/* Redis accepts any number of draws and fills its memory with the reply; Kelvin draws at most this often. */
enum { DRAWS_MAX = 1 << 24 };

struct draw {
    struct call *call;
    const struct value *value;      /* the key's */
    uint32_t missed;        /* draws whose elements are missing */
    size_t count;           /* number of elements in the reply */
    bool repeats;           /* each draw is from all elements: the count was negative */
    bool with_seconds;      /* values or scores, too: `word` was given */
};

enum { DRAW_MISSES_MAX = 1 << 16 };     /* before they are asked for */

/* A collection to draw from. Each function replies what it draws, or counts what is missing. */
struct draw_source {
    enum value_type type;
    const char *word;                                   /* asks for values or scores */
    size_t (*count)(const struct value *value);
    bool (*is_compact)(const struct value *value);      /* one element is not found faster than all of them */
    void (*one)(struct draw *draw);               /* from all elements */
    void (*walking)(struct draw *draw);           /* draw->count different ones, in one iteration over all */
    void (*sparsely)(struct draw *draw);          /* draw->count different ones, each drawn from all */
};

/* Runs the command. */
void draw_run(struct call *call, const struct draw_source *source);

/* Before each element: opens an array in RESP3 if the element has its second. */
void draw_reply_pair(const struct draw *draw);

#endif

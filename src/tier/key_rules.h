/* Key rules: what the operator says about keys, beside how often they are used: single keys by name (pins), others by pattern (TIER PIN, TIER RULE).
 *
 * Demotion asks them for each key that it looks at; calls of clients never do. A set of rules does not change: a change makes a copy, which
 * takes the old set's place when it has been saved. So demotion holds the set that is valid, and does not wait for it.
 *
 * As text, one line each, words as in a configuration file (config/config_words.h):
 *
 *   rule PATTERN never-cold | cold-first | min-idle SECONDS        in the order in which they are tried: the first pattern that matches decides
 *   pin DATABASE KEY                                               the name is pinned, whether the key is there or not; before all rules
 */
#ifndef KELVIN_TIER_KEY_RULES_H
#define KELVIN_TIER_KEY_RULES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/mutex.h"

struct key_rules;

enum { KEY_RULES_MAX = 64, KEY_RULES_PINS_MAX = 65536 };

enum key_rule_kind { KEY_RULE_NEVER_COLD, KEY_RULE_COLD_FIRST, KEY_RULE_MIN_IDLE };
struct key_rule {
    struct bytes pattern;       /* as of KEYS. Of a set: until that is released */
    enum key_rule_kind kind;
    int64_t idle_s;             /* KEY_RULE_MIN_IDLE: seconds */
};

/* --- a set --- */

/* Without any. One holder: the caller. */
struct key_rules *key_rules_create(void);
struct key_rules *key_rules_copy(const struct key_rules *rules);
void key_rules_release(const struct key_rules *rules);      /* any thread */

/* Changes, of a set that only its creator has. A pattern that is there keeps its place. False: there are KEY_RULES_MAX of them. */
bool key_rules_add(struct key_rules *rules, const struct key_rule *rule);
bool key_rules_remove(struct key_rules *rules, struct bytes pattern);       /* false: there is no such one */
enum key_rules_pinned { KEY_RULES_PINNED, KEY_RULES_WAS_PINNED, KEY_RULES_PINS_FULL };
enum key_rules_pinned key_rules_pin(struct key_rules *rules, int db, struct bytes key);
bool key_rules_unpin(struct key_rules *rules, int db, struct bytes key);    /* false: it is not pinned */

size_t key_rules_count(const struct key_rules *rules);
const struct key_rule *key_rules_at(const struct key_rules *rules, size_t index);
size_t key_rules_pin_count(const struct key_rules *rules);
void key_rules_visit_pins(const struct key_rules *rules, void (*visit)(void *context, int db, struct bytes key), void *context);    /* in no order */

/* Judges a key that was not used for `idle_s` seconds. */
enum key_rules_verdict {
    KEY_RULES_BY_USES,              /* nothing is said about it */
    KEY_RULES_KEEP,                 /* it stays in RAM */
    KEY_RULES_FIRST,                /* it goes before all that others have */
};
enum key_rules_verdict key_rules_judge(const struct key_rules *rules, int db, struct bytes key, int64_t idle_s);

/* --- the set that is valid --- */

struct rulebook {
    struct mutex changing;              /* held from the copy of the rules until the changed ones are saved and valid; before the partitions */
    struct mutex lock;                  /* leaf */
    const struct key_rules *rules;          /* lock */
    _Atomic bool is_empty;              /* so that demotion need not look */
};

void rulebook_init(struct rulebook *book);
void rulebook_destroy(struct rulebook *book);
/* To be released. Any thread. */
const struct key_rules *rulebook_hold(struct rulebook *book);
/* The same for demotion: NULL if there are none. key_rules_release(NULL) is fine. */
static inline const struct key_rules *rulebook_hold_if_any(struct rulebook *book)
{
    return atomic_load_explicit(&book->is_empty, memory_order_acquire) ? NULL : rulebook_hold(book);
}
/* Takes the place of the others; the caller's hold is the book's. */
void rulebook_replace(struct rulebook *book, const struct key_rules *rules);

#endif

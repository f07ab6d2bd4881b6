#include "tier/key_rules.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/xxh3.h"
#include "tier/keyed.h"

struct key_rules {
    _Atomic unsigned holders;
    struct key_rule *list;          /* patterns are their own memory */
    size_t count;
    struct keyed pins;          /* struct pin */
};

struct pin {
    struct keyed_node node;     /* its key follows it */
    int db;
};

/* The partitions' hash is not used: its seed changes when a replica takes over the data of its primary. */
static uint64_t hash_of(int db, struct bytes key)
{
    return xxh3(key) + (uint64_t)db * UINT64_C(0x9e3779b97f4a7c15);
}

struct key_rules *key_rules_create(void)
{
    struct key_rules *rules = mem_zalloc(sizeof(*rules));

    rules->holders = 1;
    keyed_init(&rules->pins);
    return rules;
}

static void pin_in(void *context, int db, struct bytes key)
{
    (void)key_rules_pin(context, db, key);
}

struct key_rules *key_rules_copy(const struct key_rules *rules)
{
    struct key_rules *copy = key_rules_create();

    for (size_t i = 0; i < rules->count; i++)
        (void)key_rules_add(copy, &rules->list[i]);
    key_rules_visit_pins(rules, pin_in, copy);
    return copy;
}

void key_rules_release(const struct key_rules *rules)
{
    struct key_rules *mine = (struct key_rules *)rules;
    struct keyed_node *node;
    size_t slot = 0;

    if (mine == NULL || atomic_fetch_sub(&mine->holders, 1) > 1)
        return;
    while ((node = keyed_any(&mine->pins, &slot)) != NULL) {
        keyed_remove(&mine->pins, node);
        mem_free(node);
        slot = 0;
    }
    keyed_release(&mine->pins);
    for (size_t i = 0; i < mine->count; i++)
        mem_free((char *)mine->list[i].pattern.data);
    mem_free(mine->list);
    mem_free(mine);
}

static size_t find_rule(const struct key_rules *rules, struct bytes pattern)
{
    size_t at = 0;

    while (at < rules->count && !bytes_equal(rules->list[at].pattern, pattern))
        at++;
    return at;
}

bool key_rules_add(struct key_rules *rules, const struct key_rule *rule)
{
    size_t at = find_rule(rules, rule->pattern);

    if (at == KEY_RULES_MAX)
        return false;
    if (at == rules->count) {
        rules->list = mem_realloc(rules->list, (rules->count + 1) * sizeof(*rules->list));
        rules->list[rules->count++].pattern = bytes_of(mem_string(rule->pattern), rule->pattern.size);
    }
    rules->list[at].kind = rule->kind;
    rules->list[at].idle_s = rule->kind == KEY_RULE_MIN_IDLE ? rule->idle_s : 0;
    return true;
}

bool key_rules_remove(struct key_rules *rules, struct bytes pattern)
{
    size_t at = find_rule(rules, pattern);

    if (at == rules->count)
        return false;
    mem_free((char *)rules->list[at].pattern.data);
    rules->count--;
    memmove(rules->list + at, rules->list + at + 1, (rules->count - at) * sizeof(*rules->list));
    return true;
}

static bool is_pinned(const struct key_rules *rules, int db, struct bytes key)
{
    return rules->pins.count > 0 && keyed_find(&rules->pins, hash_of(db, key), key) != NULL;
}

enum key_rules_pinned key_rules_pin(struct key_rules *rules, int db, struct bytes key)
{
    struct pin *pin;

    if (is_pinned(rules, db, key))
        return KEY_RULES_WAS_PINNED;
    if (rules->pins.count == KEY_RULES_PINS_MAX)
        return KEY_RULES_PINS_FULL;
    pin = mem_alloc(sizeof(*pin) + key.size);
    if (key.size > 0)
        memcpy(pin + 1, key.data, key.size);
    pin->node = (struct keyed_node){ .hash = hash_of(db, key), .key = bytes_of((char *)(pin + 1), key.size) };
    pin->db = db;
    keyed_add(&rules->pins, &pin->node);
    return KEY_RULES_PINNED;
}

bool key_rules_unpin(struct key_rules *rules, int db, struct bytes key)
{
    struct keyed_node *node = keyed_find(&rules->pins, hash_of(db, key), key);

    if (node == NULL)
        return false;
    keyed_remove(&rules->pins, node);
    mem_free(node);
    return true;
}

size_t key_rules_count(const struct key_rules *rules)
{
    return rules->count;
}

const struct key_rule *key_rules_at(const struct key_rules *rules, size_t index)
{
    return &rules->list[index];
}

size_t key_rules_pin_count(const struct key_rules *rules)
{
    return rules->pins.count;
}

void key_rules_visit_pins(const struct key_rules *rules, void (*visit)(void *context, int db, struct bytes key), void *context)
{
    for (size_t slot = 0; slot < rules->pins.slot_count; slot++) {
        for (const struct keyed_node *node = rules->pins.slots[slot]; node != NULL; node = node->next)
            visit(context, ((const struct pin *)node)->db, node->key);
    }
}

enum key_rules_verdict key_rules_judge(const struct key_rules *rules, int db, struct bytes key, int64_t idle_s)
{
    if (is_pinned(rules, db, key))
        return KEY_RULES_KEEP;
    for (size_t i = 0; i < rules->count; i++) {
        const struct key_rule *rule = &rules->list[i];

        if (!text_matches(rule->pattern, key, TEXT_CASE_EXACT))
            continue;
        switch (rule->kind) {
        case KEY_RULE_NEVER_COLD: return KEY_RULES_KEEP;
        case KEY_RULE_COLD_FIRST: return KEY_RULES_FIRST;
        case KEY_RULE_MIN_IDLE: return idle_s < rule->idle_s ? KEY_RULES_KEEP : KEY_RULES_BY_USES;
        }
    }
    return KEY_RULES_BY_USES;
}

void rulebook_init(struct rulebook *book)
{
    mutex_init(&book->changing);
    mutex_init(&book->lock);
    book->rules = key_rules_create();
    book->is_empty = true;
}

void rulebook_destroy(struct rulebook *book)
{
    key_rules_release(book->rules);
    mutex_release(&book->lock);
    mutex_release(&book->changing);
}

const struct key_rules *rulebook_hold(struct rulebook *book)
{
    const struct key_rules *rules;

    mutex_lock(&book->lock);
    rules = book->rules;
    atomic_fetch_add(&((struct key_rules *)rules)->holders, 1);
    mutex_unlock(&book->lock);
    return rules;
}

void rulebook_replace(struct rulebook *book, const struct key_rules *rules)
{
    const struct key_rules *old;

    mutex_lock(&book->lock);
    old = book->rules;
    book->rules = rules;
    atomic_store_explicit(&book->is_empty, rules->count == 0 && rules->pins.count == 0, memory_order_release);
    mutex_unlock(&book->lock);
    key_rules_release(old);
}

/* SPOP key [count]: removes and returns random members. SRANDMEMBER key [count]: one random member; `count` different ones; or,
 * if count is negative, that many draws, each from all members. */
#include "call/call.h"
#include "call/key.h"
#include "commands/draw.h"
#include "commands/handlers.h"
#include "value/set.h"

enum { WORDS_LOGGED_MAX = 1026 };       /* of one SREM in the log of an SPOP, as in Redis 7.2 */

/* Stores the set, or removes the key if it is empty. Each member counts as a change. */
static void put_back(struct key *key, size_t popped)
{
    struct call *call = key->call;
    uint64_t changes = call->change_count;

    key_changed(key, EVENT_SPOP);
    if (set_count(&key->value) == 0)
        key_remove(key, KEY_REMOVE_NOW, EVENT_DEL);
    call->change_count = changes + popped;
}

static void pop_one(struct call *call)
{
    char digits[TEXT_INT_SIZE];
    struct bytes words[3], member;
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_SET, &key))
        return;
    if (!key.present) {
        reply_null(call->reply);
        return;
    }
    words[0] = BYTES("SREM");
    words[1] = call->args[1];
    if (!set_random(&key.value, &call->turn->random, digits, &member)) {
        key_ask(&key);
        return;
    }
    words[2] = arena_copy(call->arena, member);
    set_remove(&key.value, words[2]);
    put_back(&key, 1);
    call_propagate(call, words, 3);
    reply_bulk(call->reply, words[2]);
}

static void pop_all(struct call *call, struct key *key)
{
    const struct bytes words[] = { BYTES("DEL"), call->args[1] };
    uint64_t changes = call->change_count;
    size_t count = set_count(&key->value);
    struct set_iterator iterator;
    struct bytes member;

    if (!set_has_all(&key->value)) {
        key_ask(key);
        return;
    }
    reply_set(call->reply, count);
    set_iterate(&iterator, &key->value);
    while (set_next(&iterator, &member))
        reply_bulk(call->reply, member);
    key_event(key, EVENT_SPOP);
    key_remove(key, KEY_REMOVE_LAZILY, EVENT_DEL);
    call->change_count = changes + count;
    call_propagate(call, words, 2);
}

/* Copies of the members that were drawn, with room for two words of a command before them. */
struct drawn {
    struct arena *arena;
    struct bytes *words;
    size_t count;
};

static void note_drawn(void *context, struct bytes member)
{
    struct drawn *drawn = context;

    drawn->words[2 + drawn->count++] = arena_copy(drawn->arena, member);
}

/* Logs SREM key member ..., in parts of a limited size. The words before each part are overwritten, as they have been logged. */
static void log_as_srem(struct call *call, struct bytes *words, size_t count)
{
    size_t done = 0;

    while (done < count) {
        size_t part = count - done < WORDS_LOGGED_MAX - 2 ? count - done : WORDS_LOGGED_MAX - 2;

        words[done] = BYTES("SREM");
        words[done + 1] = call->args[1];
        call_propagate(call, words + done, (int)part + 2);
        done += part;
    }
}

static void pop_some(struct call *call, struct key *key, size_t count)
{
    struct drawn drawn = { call->arena, arena_alloc(call->arena, (count + 2) * sizeof(struct bytes)), 0 };

    if (!set_sample(&key->value, &call->turn->random, count, note_drawn, &drawn)) {
        key_ask(key);
        return;
    }
    reply_set(call->reply, count);
    for (size_t i = 0; i < count; i++)
        reply_bulk(call->reply, drawn.words[2 + i]);
    set_remove_sample(&key->value, drawn.words + 2, count);
    put_back(key, count);
    log_as_srem(call, drawn.words, count);
}

static void pop_several(struct call *call)
{
    struct key key;
    int64_t count;

    if (!arg_integer_between(call, 2, 0, INT64_MAX, "ERR value is out of range, must be positive", &count) ||
        !key_open_as(call, 1, KEY_FOR_WRITING, VALUE_SET, &key))
        return;
    if (!key.present || count == 0)
        reply_set(call->reply, 0);
    else if ((uint64_t)count >= set_count(&key.value))
        pop_all(call, &key);
    else
        pop_some(call, &key, (size_t)count);
}

void spop_command(struct call *call)
{
    if (call->arg_count > 3)
        reply_error(call, ERR_SYNTAX);
    else if (call->arg_count == 3)
        pop_several(call);
    else
        pop_one(call);
}

static void draw_one(struct call *call)
{
    char digits[TEXT_INT_SIZE];
    struct bytes member;
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_SET, &key))
        return;
    if (!key.present)
        reply_null(call->reply);
    else if (set_random(&key.value, &call->turn->random, digits, &member))
        reply_bulk(call->reply, member);
    else
        key_ask(&key);
}

static void reply_member(void *context, struct bytes member)
{
    reply_bulk(context, member);
}

static void draw_different(struct call *call, struct key *key, size_t count)
{
    if (count > set_count(&key->value))
        count = set_count(&key->value);
    reply_array(call->reply, count);
    if (!set_sample(&key->value, &call->turn->random, count, reply_member, call->reply))
        key_ask(key);
}

static void draw_with_repeats(struct call *call, struct key *key, size_t count)
{
    char digits[TEXT_INT_SIZE];
    uint32_t missed = 0;

    if (count > DRAWS_MAX) {
        reply_error(call, ERR_OUT_OF_RANGE);
        return;
    }
    reply_array(call->reply, count);
    for (size_t i = 0; i < count && missed < DRAW_MISSES_MAX; i++) {
        struct bytes member;

        if (set_random(&key->value, &call->turn->random, digits, &member))
            reply_bulk(call->reply, member);
        else
            missed++;
    }
    if (missed > 0)
        key_ask(key);
}

static void draw_several(struct call *call)
{
    struct key key;
    int64_t count;

    if (!arg_integer(call, 2, &count))
        return;
    if (count < -INT64_MAX) {
        reply_errorf(call, "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");
        return;
    }
    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_SET, &key))
        return;
    if (!key.present || count == 0)
        reply_array(call->reply, 0);
    else if (count > 0)
        draw_different(call, &key, (size_t)count);
    else
        draw_with_repeats(call, &key, (size_t)-count);
}

void srandmember_command(struct call *call)
{
    if (call->arg_count > 3)
        reply_error(call, ERR_SYNTAX);
    else if (call->arg_count == 3)
        draw_several(call);
    else
        draw_one(call);
}

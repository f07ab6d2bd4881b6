/* Storm: several workers with several clients each do everything at once to keys that are hot, cold, on their way, expiring,
 * flushed or swapped, while a model knows what every key must hold.
 *
 * A call takes effect when it is replied to (a parked one runs again from the top), and a key belongs to one worker; so the model,
 * which is changed when the reply comes, is exact, even with several calls under way. What a job's thread replies
 * (DBSIZE, SCAN, WHERE) was true at some moment since it was asked.
 */
#include "support/unit.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/random.h"
#include "base/text.h"
#include "engine/cron.h"
#include "engine/memory.h"
#include "support/image_box.h"
#include "support/page_values.h"
#include "support/scaled.h"
#include "support/tier_box.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { CALLS = 8000 };
#else
enum { CALLS = 40000 };
#endif

enum {
    THREADS = 3,
    OUTAGES = 4,
    CLIENTS = 5,
    SPACES = 3,             /* of each thread: its keys in database 0, and two databases of its own */
    KEYS = 120,
    FIELDS = 6,
    COUNTERS = 4,           /* all threads increment them, in database 0 */
    KEY_ROOM = 5000,
    BIG_KEYS = 600,         /* of one call; it needs the one token for such */
    BIG_VALUE = 100000,     /* is encoded without a lock */
    DICTIONARY_AFTER = 32 * 1024,   /* so that some are made */
};

/* What the disk does meanwhile. */
enum weather { FAIR, WRITES_FAIL, READS_FAIL, MEMORY_SHORT };

enum operation {
    OP_SET, OP_SET_EXPIRING, OP_SET_GET, OP_APPEND, OP_GET, OP_MGET, OP_BIG, OP_DEL, OP_GETDEL, OP_EXPIREAT, OP_PERSIST, OP_RENAME, OP_COPY, OP_COPY_NEW,
    OP_HSET, OP_HGET, OP_HDEL, OP_STRLEN, OP_EXISTS, OP_INCR, OP_DEMOTE, OP_WHERE, OP_DBSIZE, OP_SCAN, OP_RANDOMKEY, OP_FLUSHDB,
    OP_SWAPDB, OP_COUNT
};

struct model_key {
    bool present;
    bool is_hash;
    bool lingers;                   /* expired: no lookup finds it, but a value that is held (latched, or to be sealed) is counted for a while */
    bool unsure;                    /* a reply could not show whether it had expired: anything may be there */
    int64_t expire_ms;              /* -1: never */
    uint64_t since;                 /* number of the call that made it so */
    struct buffer value;            /* of strings */
    uint32_t fields[FIELDS];        /* of hashes; 0: not there */
};

struct walk {
    bool on, spoiled;
    int space;
    uint64_t began, cursor;
    bool seen[KEYS];
};

struct storm;
struct storm_thread;

struct task {
    struct box_client *client;
    struct storm_thread *thread;
    enum operation operation;
    int space, key, other, other_space, field;
    uint32_t number;
    int64_t expire_ms;
    struct buffer value;
    uint64_t asked;                 /* number of the last call replied to when it was asked */
    uint64_t count_low, count_high; /* of keys in its space since then */
    struct walk walk;
};

struct storm_thread {
    struct storm *storm;
    int index;
    pthread_t thread;
    struct random random;
    struct box_worker *worker;
    struct model_key keys[SPACES][KEYS];
    char *names[SPACES][KEYS];
    size_t name_sizes[SPACES][KEYS];
    struct task tasks[CLIENTS];
    uint64_t answered, answered_before;
    int64_t progress_us;
    uint32_t number;
    int64_t counters_seen[COUNTERS];
    struct page_values *pages;      /* in database 0, which is never flushed, and in the thread's own */
};

struct storm {
    struct tier_box box;
    enum weather weather;
    bool is_packed;                         /* records are written packed, now and then not, by dictionaries that are made and replaced meanwhile */
    struct storm_thread threads[THREADS];
    _Atomic int64_t counters[COUNTERS];
    _Atomic bool over;
    uint64_t images, images_failed;         /* the imager's, then the verifier's */
};

#define DEMAND(thread, cond, ...) BOX_DEMAND(&(thread)->storm->box, cond, __VA_ARGS__)

static int pick(struct storm_thread *thread, int limit)
{
    return (int)random_below(&thread->random, (uint64_t)limit);
}

static int database_of(const struct storm_thread *thread, int space)
{
    return space == 0 ? 0 : 2 * thread->index + space;
}

/* Sizes around every boundary of the key's form; the empty key once in a database. */
static void make_names(struct storm_thread *thread)
{
    static const size_t sizes[] = { 0, 254, 255, 256, 2047, 2048, 2049, KEY_ROOM };

    for (int space = 0; space < SPACES; space++) {
        for (int i = 0; i < KEYS; i++) {
            char *name = mem_alloc(KEY_ROOM + 1);
            size_t size = (size_t)snprintf(name, 40, "thread:%d:key:%d:", thread->index, i), wanted = sizes[i % 8];

            memset(name + size, 'x', KEY_ROOM - size);
            if (i == 0 && space > 0)
                size = 0;
            else if (i < 32 && wanted > size)
                size = wanted;
            thread->names[space][i] = name;
            thread->name_sizes[space][i] = size;
        }
    }
}

static struct bytes name_of(const struct storm_thread *thread, int space, int key)
{
    return bytes_of(thread->names[space][key], thread->name_sizes[space][key]);
}

static struct model_key *key_of(struct storm_thread *thread, int space, int key)
{
    return &thread->keys[space][key];
}

/* Strings of all encodings: empty, integers, embedded, and around the limit of what fits in an entry. */
static void make_value(struct storm_thread *thread, struct buffer *value)
{
    static const size_t sizes[] = { 0, 3, 17, 44, 45, 130, 700, 2000, 4095, 4096, 4097, 9000 };
    uint32_t number = ++thread->number;
    size_t size = sizes[pick(thread, 12)];

    value->size = 0;
    if (pick(thread, 25) == 0)
        size = BIG_VALUE;
    if (pick(thread, 4) == 0) {
        buffer_append_format(value, "%s%u", pick(thread, 2) ? "-" : "", number);
        return;
    }
    while (value->size < size)
        buffer_append_u8(value, (uint8_t)('a' + (number + value->size * 7) % 26));
    for (uint32_t i = 0, left = number; i < 3 && i < size; i++, left /= 94)
        value->data[i] = (char)('!' + left % 94);
}

/* The model. */

enum presence { ABSENT, PRESENT, EITHER };

/* A worker goes by its own clock, which does not move during a turn; others may have removed the key since. */
static enum presence presence_of(struct storm_thread *thread, const struct model_key *key)
{
    if (!key->present)
        return ABSENT;
    if (key->expire_ms < 0)
        return PRESENT;
    if (key->expire_ms <= thread->worker->worker.turn.now_ms)
        return ABSENT;
    return clock_wall_ms() < key->expire_ms ? PRESENT : EITHER;
}

static void clear_key(struct storm_thread *thread, struct model_key *key)
{
    if (key->present || key->unsure)
        key->since = thread->answered;
    key->present = key->is_hash = key->unsure = key->lingers = false;
    key->expire_ms = -1;
    key->value.size = 0;
    memset(key->fields, 0, sizeof(key->fields));
}

/* Whether the key was there when the call ran; the answer may decide. Afterwards the model is sure. */
static bool settle_key(struct storm_thread *thread, struct model_key *key, bool answer_says)
{
    enum presence presence = presence_of(thread, key);
    bool there = presence == EITHER ? answer_says : presence == PRESENT;

    if (!there) {
        bool lingers = key->lingers || key->expire_ms >= 0;

        clear_key(thread, key);
        key->lingers = lingers;
    }
    return there;
}

static void put_string(struct storm_thread *thread, struct model_key *key, const struct buffer *value, int64_t expire_ms)
{
    if (key->unsure || presence_of(thread, key) != PRESENT)
        key->since = thread->answered;
    key->present = true;
    key->is_hash = key->unsure = key->lingers = false;
    key->expire_ms = expire_ms;
    key->value.size = 0;
    buffer_append(&key->value, value->data, value->size);
}

static void copy_key(struct storm_thread *thread, struct model_key *to, const struct model_key *from)
{
    if (to->unsure || presence_of(thread, to) != PRESENT)
        to->since = thread->answered;
    to->present = true;
    to->lingers = false;
    to->unsure = false;
    to->is_hash = from->is_hash;
    to->expire_ms = from->expire_ms;
    to->value.size = 0;
    buffer_append(&to->value, from->value.data, from->value.size);
    memcpy(to->fields, from->fields, sizeof(to->fields));
}

/* Keys of a space: certainly there, and perhaps there (expired ones count until an access finds them). */
static void count_keys(struct storm_thread *thread, int space, uint64_t *low, uint64_t *high)
{
    int64_t now_ms = clock_wall_ms();

    *low = *high = 0;
    for (int i = 0; i < KEYS; i++) {
        const struct model_key *key = key_of(thread, space, i);

        *low += !key->unsure && key->present && (key->expire_ms < 0 || key->expire_ms > now_ms);
        *high += key->unsure || key->present || key->lingers;
    }
}

/* Replies. */

struct answer {
    char kind;                      /* '+', '-', ':', '$', '*' */
    int64_t number;                 /* of integers and arrays; -1: null */
    struct bytes bytes;             /* of bulks, statuses and errors */
};

static struct answer answer_next(const struct buffer *out, size_t *at)
{
    const char *begin = out->data + *at, *end = memchr(begin, '\r', out->size - *at);
    struct answer answer = { .kind = *begin, .number = -1 };

    CHECK(end != NULL);
    *at = (size_t)(end + 2 - out->data);
    answer.bytes = bytes_of(begin + 1, (size_t)(end - begin - 1));
    if (answer.kind == '+' || answer.kind == '-')
        return answer;
    CHECK(text_to_int(answer.bytes, &answer.number));
    if (answer.kind == '$' && answer.number >= 0) {
        answer.bytes = bytes_of(out->data + *at, (size_t)answer.number);
        *at += (size_t)answer.number + 2;
    }
    return answer;
}

#define EXPECT(task, cond) \
    DEMAND((task)->thread, cond, "thread %d, operation %d, space %d, key %d, other %d in %d: replied %.*s", (task)->thread->index, \
        (int)(task)->operation, (task)->space, (task)->key, (task)->other, (task)->other_space, \
        (int)((task)->client->client.reply.out.size < 60 ? (task)->client->client.reply.out.size : 60), \
        (task)->client->client.reply.out.data)

static bool is_error(const struct answer *answer, const char *text)
{
    size_t size = strlen(text);

    return answer->kind == '-' && answer->bytes.size >= size && memcmp(answer->bytes.data, text, size) == 0;
}

static void check_value(struct task *task, struct model_key *key, const struct answer *answer)
{
    bool there;

    if (key->unsure)
        return;
    there = settle_key(task->thread, key, answer->number >= 0 || answer->kind == '-');
    if (there && key->is_hash) {
        EXPECT(task, answer->kind == '-' && is_error(answer, "WRONGTYPE"));
        return;
    }
    EXPECT(task, answer->kind == '$' && there == (answer->number >= 0));
    EXPECT(task, !there || bytes_equal(answer->bytes, buffer_bytes(&key->value)));
}

static void check_integer(struct task *task, const struct answer *answer, int64_t number)
{
    EXPECT(task, answer->kind == ':' && answer->number == number);
}

/* True if the answer is that the key is of another type; that changes nothing. */
static bool is_wrong_type(struct task *task, const struct answer *answer, struct model_key *key, bool wants_hash)
{
    if (answer->kind != '-' || !is_error(answer, "WRONGTYPE"))
        return false;
    EXPECT(task, settle_key(task->thread, key, true) && key->is_hash != wants_hash);
    return true;
}

/* The reply does not show whether the key had expired: its state is unknown until it is overwritten. */
static bool make_unsure(struct storm_thread *thread, struct model_key *key)
{
    if (presence_of(thread, key) != EITHER)
        return false;
    key->unsure = true;
    key->since = thread->answered;
    return true;
}

static void answered_append(struct task *task, struct model_key *key, const struct answer *answer)
{
    if (is_wrong_type(task, answer, key, false))
        return;
    EXPECT(task, answer->kind == ':');
    if (key->value.size == 0 && make_unsure(task->thread, key))
        return;
    if (!settle_key(task->thread, key, answer->number > (int64_t)task->value.size)) {
        put_string(task->thread, key, &task->value, -1);
    } else {
        EXPECT(task, !key->is_hash);
        buffer_append(&key->value, task->value.data, task->value.size);
    }
    check_integer(task, answer, (int64_t)key->value.size);
}

static void answered_hash(struct task *task, struct model_key *key, const struct answer *answer)
{
    char digits[TEXT_INT_SIZE];
    bool there, left = false;

    if (is_wrong_type(task, answer, key, true) || make_unsure(task->thread, key))
        return;
    there = settle_key(task->thread, key, false);
    EXPECT(task, !there || key->is_hash);
    switch (task->operation) {
    case OP_HSET:
        check_integer(task, answer, key->fields[task->field] == 0);
        if (!key->present)
            key->since = task->thread->answered;
        key->present = key->is_hash = true;
        key->lingers = false;
        key->fields[task->field] = task->number;
        break;
    case OP_HGET:
        EXPECT(task, answer->kind == '$' && (answer->number >= 0) == (key->fields[task->field] != 0));
        EXPECT(task, answer->number < 0 ||
            bytes_equal(answer->bytes, bytes_of(digits, text_of_int(key->fields[task->field], digits))));
        break;
    default:
        check_integer(task, answer, key->fields[task->field] != 0);
        key->fields[task->field] = 0;
        for (int i = 0; i < FIELDS; i++)
            left = left || key->fields[i] != 0;
        if (!left)
            clear_key(task->thread, key);
    }
}

static void answered_rename(struct task *task, struct model_key *key, const struct answer *answer)
{
    struct model_key *other = key_of(task->thread, task->space, task->other);

    if (!settle_key(task->thread, key, answer->kind == '+')) {
        EXPECT(task, answer->kind == '-' && bytes_is(answer->bytes, "ERR no such key"));
        return;
    }
    EXPECT(task, answer->kind == '+');
    if (other == key)
        return;
    copy_key(task->thread, other, key);
    clear_key(task->thread, key);
}

static void answered_copy(struct task *task, struct model_key *key, const struct answer *answer)
{
    struct model_key *other = key_of(task->thread, task->other_space, task->other);

    if (other == key) {
        EXPECT(task, answer->kind == '-');
        return;
    }
    EXPECT(task, answer->kind == ':');
    if (task->operation == OP_COPY_NEW && (other->unsure || presence_of(task->thread, key) == EITHER)) {
        other->unsure = true;
        other->since = task->thread->answered;
        return;
    }
    if (!settle_key(task->thread, key, answer->number == 1) ||
        (task->operation == OP_COPY_NEW && settle_key(task->thread, other, answer->number == 0))) {
        check_integer(task, answer, 0);
    } else {
        check_integer(task, answer, 1);
        copy_key(task->thread, other, key);
    }
}

static void answered_expireat(struct task *task, struct model_key *key, const struct answer *answer)
{
    bool there = settle_key(task->thread, key, answer->number == 1);

    check_integer(task, answer, there);
    if (there && task->expire_ms <= task->thread->worker->worker.turn.now_ms)
        clear_key(task->thread, key);
    else if (there)
        key->expire_ms = task->expire_ms;
}

static void spoil_walks(struct storm_thread *thread, int space)
{
    for (int i = 0; i < CLIENTS; i++) {
        if (thread->tasks[i].walk.on && thread->tasks[i].walk.space == space)
            thread->tasks[i].walk.spoiled = true;
    }
}

static void answered_flush(struct task *task)
{
    for (int i = 0; i < KEYS; i++)
        clear_key(task->thread, key_of(task->thread, task->space, i));
}

static void answered_swap(struct storm_thread *thread)
{
    for (int i = 0; i < KEYS; i++) {
        struct model_key *a = key_of(thread, 1, i), *b = key_of(thread, 2, i), saved = *a;

        *a = *b;
        *b = saved;
        if (a->present != b->present)
            a->since = b->since = thread->answered;
    }
    spoil_walks(thread, 1);
    spoil_walks(thread, 2);
}

/* Certain for all the time since `asked`. */
static bool was_always(const struct model_key *key, bool present, uint64_t asked)
{
    return !key->unsure && key->present == present && key->since <= asked && (!present || key->expire_ms < 0);
}

static void answered_where(struct task *task, struct model_key *key, const struct answer *answer)
{
    EXPECT(task, answer->kind == '$');
    if (task->space > 0)
        return;                 /* it may have been swapped meanwhile */
    EXPECT(task, answer->number >= 0 || !was_always(key, true, task->asked));
    EXPECT(task, answer->number < 0 || !was_always(key, false, task->asked));
}

static int key_of_name(const struct storm_thread *thread, int space, struct bytes name)
{
    for (int i = 0; i < KEYS; i++) {
        if (bytes_equal(name, name_of(thread, space, i)))
            return i;
    }
    return -1;
}

static void walk_end(struct task *task)
{
    struct walk *walk = &task->walk;

    for (int i = 0; i < KEYS && !walk->spoiled; i++) {
        const struct model_key *key = key_of(task->thread, walk->space, i);

        DEMAND(task->thread, walk->seen[i] || !was_always(key, true, walk->began), "SCAN did not show key %d of space %d", i, walk->space);
        DEMAND(task->thread, !walk->seen[i] || !was_always(key, false, walk->began), "SCAN showed key %d of space %d", i, walk->space);
    }
    walk->on = false;
}

static void answered_scan(struct task *task, size_t at)
{
    const struct buffer *out = &task->client->client.reply.out;
    struct walk *walk = &task->walk;
    struct answer cursor = answer_next(out, &at), keys = answer_next(out, &at);
    int64_t number;

    EXPECT(task, cursor.kind == '$' && keys.kind == '*' && text_to_int(cursor.bytes, &number));
    walk->cursor = (uint64_t)number;
    for (int64_t i = 0; i < keys.number; i++) {
        struct answer name = answer_next(out, &at);
        int key = key_of_name(task->thread, walk->space, name.bytes);

        EXPECT(task, key >= 0 || walk->space == 0);
        if (key >= 0)
            walk->seen[key] = true;
    }
    if (walk->cursor == 0)
        walk_end(task);
}

static void answered_incr(struct task *task, const struct answer *answer)
{
    EXPECT(task, answer->kind == ':' && answer->number > task->thread->counters_seen[task->key]);
    task->thread->counters_seen[task->key] = answer->number;
    task->thread->storm->counters[task->key]++;
}

static bool is_failure(struct task *task, const struct answer *answer)
{
    bool unreadable = answer->kind == '-' && is_error(answer, "ERR the key's record can't be read");
    bool unwritable = answer->kind == '-' && task->operation == OP_DEMOTE;
    bool short_of_memory = is_error(answer, "OOM ") || is_error(answer, "ERR this call needs about");

    if (short_of_memory)
        EXPECT(task, task->thread->storm->weather == MEMORY_SHORT);
    if (short_of_memory)
        return true;
    if (!unreadable && !unwritable)
        return false;
    EXPECT(task, task->thread->storm->weather != FAIR);
    /* A store whose reopening fails half way is down for reading, too, until the next attempt. */
    EXPECT(task, !unreadable || task->thread->storm->weather == READS_FAIL ||
        (task->thread->storm->weather == WRITES_FAIL && task->thread->storm->box.tier->statistics.errors > 1));
    if (task->operation == OP_SCAN)
        task->walk.on = false;
    return true;
}

static void fold_counts(struct task *task)
{
    uint64_t low, high;

    count_keys(task->thread, task->space, &low, &high);
    task->count_low = low < task->count_low ? low : task->count_low;
    task->count_high = high > task->count_high ? high : task->count_high;
}

static void note_counts(struct storm_thread *thread)
{
    for (int i = 0; i < CLIENTS; i++) {
        if (thread->tasks[i].client->busy && thread->tasks[i].operation == OP_DBSIZE)
            fold_counts(&thread->tasks[i]);
    }
}

/* The key may hold anything. True if the answer says nothing that can be checked. */
static bool is_blind(struct task *task)
{
    struct storm_thread *thread = task->thread;
    struct model_key *other;

    switch (task->operation) {
    case OP_RENAME:
    case OP_COPY:
    case OP_COPY_NEW:
        other = key_of(thread, task->operation == OP_RENAME ? task->space : task->other_space, task->other);
        other->unsure = true;
        other->since = thread->answered;
        return true;
    case OP_SET_GET:
    case OP_APPEND:
    case OP_GET:
    case OP_GETDEL:
    case OP_EXPIREAT:
    case OP_PERSIST:
    case OP_HSET:
    case OP_HGET:
    case OP_HDEL:
    case OP_STRLEN:
    case OP_EXISTS:
    case OP_WHERE:
        return true;
    case OP_DEL:
        clear_key(thread, key_of(thread, task->space, task->key));
        return true;
    default:
        return false;
    }
}

static void answered(struct box_client *client)
{
    struct task *task = client->context;
    struct storm_thread *thread = task->thread;
    struct model_key *key = key_of(thread, task->space, task->operation == OP_INCR ? 0 : task->key);
    size_t at = 0;
    struct answer answer = answer_next(&client->client.reply.out, &at);

    thread->answered++;
    if (is_failure(task, &answer))
        return;
    note_counts(thread);            /* a key that this call creates may have expired before it: then it was not there for a while */
    if (key->unsure && is_blind(task)) {
        note_counts(thread);
        return;
    }
    switch (task->operation) {
    case OP_SET:
    case OP_SET_EXPIRING:
        EXPECT(task, answer.kind == '+');
        put_string(thread, key, &task->value, task->operation == OP_SET ? -1 : task->expire_ms);
        break;
    case OP_SET_GET:
        check_value(task, key, &answer);
        if (answer.kind != '-')
            put_string(thread, key, &task->value, -1);
        break;
    case OP_APPEND:
        answered_append(task, key, &answer);
        break;
    case OP_GET:
        check_value(task, key, &answer);
        break;
    case OP_MGET:
    case OP_BIG:
        for (int i = 0; i < (task->operation == OP_BIG ? BIG_KEYS : 8); i++) {
            struct model_key *one = key_of(thread, task->space, (task->key + i * 7) % KEYS);

            answer = answer_next(&client->client.reply.out, &at);
            EXPECT(task, answer.kind == '$' && (!one->is_hash || one->unsure || answer.number < 0));
            if (!one->is_hash)
                check_value(task, one, &answer);
        }
        break;
    case OP_DEL:
        check_integer(task, &answer, settle_key(thread, key, answer.number == 1));
        clear_key(thread, key);
        break;
    case OP_GETDEL:
        check_value(task, key, &answer);
        if (answer.kind != '-')
            clear_key(thread, key);
        break;
    case OP_EXPIREAT:
        answered_expireat(task, key, &answer);
        break;
    case OP_PERSIST:
        if (settle_key(thread, key, answer.number == 1)) {
            check_integer(task, &answer, key->expire_ms >= 0);
            key->expire_ms = -1;
        } else {
            check_integer(task, &answer, 0);
        }
        break;
    case OP_RENAME:
        answered_rename(task, key, &answer);
        break;
    case OP_COPY:
    case OP_COPY_NEW:
        answered_copy(task, key, &answer);
        break;
    case OP_HSET:
    case OP_HGET:
    case OP_HDEL:
        answered_hash(task, key, &answer);
        break;
    case OP_STRLEN:
        if (!is_wrong_type(task, &answer, key, false))
            check_integer(task, &answer, key->value.size > 0 && settle_key(thread, key, answer.number > 0) ? (int64_t)key->value.size : 0);
        break;
    case OP_EXISTS:
        check_integer(task, &answer, settle_key(thread, key, answer.number == 1));
        break;
    case OP_INCR:
        answered_incr(task, &answer);
        break;
    case OP_DEMOTE:
        EXPECT(task, answer.kind == ':' && answer.number >= 0);
        break;
    case OP_WHERE:
        answered_where(task, key, &answer);
        break;
    case OP_DBSIZE:
        EXPECT(task, answer.kind == ':');
        fold_counts(task);
        DEMAND(thread, (uint64_t)answer.number >= task->count_low && (uint64_t)answer.number <= task->count_high,
            "DBSIZE says %lld, there were %llu to %llu", (long long)answer.number, (unsigned long long)task->count_low,
            (unsigned long long)task->count_high);
        break;
    case OP_SCAN:
        EXPECT(task, answer.kind == '*' && answer.number == 2);
        answered_scan(task, at);
        break;
    case OP_RANDOMKEY:
        EXPECT(task, answer.kind == '$');
        break;
    case OP_FLUSHDB:
        EXPECT(task, answer.kind == '+');
        answered_flush(task);
        break;
    case OP_SWAPDB:
        EXPECT(task, answer.kind == '+');
        answered_swap(thread);
        break;
    case OP_COUNT:
        break;
    }
    note_counts(thread);
}

/* Asking. */

struct request {
    struct bytes words[BIG_KEYS + 1];
    int count;
    char numbers[6][TEXT_INT_SIZE];
    int number_count;
};

static void add_word(struct request *request, struct bytes word) { request->words[request->count++] = word; }
static void add_text(struct request *request, const char *word) { add_word(request, bytes_of_string(word)); }

static void add_number(struct request *request, int64_t number)
{
    char *digits = request->numbers[request->number_count++];

    add_word(request, bytes_of(digits, text_of_int(number, digits)));
}

static enum operation choose(struct storm_thread *thread)
{
    static const struct { enum operation operation; int weight; } table[] = {
        { OP_SET, 60 }, { OP_SET_EXPIRING, 10 }, { OP_SET_GET, 15 }, { OP_APPEND, 25 }, { OP_GET, 80 }, { OP_MGET, 20 }, { OP_BIG, 2 }, { OP_DEL, 40 },
        { OP_GETDEL, 10 }, { OP_EXPIREAT, 10 }, { OP_PERSIST, 10 }, { OP_RENAME, 15 }, { OP_COPY, 15 }, { OP_COPY_NEW, 10 }, { OP_HSET, 25 }, { OP_HGET, 15 },
        { OP_HDEL, 10 }, { OP_STRLEN, 10 }, { OP_EXISTS, 10 }, { OP_INCR, 25 }, { OP_DEMOTE, 60 }, { OP_WHERE, 10 }, { OP_DBSIZE, 15 },
        { OP_SCAN, 30 }, { OP_RANDOMKEY, 3 }, { OP_FLUSHDB, 2 }, { OP_SWAPDB, 4 },
    };
    int total = 0, at = 0, chosen;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        total += table[i].weight;
    chosen = pick(thread, total);
    while ((chosen -= table[at].weight) >= 0)
        at++;
    return table[at].operation;
}

static void begin_scan(struct task *task, struct request *request)
{
    struct walk *walk = &task->walk;

    if (!walk->on) {
        *walk = (struct walk){ .on = true, .space = task->space, .began = task->thread->answered };
    }
    task->space = walk->space;
    add_text(request, "SCAN");
    add_number(request, (int64_t)walk->cursor);
    add_text(request, "COUNT");
    add_number(request, 1 + pick(task->thread, 30));
}

static void make_request(struct task *task, struct request *request)
{
    static const char *const counters[COUNTERS] = { "counter:a", "counter:b", "counter:c", "counter:d" };
    static const char *const plain[OP_COUNT] = {
        [OP_GET] = "GET", [OP_DEL] = "DEL", [OP_GETDEL] = "GETDEL", [OP_PERSIST] = "PERSIST", [OP_STRLEN] = "STRLEN", [OP_EXISTS] = "EXISTS",
        [OP_DBSIZE] = "DBSIZE", [OP_RANDOMKEY] = "RANDOMKEY", [OP_FLUSHDB] = "FLUSHDB",
    };
    struct storm_thread *thread = task->thread;
    struct bytes name = name_of(thread, task->space, task->key);

    switch (task->operation) {
    case OP_SET:
    case OP_SET_EXPIRING:
    case OP_SET_GET:
        make_value(thread, &task->value);
        add_text(request, "SET"), add_word(request, name), add_word(request, buffer_bytes(&task->value));
        if (task->operation == OP_SET_EXPIRING)
            add_text(request, "PXAT"), add_number(request, task->expire_ms);
        if (task->operation == OP_SET_GET)
            add_text(request, "GET");
        break;
    case OP_APPEND:
        task->value.size = 0;
        buffer_append_string(&task->value, &"..more.."[pick(thread, 8)]);
        add_text(request, "APPEND"), add_word(request, name), add_word(request, buffer_bytes(&task->value));
        break;
    case OP_MGET:
    case OP_BIG:
    case OP_DEMOTE:
        add_text(request, task->operation == OP_DEMOTE ? "TIER" : "MGET");
        if (task->operation == OP_DEMOTE)
            add_text(request, "DEMOTE");
        for (int i = 0; i < (task->operation == OP_BIG ? BIG_KEYS : 8); i++)
            add_word(request, name_of(thread, task->space, (task->key + i * 7) % KEYS));
        if (task->operation == OP_DEMOTE && task->space == 0)
            add_text(request, counters[pick(thread, COUNTERS)]);
        break;
    case OP_EXPIREAT:
        add_text(request, "PEXPIREAT"), add_word(request, name), add_number(request, task->expire_ms);
        break;
    case OP_RENAME:
        add_text(request, "RENAME"), add_word(request, name), add_word(request, name_of(thread, task->space, task->other));
        break;
    case OP_COPY:
    case OP_COPY_NEW:
        add_text(request, "COPY"), add_word(request, name), add_word(request, name_of(thread, task->other_space, task->other));
        add_text(request, "DB"), add_number(request, database_of(thread, task->other_space));
        if (task->operation == OP_COPY)
            add_text(request, "REPLACE");
        break;
    case OP_HSET:
    case OP_HGET:
    case OP_HDEL:
        task->number = ++thread->number;
        add_text(request, task->operation == OP_HSET ? "HSET" : task->operation == OP_HGET ? "HGET" : "HDEL");
        add_word(request, name), add_number(request, task->field);
        if (task->operation == OP_HSET)
            add_number(request, task->number);
        break;
    case OP_INCR:
        add_text(request, "INCR"), add_text(request, counters[task->key]);
        break;
    case OP_WHERE:
        add_text(request, "TIER"), add_text(request, "WHERE"), add_word(request, name);
        break;
    case OP_SCAN:
        begin_scan(task, request);
        break;
    case OP_SWAPDB:
        add_text(request, "SWAPDB"), add_number(request, database_of(thread, 1)), add_number(request, database_of(thread, 2));
        break;
    default:
        add_text(request, plain[task->operation]);
        if (task->operation != OP_DBSIZE && task->operation != OP_RANDOMKEY && task->operation != OP_FLUSHDB)
            add_word(request, name);
    }
}

static void ask(struct task *task)
{
    struct storm_thread *thread = task->thread;
    struct request request = { .count = 0 };

    task->operation = choose(thread);
    task->space = pick(thread, SPACES);
    task->other_space = pick(thread, SPACES);
    task->key = pick(thread, 10) < 7 ? pick(thread, KEYS / 4) : pick(thread, KEYS);
    task->other = pick(thread, KEYS);
    task->field = pick(thread, FIELDS);
    task->expire_ms = clock_wall_ms() + pick(thread, 30) - 3;
    task->asked = thread->answered;
    if (task->operation == OP_INCR) {
        task->space = 0;
        task->key = pick(thread, COUNTERS);
    }
    if ((task->operation == OP_FLUSHDB || task->operation == OP_DBSIZE) && task->space == 0)
        task->space = 1;
    count_keys(thread, task->space, &task->count_low, &task->count_high);
    make_request(task, &request);
    task->client->client.db = database_of(thread, task->space);
    tier_box_ask(task->client, request.words, request.count);
}

static void open_task(struct storm_thread *thread, struct task *task)
{
    task->thread = thread;
    task->client = tier_box_open_client(&thread->storm->box, thread->index);
    task->client->answered = answered;
    task->client->context = task;
    task->walk.on = false;
}

/* A client that goes while it waits has done nothing. */
static void lose_client(struct storm_thread *thread)
{
    struct task *task = &thread->tasks[pick(thread, CLIENTS)];

    tier_box_close_client(task->client);
    open_task(thread, task);
}

static bool is_anybody_idle(const struct storm_thread *thread)
{
    for (int i = 0; i < CLIENTS; i++) {
        if (!thread->tasks[i].client->busy)
            return true;
    }
    return false;
}

static bool is_anybody_busy(const struct storm_thread *thread)
{
    for (int i = 0; i < CLIENTS; i++) {
        if (thread->tasks[i].client->busy)
            return true;
    }
    return false;
}

/* With faults it goes on until the store was lost and found several times, which is logged for the operator. */
static bool is_to_go_on(struct storm *storm, int calls)
{
    if (storm->weather == MEMORY_SHORT)         /* most of the time is spent waiting */
        return calls < scaled(CALLS) / 8;
    return calls < scaled(CALLS) || ((storm->weather == WRITES_FAIL || storm->weather == READS_FAIL) && storm->box.told_count < 2 * OUTAGES);
}

/* A turn of the worker's loop; a client must get a reply now and then. */
static void turn(struct storm_thread *thread)
{
    int64_t now_us = clock_mono_us();

    if (thread->answered != thread->answered_before || thread->progress_us == 0) {
        thread->answered_before = thread->answered;
        thread->progress_us = now_us;
    }
    DEMAND(thread, now_us - thread->progress_us < 100000000, "thread %d waits forever", thread->index);
    if (!is_anybody_idle(thread) || pick(thread, 20) == 0)
        cron_tick(&thread->worker->worker);
    tier_box_turn(thread->worker, is_anybody_idle(thread) ? BOX_NO_WAIT : BOX_TICK);
}

static void *storm_main(void *context)
{
    struct storm_thread *thread = context;

    for (int calls = 0; is_to_go_on(thread->storm, calls);) {
        turn(thread);
        page_values_step(thread->pages, database_of(thread, pick(thread, SPACES)));
        for (int i = 0; i < CLIENTS; i++) {
            if (!thread->tasks[i].client->busy) {
                ask(&thread->tasks[i]);
                calls++;
            }
        }
        if (pick(thread, 200) == 0)
            lose_client(thread);
    }
    while (is_anybody_busy(thread)) {
        cron_tick(&thread->worker->worker);
        tier_box_turn(thread->worker, BOX_TICK);
    }
    return NULL;
}

/* What the server's own settings say: calls have to wait for memory. */
static void limit_memory(struct storm *storm, int64_t limit)
{
    char digits[TEXT_INT_SIZE];
    struct message message = { "" };
    struct bytes name = BYTES("maxmemory"), value = bytes_of(digits, text_of_int(limit, digits));

    storm->box.memory_is_real = limit > 0;
    CHECK(config_set(storm->box.engine.config, &name, &value, 1, &message));
    tier_settings(storm->box.tier)->memory_max = limit;
}

/* Memory comes and goes, and so do faults of the disk. */
static void *weather_main(void *context)
{
    struct storm *storm = context;
    struct tier_box *box = &storm->box;
    struct random random;

    int64_t calm = (int64_t)memory_used(&box->engine);

    random_init(&random, box->seed + 99);
    for (uint64_t round = 0; !storm->over; round++) {
        struct timespec moment = { 0, 3000000 };
        struct disk_faults faults = { .seed = box->seed + round };

        if (storm->weather == MEMORY_SHORT)
            limit_memory(storm, round % 16 == 15 ? 0 : calm + (60000ll << random_below(&random, 5)));
        else
            tier_settings(box->tier)->memory_max = random_below(&random, 2) == 0 ? 0 : (int64_t)(300000 + random_below(&random, 1000000));
        tier_settings(box->tier)->packed_share = random_below(&random, 4) == 0 ? 0 : (int64_t)random_below(&random, 91);
        if (storm->is_packed)
            tier_settings(box->tier)->compression = random_below(&random, 8) == 0 ? PACKING_NO : random_below(&random, 2) ? PACKING_ZSTD : PACKING_LZ4;
        if (storm->weather == WRITES_FAIL || storm->weather == READS_FAIL) {
            int *chances[] = { &faults.write_error, &faults.write_no_space, &faults.write_short, &faults.sync_error, &faults.read_error };

            *chances[random_below(&random, storm->weather == READS_FAIL ? 5 : 4)] = 20 + (int)random_below(&random, 100);
            faulty_disk_set(box->disk, round % 8 == 7 ? &faults : NULL);
        }
        nanosleep(&moment, NULL);
    }
    faulty_disk_set(box->disk, NULL);
    limit_memory(storm, 0);
    return NULL;
}

/* Checkpoints, one after the other; some are given up, as others fail with the disk. */
static void *imager_main(void *context)
{
    struct storm *storm = context;
    struct random random;
    char dir[300];

    random_init(&random, storm->box.seed + 98);
    snprintf(dir, sizeof(dir), "%s/image", storm->box.root);
    while (!storm->over) {
        struct timespec moment = { 0, (long)random_below(&random, 20000000) };

        nanosleep(&moment, NULL);
        storm->box.tier->image_cancelled = random_below(&random, 4) == 0;
        if (image_box_take(&storm->box, dir, random_below(&random, 2) == 0) == STATUS_OK)
            storm->images++;
        else
            storm->images_failed++;
    }
    storm->box.tier->image_cancelled = false;
    return NULL;
}

static void verify_key(struct storm_thread *thread, struct box_client *client, int space, int key)
{
    struct task task = { .client = client, .thread = thread, .space = space, .key = key, .operation = OP_GET };
    struct bytes words[2] = { BYTES("GET"), name_of(thread, space, key) };
    struct model_key *model = key_of(thread, space, key);
    size_t at = 0;
    struct answer answer;

    if (model->unsure)
        return;
    if (model->is_hash)
        words[0] = BYTES("HGETALL");
    client->client.db = database_of(thread, space);
    client->context = &task;
    tier_box_turn(thread->worker, BOX_NO_WAIT);
    tier_box_ask(client, words, 2);
    while (client->busy)
        tier_box_turn(thread->worker, BOX_WAIT);
    answer = answer_next(&client->client.reply.out, &at);
    if (!model->is_hash) {
        check_value(&task, model, &answer);
        return;
    }
    EXPECT(&task, answer.kind == '*');
    if (!settle_key(thread, model, answer.number > 0)) {
        EXPECT(&task, answer.number == 0);
        return;
    }
    for (int64_t i = 0; i < answer.number / 2; i++) {
        struct answer name = answer_next(&client->client.reply.out, &at), value = answer_next(&client->client.reply.out, &at);
        int64_t field, number;

        EXPECT(&task, text_to_int(name.bytes, &field) && text_to_int(value.bytes, &number) && field < FIELDS);
        EXPECT(&task, number == model->fields[field] && number != 0);
    }
}

static void verify_all(struct storm *storm)
{
    struct tier_box *box = &storm->box;
    struct box_client *client = tier_box_open_client(box, 0);
    uint64_t wanted_low = 0, wanted_high = 0, found;

    tier_box_settle(box);
    tier_box_verify(box);
    for (int t = 0; t < THREADS; t++) {
        struct storm_thread *thread = &storm->threads[t];

        thread->worker = &box->workers[0];      /* the client's, whose clock counts */
        for (int space = 0; space < SPACES; space++) {
            uint64_t low, high;

            page_values_verify(thread->pages);
            for (int key = 0; key < KEYS; key++)
                verify_key(thread, client, space, key);
            count_keys(thread, space, &low, &high);
            wanted_low += space == 0 ? low : 0;
            wanted_high += space == 0 ? high : 0;
            if (space > 0)
                BOX_DEMAND(box, tier_count(box->tier, database_of(thread, space), false, &found) == STATUS_OK && found >= low && found <= high,
                    "%llu keys, not %llu", (unsigned long long)found, (unsigned long long)high);
        }
    }
    client->client.db = 0;
    for (int i = 0; i < COUNTERS; i++) {
        char line[] = "GET counter:a", reply[80], digits[TEXT_INT_SIZE];

        line[12] = (char)('a' + i);
        digits[text_of_int(storm->counters[i], digits)] = 0;
        snprintf(reply, sizeof(reply), "$%zu\n%s\n", strlen(digits), digits);
        assert_string_equal(tier_box_say(client, line), storm->counters[i] == 0 ? "$-1\n" : reply);
        wanted_low += storm->counters[i] > 0;
        wanted_high += storm->counters[i] > 0;
    }
    tier_box_settle(box);
    assert_int_equal(tier_count(box->tier, 0, false, &found), STATUS_OK);
    BOX_DEMAND(box, found >= wanted_low && found <= wanted_high, "%llu keys", (unsigned long long)found);
    tier_box_verify(box);
    tier_box_close_client(client);
}

static void run_storm(enum weather weather, uint64_t seed)
{
    struct storm *storm = mem_zalloc(sizeof(*storm));
    struct tier_box_options options = { .seed = seed, .worker_count = THREADS, .partition_count = 8, .db_count = 2 * THREADS + 1,
        .reads_by_ring = seed % 2 == 0,         /* workers read cold keys themselves, or loaders do */
        .by_slot = seed / 2 % 2 == 0 };
    struct tier_stats stats;
    pthread_t weather_thread, imager_thread;

    storm->weather = weather;
    storm->is_packed = seed / 4 % 2 == 0;
    tier_box_create(&storm->box, &options);
    tier_box_hold_writer(&storm->box);
    storm->box.tier->packed.room_min = 4096;
    tier_box_release_writer(&storm->box);
    tier_settings(storm->box.tier)->dictionary_after = DICTIONARY_AFTER;
    tier_settings(storm->box.tier)->dictionary_interval_s = 0;
    tier_set_expiry(storm->box.tier, true);
    for (int t = 0; t < THREADS; t++) {
        struct storm_thread *thread = &storm->threads[t];

        thread->storm = storm;
        thread->index = t;
        thread->worker = &storm->box.workers[t];
        random_init(&thread->random, seed + (uint64_t)t * 1000);
        make_names(thread);
        thread->pages = page_values_create(&storm->box, seed + (uint64_t)t * 1000 + 500);
        for (int i = 0; i < CLIENTS; i++)
            open_task(thread, &thread->tasks[i]);
    }
    CHECK(pthread_create(&weather_thread, NULL, weather_main, storm) == 0);
    CHECK(pthread_create(&imager_thread, NULL, imager_main, storm) == 0);
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&storm->threads[t].thread, NULL, storm_main, &storm->threads[t]) == 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(storm->threads[t].thread, NULL);
    storm->over = true;
    pthread_join(weather_thread, NULL);
    pthread_join(imager_thread, NULL);
    verify_all(storm);
    tier_stats(storm->box.tier, &stats);
    printf("%llu demotions, %llu clean, %llu promotions, %llu resolved, %llu expired cold, %llu in place, %llu errors, %llu throttled, "
        "%llu images, %llu without, %llu packed, %llu dictionaries, %llu hits in memory\n",
        (unsigned long long)stats.demotions, (unsigned long long)stats.clean_demotions, (unsigned long long)stats.promotions,
        (unsigned long long)stats.resolved, (unsigned long long)stats.expired_cold, (unsigned long long)stats.unplanned_reads,
        (unsigned long long)stats.errors, (unsigned long long)engine_stat(&storm->box.engine, STAT_THROTTLED),
        (unsigned long long)storm->images, (unsigned long long)storm->images_failed, (unsigned long long)stats.packed_records,
        (unsigned long long)stats.dictionaries, (unsigned long long)stats.packed_hits);
    assert_true(storm->images > 0 || weather == WRITES_FAIL || weather == READS_FAIL);
    assert_true(stats.packed_records > 0 || !storm->is_packed || weather == MEMORY_SHORT);      /* nothing is packed while clients wait for memory */
    assert_true(stats.packed_hits > 0 || stats.packed_records < 1000);
    assert_true(stats.demotions > 0 && stats.clean_demotions > 0 && stats.promotions > 0 && stats.resolved > 0);
    for (int t = 0; t < THREADS; t++) {
        struct storm_thread *thread = &storm->threads[t];

        page_values_destroy(thread->pages);
        for (int i = 0; i < CLIENTS; i++) {
            tier_box_close_client(thread->tasks[i].client);
            buffer_release(&thread->tasks[i].value);
        }
        for (int space = 0; space < SPACES; space++) {
            for (int i = 0; i < KEYS; i++) {
                mem_free(thread->names[space][i]);
                buffer_release(&thread->keys[space][i].value);
            }
        }
    }
    tier_box_destroy(&storm->box);
    mem_free(storm);
}

static void every_key_holds_what_was_written_last(void **state)
{
    run_storm(FAIR, *(uint64_t *)*state);
}

static void a_disk_that_refuses_writes_loses_nothing(void **state)
{
    run_storm(WRITES_FAIL, *(uint64_t *)*state + 1);
}

static void a_disk_that_refuses_reads_is_reported_and_loses_nothing(void **state)
{
    run_storm(READS_FAIL, *(uint64_t *)*state + 2);
}

static void memory_that_is_short_only_delays(void **state)
{
    run_storm(MEMORY_SHORT, *(uint64_t *)*state + 3);
}

int main(void)
{
    uint64_t seed = seed_new();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_key_holds_what_was_written_last, &seed),
        cmocka_unit_test_prestate(a_disk_that_refuses_writes_loses_nothing, &seed),
        cmocka_unit_test_prestate(a_disk_that_refuses_reads_is_reported_and_loses_nothing, &seed),
        cmocka_unit_test_prestate(memory_that_is_short_only_delays, &seed),
    };

    cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

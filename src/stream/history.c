#include "stream/history.h"

#include <string.h>

#include "base/blob.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/text.h"
#include "resp/request.h"
#include "stream/backlog.h"

enum { SPARE_MAX = 4, OWN_CHUNK_SIZE = HISTORY_CHUNK_SIZE / 4 };

static const char no_id[] = "0000000000000000000000000000000000000000";

void history_make_id(char id[HISTORY_ID_SIZE])
{
    unsigned char bytes[HISTORY_ID_SIZE / 2];

    random_system(bytes, sizeof(bytes));
    text_of_bytes(bytes, sizeof(bytes), id);
}

void history_init(struct history *history)
{
    *history = (struct history){ .db = -1, .selected = -1, .log_begin = UINT64_MAX, .log_end = UINT64_MAX };
    mutex_init(&history->lock);
    mutex_init(&history->hand_over_lock);
    history_new_id(history, false);
}

static void chunks_free(struct history_chunk *chunk)
{
    while (chunk != NULL) {
        struct history_chunk *next = chunk->next;

        for (int i = 0; i < chunk->piece_count; i++)
            blob_release(chunk->pieces[i].blob);
        mem_free(chunk->pieces);
        mem_free(chunk->mark);
        mem_free(chunk);
        chunk = next;
    }
}

void history_release(struct history *history)
{
    chunks_free(history->first);
    chunks_free(history->spare);
    backlog_destroy(history->backlog);
    mutex_release(&history->hand_over_lock);
    mutex_release(&history->lock);
}

static struct history_chunk *chunk_create(size_t capacity)
{
    struct history_chunk *chunk = mem_alloc(sizeof(*chunk) + capacity);

    *chunk = (struct history_chunk){ .capacity = capacity, .db_after = -1 };
    return chunk;
}

static inline int count_digits(uint64_t number)
{
    int digits = 1;

    while (number >= 10) {
        number /= 10;
        digits++;
    }
    return digits;
}

/* `*3\r\n` or `$3\r\n` */
static inline char *print_header(char *out, char kind, uint64_t number)
{
    int digits = count_digits(number);

    *out++ = kind;
    for (int i = digits - 1; i >= 0; i--) {
        out[i] = (char)('0' + number % 10);
        number /= 10;
    }
    out += digits;
    *out++ = '\r';
    *out++ = '\n';
    return out;
}

static size_t size_of_command(const struct bytes *args, int arg_count)
{
    size_t size = 3 + (size_t)count_digits((uint64_t)arg_count);

    for (int i = 0; i < arg_count; i++)
        size += 5 + (size_t)count_digits(args[i].size) + args[i].size;
    return size;
}

static char *print_command(char *out, const struct bytes *args, int arg_count)
{
    out = print_header(out, '*', (uint64_t)arg_count);
    for (int i = 0; i < arg_count; i++) {
        out = print_header(out, '$', args[i].size);
        if (args[i].size > 0)
            memcpy(out, args[i].data, args[i].size);
        out += args[i].size;
        *out++ = '\r';
        *out++ = '\n';
    }
    return out;
}

size_t history_select_print(int db, char *out)
{
    char digits[16], *end = print_header(digits, '+', (uint64_t)db);
    struct bytes args[2] = { BYTES("SELECT"), bytes_of(digits + 1, (size_t)(end - digits) - 3) };

    return (size_t)(print_command(out, args, 2) - out);
}

static void chunk_link(struct history *history, struct history_chunk *chunk) REQUIRES(history->lock);
static void chunk_link(struct history *history, struct history_chunk *chunk)
{
    chunk->begin = atomic_load_explicit(&history->end, memory_order_relaxed);
    chunk->db_before = history->db;
    if (history->last != NULL)
        history->last->next = chunk;
    else
        history->first = chunk;
    history->last = chunk;
}

/* Returns a chunk at the end of the list with `size` free bytes. */
static struct history_chunk *chunk_with_room(struct history *history, size_t size) REQUIRES(history->lock);
static struct history_chunk *chunk_with_room(struct history *history, size_t size)
{
    struct history_chunk *chunk = history->last;

    if (chunk != NULL && chunk->capacity - chunk->end >= size)
        return chunk;
    chunk = history->spare;
    if (chunk != NULL) {
        history->spare = chunk->next;
        history->spare_count--;
        chunk->next = NULL;
    } else {
        chunk = chunk_create(HISTORY_CHUNK_SIZE);
    }
    chunk_link(history, chunk);
    return chunk;
}

static inline char *put_select(struct history *history, int db, char *out) REQUIRES(history->lock);
static inline char *put_select(struct history *history, int db, char *out)
{
    if (history->db == db)
        return out;
    return out + history_select_print(db, out);
}

/* Advances the end of the log by `added` bytes of the chunk, and returns it. */
static inline uint64_t chunk_advance(struct history *history, struct history_chunk *chunk, size_t added, int db) REQUIRES(history->lock);
static inline uint64_t chunk_advance(struct history *history, struct history_chunk *chunk, size_t added, int db)
{
    uint64_t lsn = atomic_load_explicit(&history->end, memory_order_relaxed) + added;

    chunk->db_after = history->db = db;
    if (db >= 0)
        history->selected = db;
    atomic_store_explicit(&history->end, lsn, memory_order_release);
    return lsn;
}

/* Links a chunk that was filled without the lock. `piece_bytes`: in its pieces. Its first HISTORY_SELECT_SIZE bytes are free for a SELECT. */
static uint64_t append_own_chunk(struct history *history, struct history_chunk *chunk, size_t piece_bytes, int db_before, int db_after)
{
    char select[HISTORY_SELECT_SIZE];
    uint64_t lsn;

    mutex_lock(&history->lock);
    if (history->is_foreign) {
        mutex_unlock(&history->lock);
        chunks_free(chunk);
        return 0;
    }
    if (history->db != db_before) {
        size_t size = history_select_print(db_before, select);

        chunk->start -= size;
        memcpy(chunk->data + chunk->start, select, size);
    }
    chunk_link(history, chunk);
    lsn = chunk_advance(history, chunk, chunk->end - chunk->start + piece_bytes, db_after);
    mutex_unlock(&history->lock);
    return lsn;
}

uint64_t history_append(struct history *history, int db, const struct bytes *args, int arg_count)
{
    size_t size = size_of_command(args, arg_count);
    struct history_chunk *chunk;
    char *start, *out;
    uint64_t lsn;

    CHECK(db >= 0 && arg_count > 0);
    if (size > OWN_CHUNK_SIZE) {
        chunk = chunk_create(HISTORY_SELECT_SIZE + size);
        chunk->start = HISTORY_SELECT_SIZE;
        chunk->end = (size_t)(print_command(chunk->data + HISTORY_SELECT_SIZE, args, arg_count) - chunk->data);
        return append_own_chunk(history, chunk, 0, db, db);
    }
    mutex_lock(&history->lock);
    if (history->is_foreign) {
        mutex_unlock(&history->lock);
        return 0;
    }
    chunk = chunk_with_room(history, size + HISTORY_SELECT_SIZE);
    start = chunk->data + chunk->end;
    out = print_command(put_select(history, db, start), args, arg_count);
    chunk->end += (size_t)(out - start);
    lsn = chunk_advance(history, chunk, (size_t)(out - start), db);
    mutex_unlock(&history->lock);
    return lsn;
}

uint64_t history_append_large(struct history *history, int db, const struct bytes *args, int arg_count, const struct request_large *large,
    int large_count)
{
    size_t size = size_of_command(args, arg_count), piece_bytes = 0;
    struct history_piece *pieces;
    struct history_chunk *chunk;
    int piece_count = 0;
    char *out;

    for (int i = 0; i < arg_count; i++) {
        if (request_large_find(large, large_count, args[i]) == NULL)
            continue;
        piece_bytes += args[i].size;
        piece_count++;
    }
    pieces = mem_alloc((size_t)(piece_count + 1) * sizeof(*pieces));
    piece_count = 0;
    CHECK(db >= 0 && arg_count > 0);
    chunk = chunk_create(HISTORY_SELECT_SIZE + size - piece_bytes);
    chunk->start = HISTORY_SELECT_SIZE;
    out = print_header(chunk->data + chunk->start, '*', (uint64_t)arg_count);
    for (int i = 0; i < arg_count; i++) {
        struct blob *blob = request_large_find(large, large_count, args[i]);

        out = print_header(out, '$', args[i].size);
        if (blob != NULL)
            pieces[piece_count++] = (struct history_piece){ blob_hold(blob), (size_t)(out - chunk->data) };
        else if (args[i].size > 0)
            out = mempcpy(out, args[i].data, args[i].size);
        *out++ = '\r';
        *out++ = '\n';
    }
    chunk->end = (size_t)(out - chunk->data);
    chunk->pieces = pieces;
    chunk->piece_count = piece_count;
    return append_own_chunk(history, chunk, piece_bytes, db, db);
}

void history_group_init(struct history_group *group)
{
    *group = (struct history_group){ .first_db = -1, .db = -1 };
}

void history_group_release(struct history_group *group)
{
    buffer_release(&group->text);
    history_group_init(group);
}

void history_group_clear(struct history_group *group)
{
    group->text.size = 0;
    buffer_shrink(&group->text, 64 << 10);
    group->count = 0;
    group->first_db = group->db = -1;
}

void history_group_add(struct history_group *group, int db, const struct bytes *args, int arg_count)
{
    char *start = buffer_reserve(&group->text, size_of_command(args, arg_count) + HISTORY_SELECT_SIZE), *out = start;

    CHECK(db >= 0 && arg_count > 0);
    if (group->count == 0)
        group->first_db = db;
    else if (group->db != db)
        out += history_select_print(db, out);
    group->db = db;
    group->count++;
    out = print_command(out, args, arg_count);
    group->text.size += (size_t)(out - start);
}

uint64_t history_append_group(struct history *history, const struct history_group *group)
{
    struct bytes before = BYTES("*1\r\n$5\r\nMULTI\r\n"), after = BYTES("*1\r\n$4\r\nEXEC\r\n");
    struct history_chunk *chunk;
    char *start, *out;
    size_t size;
    uint64_t lsn;

    if (group->count == 0)
        return atomic_load_explicit(&history->end, memory_order_acquire);
    if (group->count == 1)
        before = after = bytes_of("", 0);
    size = before.size + group->text.size + after.size;
    if (size > OWN_CHUNK_SIZE) {
        chunk = chunk_create(HISTORY_SELECT_SIZE + size);
        chunk->start = chunk->end = HISTORY_SELECT_SIZE;
        out = mempcpy(chunk->data + chunk->end, before.data, before.size);
        out = mempcpy(out, group->text.data, group->text.size);
        out = mempcpy(out, after.data, after.size);
        chunk->end = (size_t)(out - chunk->data);
        return append_own_chunk(history, chunk, 0, group->first_db, group->db);
    }
    mutex_lock(&history->lock);
    if (history->is_foreign) {
        mutex_unlock(&history->lock);
        return 0;
    }
    chunk = chunk_with_room(history, size + HISTORY_SELECT_SIZE);
    start = chunk->data + chunk->end;
    out = mempcpy(put_select(history, group->first_db, start), before.data, before.size);
    out = mempcpy(out, group->text.data, group->text.size);
    out = mempcpy(out, after.data, after.size);
    chunk->end += (size_t)(out - start);
    lsn = chunk_advance(history, chunk, (size_t)(out - start), group->db);
    mutex_unlock(&history->lock);
    return lsn;
}

/* Appends bytes as they are to the last chunk, or links `chunk`, which has them. */
static uint64_t append_text(struct history *history, struct history_chunk *chunk, struct bytes text, int db_after) REQUIRES(history->lock);
static uint64_t append_text(struct history *history, struct history_chunk *chunk, struct bytes text, int db_after)
{
    if (chunk != NULL) {
        chunk_link(history, chunk);
    } else {
        chunk = chunk_with_room(history, text.size);
        if (text.size > 0)
            memcpy(chunk->data + chunk->end, text.data, text.size);
        chunk->end += text.size;
    }
    return chunk_advance(history, chunk, text.size, db_after >= 0 ? db_after : history->db);
}

uint64_t history_append_signs(struct history *history, struct bytes text)
{
    uint64_t lsn = 0;

    CHECK(text.size <= OWN_CHUNK_SIZE);
    mutex_lock(&history->lock);
    if (!history->is_foreign)
        lsn = append_text(history, NULL, text, -1);
    mutex_unlock(&history->lock);
    return lsn;
}

uint64_t history_append_raw(struct history *history, struct bytes text, int db_after)
{
    struct history_chunk *chunk = NULL;
    uint64_t lsn;

    if (text.size > OWN_CHUNK_SIZE) {
        chunk = chunk_create(text.size);
        memcpy(chunk->data, text.data, text.size);
        chunk->end = text.size;
    }
    mutex_lock(&history->lock);
    CHECK(history->is_foreign);
    lsn = append_text(history, chunk, text, db_after);
    mutex_unlock(&history->lock);
    return lsn;
}

uint64_t history_end(const struct history *history)
{
    return atomic_load_explicit(&history->end, memory_order_acquire);
}

/* --- taking --- */

/* Has the next append select its database. */
static void ask_for_select(struct history *history) REQUIRES(history->lock);
static void ask_for_select(struct history *history)
{
    if (!history->is_foreign)
        history->db = -1;
}

/* Begins another chunk for what is appended next. */
static struct history_chunk *begin_chunk(struct history *history) REQUIRES(history->lock);
static struct history_chunk *begin_chunk(struct history *history)
{
    struct history_chunk *chunk = chunk_create(HISTORY_CHUNK_SIZE);

    chunk_link(history, chunk);
    return chunk;
}

static void fill_in(const struct history *history, struct history_point *point) REQUIRES(history->lock);
static void fill_in(const struct history *history, struct history_point *point)
{
    point->lsn = atomic_load_explicit(&history->end, memory_order_relaxed);
    point->offset = (int64_t)point->lsn + history->shift;
    point->db = history->selected;
    point->identity = history->identity;
}

static bool has_log(const struct history *history) REQUIRES(history->lock);
static bool has_log(const struct history *history)
{
    return history->log_begin != UINT64_MAX && history->log_end == UINT64_MAX;
}

/* The next mark can take the place of this one: it does not say that it continues it under another ID. */
static bool is_replaced(const struct history *history, const struct history_point *mark) REQUIRES(history->lock);
static bool is_replaced(const struct history *history, const struct history_point *mark)
{
    return memcmp(mark->identity.id, history->identity.second_id, HISTORY_ID_SIZE) != 0;
}

/* The log notes where the stream is now, and which one it is. */
static void put_mark(struct history *history) REQUIRES(history->lock);
static void put_mark(struct history *history)
{
    struct history_chunk *chunk = history->last;

    if (!has_log(history))
        return;
    if (chunk == NULL || chunk->end > chunk->start || chunk->piece_count > 0 || (chunk->mark != NULL && !is_replaced(history, chunk->mark)))
        chunk = begin_chunk(history);
    if (chunk->mark == NULL)
        chunk->mark = mem_alloc(sizeof(*chunk->mark));
    fill_in(history, chunk->mark);
    chunk->db_before = history->db;
}

uint64_t history_cut(struct history *history)
{
    uint64_t lsn;

    mutex_lock(&history->lock);
    ask_for_select(history);
    begin_chunk(history)->begins_file = true;
    put_mark(history);
    lsn = atomic_load_explicit(&history->end, memory_order_relaxed);
    mutex_unlock(&history->lock);
    return lsn;
}

static void set_on(struct history *history) REQUIRES(history->lock);
static void set_on(struct history *history)
{
    history->is_on = has_log(history) || history->backlog != NULL;
}

uint64_t history_attach_log(struct history *history)
{
    uint64_t lsn;

    mutex_lock(&history->lock);
    lsn = atomic_load_explicit(&history->end, memory_order_relaxed);
    ask_for_select(history);
    if (history->last != NULL)
        begin_chunk(history);
    history->log_begin = lsn;
    history->log_end = UINT64_MAX;
    set_on(history);
    put_mark(history);
    mutex_unlock(&history->lock);
    return lsn;
}

void history_detach_log(struct history *history)
{
    mutex_lock(&history->lock);
    if (history->log_end != UINT64_MAX || history->log_begin == UINT64_MAX) {
        mutex_unlock(&history->lock);
        return;
    }
    if (history->last != NULL)
        begin_chunk(history);
    history->log_end = atomic_load_explicit(&history->end, memory_order_relaxed);
    set_on(history);
    mutex_unlock(&history->lock);
    if (!history_is_on(history))
        history_new_id(history, false);
}

static bool is_of_log(const struct history *history, const struct history_chunk *chunk) REQUIRES(history->lock);
static bool is_of_log(const struct history *history, const struct history_chunk *chunk)
{
    return chunk->begin >= history->log_begin && (chunk->begin < history->log_end || (chunk->begin == history->log_end && chunk->begins_file));
}

/* The first chunks that are the log's, or that are not. */
static struct history_chunk *take_those(struct history *history, bool of_log) REQUIRES(history->lock);
static struct history_chunk *take_those(struct history *history, bool of_log)
{
    struct history_chunk *first = history->first, *last = NULL, *chunk = first;

    for (; chunk != NULL && is_of_log(history, chunk) == of_log; chunk = chunk->next)
        last = chunk;
    if (last == NULL)
        return NULL;
    last->next = NULL;
    history->first = chunk;
    if (chunk == NULL)
        history->last = NULL;
    return first;
}

/* Returns whether bytes before the log's part are still to be handed over. */
static bool begins_before_log(struct history *history)
{
    bool before;

    mutex_lock(&history->lock);
    before = history->first != NULL && history->first->begin < history->log_begin;
    mutex_unlock(&history->lock);
    return before;
}

struct history_chunk *history_take(struct history *history)
{
    struct history_chunk *chunks;

    if (begins_before_log(history))
        history_drain(history);
    mutex_lock(&history->lock);
    chunks = take_those(history, true);
    mutex_unlock(&history->lock);
    return chunks;
}

void history_give_back(struct history *history, struct history_chunk *chunks)
{
    struct history_chunk *rest = NULL;

    if (chunks == NULL)
        return;
    mutex_lock(&history->lock);
    while (chunks != NULL) {
        struct history_chunk *chunk = chunks;

        chunks = chunk->next;
        if (chunk->capacity == HISTORY_CHUNK_SIZE && chunk->piece_count == 0 && history->spare_count < SPARE_MAX) {
            chunk->start = chunk->end = 0;
            chunk->db_after = -1;
            chunk->begins_file = false;
            mem_free(chunk->mark);
            chunk->mark = NULL;
            chunk->next = history->spare;
            history->spare = chunk;
            history->spare_count++;
        } else {
            chunk->next = rest;
            rest = chunk;
        }
    }
    mutex_unlock(&history->lock);
    chunks_free(rest);
}

struct bytes history_chunk_run(const struct history_chunk *chunk, int n)
{
    int piece = n / 2;
    size_t from = piece == 0 ? chunk->start : chunk->pieces[piece - 1].offset;

    if (n % 2 != 0)
        return buffer_bytes(&chunk->pieces[piece].blob->buffer);
    return bytes_of(chunk->data + from, (piece < chunk->piece_count ? chunk->pieces[piece].offset : chunk->end) - from);
}

/* Hands over up to `max` bytes of what of the chunk was not handed over before. */
static void hand_over(struct history *history, const struct history_chunk *chunk, uint64_t max) REQUIRES(history->hand_over_lock);
static void hand_over(struct history *history, const struct history_chunk *chunk, uint64_t max)
{
    struct backlog *backlog = history->backlog;
    uint64_t handed = history_handed(history), skip = handed - chunk->begin;

    CHECK(handed >= chunk->begin);
    for (int n = 0; n < history_chunk_runs(chunk); n++) {
        struct bytes run = history_chunk_run(chunk, n);
        uint64_t passed = skip < run.size ? skip : run.size, size = run.size - passed < max ? run.size - passed : max;

        if (backlog != NULL && size > 0)
            backlog_append(backlog, bytes_of(run.data + passed, (size_t)size));
        skip -= passed;
        max -= size;
        handed += size;
    }
    atomic_store_explicit(&history->handed, handed, memory_order_release);
}

void history_trickle(struct history *history, const struct history_chunk *chunks)
{
    uint64_t before;

    mutex_lock(&history->hand_over_lock);
    before = history_handed(history);
    for (; chunks != NULL && history->backlog != NULL && history_handed(history) == before && chunks->begin <= before; chunks = chunks->next)
        hand_over(history, chunks, 1);
    mutex_unlock(&history->hand_over_lock);
}

void history_hand_over(struct history *history, struct history_chunk *chunks)
{
    if (chunks == NULL)
        return;
    mutex_lock(&history->hand_over_lock);
    for (const struct history_chunk *chunk = chunks; chunk != NULL; chunk = chunk->next)
        hand_over(history, chunk, UINT64_MAX);
    mutex_unlock(&history->hand_over_lock);
    history_give_back(history, chunks);
}

void history_drain(struct history *history)
{
    struct history_chunk *chunks = NULL;

    if (history_handed(history) == history_end(history))
        return;
    mutex_lock(&history->hand_over_lock);
    mutex_lock(&history->lock);
    if (history->first != NULL && history->first->begin == history_handed(history))     /* else what is before it is still to be written */
        chunks = take_those(history, false);
    mutex_unlock(&history->lock);
    for (const struct history_chunk *chunk = chunks; chunk != NULL; chunk = chunk->next)
        hand_over(history, chunk, UINT64_MAX);
    mutex_unlock(&history->hand_over_lock);
    history_give_back(history, chunks);
}

/* --- the backlog --- */

static void set_backlog(struct history *history, struct backlog *backlog) REQUIRES(history->hand_over_lock);
static void set_backlog(struct history *history, struct backlog *backlog)
{
    history->backlog = backlog;
    mutex_lock(&history->lock);
    set_on(history);
    mutex_unlock(&history->lock);
}

void history_open_backlog(struct history *history, const struct backlog_options *options)
{
    struct backlog_options all = *options;

    history_drain(history);
    mutex_lock(&history->hand_over_lock);
    all.first = history_handed(history);
    set_backlog(history, backlog_create(&all));
    mutex_unlock(&history->hand_over_lock);
}

void history_close_backlog(struct history *history)
{
    struct backlog *backlog = history->backlog;

    history_drain(history);
    mutex_lock(&history->hand_over_lock);
    set_backlog(history, NULL);
    mutex_unlock(&history->hand_over_lock);
    backlog_destroy(backlog);
    if (!history_is_on(history))
        history_new_id(history, false);
}

/* --- identity --- */

void history_point(struct history *history, struct history_point *point)
{
    mutex_lock(&history->lock);
    fill_in(history, point);
    mutex_unlock(&history->lock);
}

void history_mark(struct history *history, struct history_point *point)
{
    mutex_lock(&history->lock);
    fill_in(history, point);
    ask_for_select(history);
    mutex_unlock(&history->lock);
}

int64_t history_offset_of(struct history *history, uint64_t lsn)
{
    int64_t offset;

    mutex_lock(&history->lock);
    offset = (int64_t)lsn + history->shift;
    mutex_unlock(&history->lock);
    return offset;
}

uint64_t history_lsn_of(struct history *history, int64_t offset)
{
    uint64_t lsn;

    mutex_lock(&history->lock);
    lsn = (uint64_t)(offset - history->shift);
    mutex_unlock(&history->lock);
    return lsn;
}

static int64_t end_offset(struct history *history) REQUIRES(history->lock);
static int64_t end_offset(struct history *history)
{
    return (int64_t)atomic_load_explicit(&history->end, memory_order_relaxed) + history->shift;
}

static void forget_second(struct history_identity *identity)
{
    memcpy(identity->second_id, no_id, sizeof(no_id));
    identity->second_offset = -1;
}

void history_point_make(struct history_point *point, const char *id, int64_t offset, int db)
{
    *point = (struct history_point){ .offset = offset, .db = db };
    forget_second(&point->identity);
    memcpy(point->identity.id, id, HISTORY_ID_SIZE);
}

static void keep_second(struct history *history) REQUIRES(history->lock);
static void keep_second(struct history *history)
{
    memcpy(history->identity.second_id, history->identity.id, sizeof(history->identity.id));
    history->identity.second_offset = end_offset(history) + 1;
}

void history_new_id(struct history *history, bool keeps_second)
{
    char id[HISTORY_ID_SIZE + 1] = "";

    history_make_id(id);
    mutex_lock(&history->lock);
    if (keeps_second)
        keep_second(history);
    else
        forget_second(&history->identity);
    memcpy(history->identity.id, id, sizeof(id));
    ask_for_select(history);        /* the first command under it selects its database, for replicas of the old one, too */
    put_mark(history);
    mutex_unlock(&history->lock);
}

void history_become(struct history *history, const char *id, int64_t offset, int db)
{
    mutex_lock(&history->lock);
    forget_second(&history->identity);
    memcpy(history->identity.id, id, HISTORY_ID_SIZE);
    history->shift = offset - (int64_t)atomic_load_explicit(&history->end, memory_order_relaxed);
    history->db = history->selected = db;
    put_mark(history);
    mutex_unlock(&history->lock);
}

void history_continue(struct history *history, const struct history_point *point)
{
    mutex_lock(&history->lock);
    history->identity = point->identity;
    history->shift = point->offset - (int64_t)atomic_load_explicit(&history->end, memory_order_relaxed);
    history->db = history->selected = point->db;
    put_mark(history);
    mutex_unlock(&history->lock);
}

void history_rename(struct history *history, const char *id)
{
    mutex_lock(&history->lock);
    keep_second(history);
    memcpy(history->identity.id, id, HISTORY_ID_SIZE);
    put_mark(history);
    mutex_unlock(&history->lock);
}

void history_set_foreign(struct history *history, bool is_foreign)
{
    mutex_lock(&history->lock);
    history->is_foreign = is_foreign;
    if (!is_foreign)
        history->db = -1;           /* this server's own commands select theirs */
    mutex_unlock(&history->lock);
}

#include "persist/aof_tail.h"

#include <string.h>

#include "base/blob.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "persist/aof.h"
#include "resp/request.h"

enum { SPARE_MAX = 4, OWN_CHUNK_SIZE = AOF_CHUNK_SIZE / 4 };

void aof_tail_init(struct aof_tail *tail)
{
    *tail = (struct aof_tail){ .db = -1 };
    mutex_init(&tail->lock);
}

static void chunks_free(struct aof_chunk *chunk)
{
    while (chunk != NULL) {
        struct aof_chunk *next = chunk->next;

        for (int i = 0; i < chunk->piece_count; i++)
            blob_release(chunk->pieces[i].blob);
        mem_free(chunk->pieces);
        mem_free(chunk);
        chunk = next;
    }
}

void aof_tail_release(struct aof_tail *tail)
{
    chunks_free(tail->first);
    chunks_free(tail->spare);
    mutex_release(&tail->lock);
}

static struct aof_chunk *chunk_create(size_t capacity)
{
    struct aof_chunk *chunk = mem_alloc(sizeof(*chunk) + capacity);

    *chunk = (struct aof_chunk){ .capacity = capacity, .db_after = -1 };
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

size_t aof_select_print(int db, char *out)
{
    char digits[16], *end = print_header(digits, '+', (uint64_t)db);
    struct bytes args[2] = { BYTES("SELECT"), bytes_of(digits + 1, (size_t)(end - digits) - 3) };

    return (size_t)(print_command(out, args, 2) - out);
}

static void chunk_link(struct aof_tail *tail, struct aof_chunk *chunk) REQUIRES(tail->lock);
static void chunk_link(struct aof_tail *tail, struct aof_chunk *chunk)
{
    if (tail->last != NULL)
        tail->last->next = chunk;
    else
        tail->first = chunk;
    tail->last = chunk;
}

/* Returns a chunk at the end of the list with `size` free bytes. */
static struct aof_chunk *chunk_with_room(struct aof_tail *tail, size_t size) REQUIRES(tail->lock);
static struct aof_chunk *chunk_with_room(struct aof_tail *tail, size_t size)
{
    struct aof_chunk *chunk = tail->last;

    if (chunk != NULL && chunk->capacity - chunk->end >= size)
        return chunk;
    chunk = tail->spare;
    if (chunk != NULL) {
        tail->spare = chunk->next;
        tail->spare_count--;
        chunk->next = NULL;
    } else {
        chunk = chunk_create(AOF_CHUNK_SIZE);
    }
    chunk_link(tail, chunk);
    return chunk;
}

static inline char *put_select(struct aof_tail *tail, int db, char *out) REQUIRES(tail->lock);
static inline char *put_select(struct aof_tail *tail, int db, char *out)
{
    if (tail->db == db)
        return out;
    return out + aof_select_print(db, out);
}

/* Advances the end of the log by `added` bytes of the chunk, and returns it. */
static inline uint64_t chunk_advance(struct aof_tail *tail, struct aof_chunk *chunk, size_t added, int db) REQUIRES(tail->lock);
static inline uint64_t chunk_advance(struct aof_tail *tail, struct aof_chunk *chunk, size_t added, int db)
{
    uint64_t lsn = atomic_load_explicit(&tail->end, memory_order_relaxed) + added;

    chunk->db_after = tail->db = db;
    atomic_store_explicit(&tail->end, lsn, memory_order_release);
    return lsn;
}

/* Links a chunk that was filled without the lock. `piece_bytes`: in its pieces. Its first AOF_SELECT_SIZE bytes are free for a SELECT. */
static uint64_t append_own_chunk(struct aof_tail *tail, struct aof_chunk *chunk, size_t piece_bytes, int db_before, int db_after)
{
    char select[AOF_SELECT_SIZE];
    uint64_t lsn;

    mutex_lock(&tail->lock);
    if (tail->db != db_before) {
        size_t size = aof_select_print(db_before, select);

        chunk->start -= size;
        memcpy(chunk->data + chunk->start, select, size);
    }
    chunk_link(tail, chunk);
    lsn = chunk_advance(tail, chunk, chunk->end - chunk->start + piece_bytes, db_after);
    mutex_unlock(&tail->lock);
    return lsn;
}

uint64_t aof_tail_append(struct aof_tail *tail, int db, const struct bytes *args, int arg_count)
{
    size_t size = size_of_command(args, arg_count);
    struct aof_chunk *chunk;
    char *start, *out;
    uint64_t lsn;

    CHECK(db >= 0 && arg_count > 0);
    if (size > OWN_CHUNK_SIZE) {
        chunk = chunk_create(AOF_SELECT_SIZE + size);
        chunk->start = AOF_SELECT_SIZE;
        chunk->end = (size_t)(print_command(chunk->data + AOF_SELECT_SIZE, args, arg_count) - chunk->data);
        return append_own_chunk(tail, chunk, 0, db, db);
    }
    mutex_lock(&tail->lock);
    chunk = chunk_with_room(tail, size + AOF_SELECT_SIZE);
    start = chunk->data + chunk->end;
    out = print_command(put_select(tail, db, start), args, arg_count);
    chunk->end += (size_t)(out - start);
    lsn = chunk_advance(tail, chunk, (size_t)(out - start), db);
    mutex_unlock(&tail->lock);
    return lsn;
}

uint64_t aof_tail_append_large(struct aof_tail *tail, int db, const struct bytes *args, int arg_count, const struct request_large *large,
    int large_count)
{
    size_t size = size_of_command(args, arg_count), piece_bytes = 0;
    struct aof_piece *pieces;
    struct aof_chunk *chunk;
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
    chunk = chunk_create(AOF_SELECT_SIZE + size - piece_bytes);
    chunk->start = AOF_SELECT_SIZE;
    out = print_header(chunk->data + chunk->start, '*', (uint64_t)arg_count);
    for (int i = 0; i < arg_count; i++) {
        struct blob *blob = request_large_find(large, large_count, args[i]);

        out = print_header(out, '$', args[i].size);
        if (blob != NULL)
            pieces[piece_count++] = (struct aof_piece){ blob_hold(blob), (size_t)(out - chunk->data) };
        else if (args[i].size > 0)
            out = mempcpy(out, args[i].data, args[i].size);
        *out++ = '\r';
        *out++ = '\n';
    }
    chunk->end = (size_t)(out - chunk->data);
    chunk->pieces = pieces;
    chunk->piece_count = piece_count;
    return append_own_chunk(tail, chunk, piece_bytes, db, db);
}

void aof_group_init(struct aof_group *group)
{
    *group = (struct aof_group){ .first_db = -1, .db = -1 };
}

void aof_group_release(struct aof_group *group)
{
    buffer_release(&group->text);
    aof_group_init(group);
}

void aof_group_clear(struct aof_group *group)
{
    group->text.size = 0;
    buffer_shrink(&group->text, 64 << 10);
    group->count = 0;
    group->first_db = group->db = -1;
}

void aof_group_add(struct aof_group *group, int db, const struct bytes *args, int arg_count)
{
    char *start = buffer_reserve(&group->text, size_of_command(args, arg_count) + AOF_SELECT_SIZE), *out = start;

    CHECK(db >= 0 && arg_count > 0);
    if (group->count == 0)
        group->first_db = db;
    else if (group->db != db)
        out += aof_select_print(db, out);
    group->db = db;
    group->count++;
    out = print_command(out, args, arg_count);
    group->text.size += (size_t)(out - start);
}

uint64_t aof_tail_append_group(struct aof_tail *tail, const struct aof_group *group)
{
    struct bytes before = BYTES("*1\r\n$5\r\nMULTI\r\n"), after = BYTES("*1\r\n$4\r\nEXEC\r\n");
    struct aof_chunk *chunk;
    char *start, *out;
    size_t size;
    uint64_t lsn;

    if (group->count == 0)
        return atomic_load_explicit(&tail->end, memory_order_acquire);
    if (group->count == 1)
        before = after = bytes_of("", 0);
    size = before.size + group->text.size + after.size;
    if (size > OWN_CHUNK_SIZE) {
        chunk = chunk_create(AOF_SELECT_SIZE + size);
        chunk->start = chunk->end = AOF_SELECT_SIZE;
        out = mempcpy(chunk->data + chunk->end, before.data, before.size);
        out = mempcpy(out, group->text.data, group->text.size);
        out = mempcpy(out, after.data, after.size);
        chunk->end = (size_t)(out - chunk->data);
        return append_own_chunk(tail, chunk, 0, group->first_db, group->db);
    }
    mutex_lock(&tail->lock);
    chunk = chunk_with_room(tail, size + AOF_SELECT_SIZE);
    start = chunk->data + chunk->end;
    out = mempcpy(put_select(tail, group->first_db, start), before.data, before.size);
    out = mempcpy(out, group->text.data, group->text.size);
    out = mempcpy(out, after.data, after.size);
    chunk->end += (size_t)(out - start);
    lsn = chunk_advance(tail, chunk, (size_t)(out - start), group->db);
    mutex_unlock(&tail->lock);
    return lsn;
}

uint64_t aof_tail_cut(struct aof_tail *tail)
{
    struct aof_chunk *chunk = chunk_create(AOF_CHUNK_SIZE);
    uint64_t lsn;

    chunk->begins_file = true;
    mutex_lock(&tail->lock);
    chunk_link(tail, chunk);
    tail->db = -1;
    lsn = atomic_load_explicit(&tail->end, memory_order_relaxed);
    mutex_unlock(&tail->lock);
    return lsn;
}

struct aof_chunk *aof_tail_take(struct aof_tail *tail)
{
    struct aof_chunk *chunks;

    mutex_lock(&tail->lock);
    chunks = tail->first;
    tail->first = tail->last = NULL;
    mutex_unlock(&tail->lock);
    return chunks;
}

void aof_tail_give_back(struct aof_tail *tail, struct aof_chunk *chunks)
{
    struct aof_chunk *rest = NULL;

    if (chunks == NULL)
        return;
    mutex_lock(&tail->lock);
    while (chunks != NULL) {
        struct aof_chunk *chunk = chunks;

        chunks = chunk->next;
        if (chunk->capacity == AOF_CHUNK_SIZE && tail->spare_count < SPARE_MAX) {
            chunk->start = chunk->end = 0;
            chunk->db_after = -1;
            chunk->begins_file = false;
            chunk->next = tail->spare;
            tail->spare = chunk;
            tail->spare_count++;
        } else {
            chunk->next = rest;
            rest = chunk;
        }
    }
    mutex_unlock(&tail->lock);
    chunks_free(rest);
}

/* A block that outgrows its chunk moves to the fullest chunk that has space; so all chunks but one are full but for
 * about half a block. When much has been removed, the blocks of the emptiest chunk are moved to the others.
 */
#include "tier/shelf.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum {
    NOWHERE = UINT32_MAX,
    PAGE_WORDS = 4096 / 8,
    CHUNK_COUNT_MAX = 1 << (32 - SHELF_OFFSET_BITS),
    TIDY_FRACTION = 8,          /* up to one word in this many may be unused, and a chunk */
};

/* Small chunks grow in steps of the allocator's, four for each doubling; from a page on they take whole pages,
 * so that the last chunks of many shelves are of few different sizes. */
static uint32_t room_for(uint32_t words)
{
    uint64_t step = 2;

    if (words > PAGE_WORDS && words <= SHELF_CHUNK_WORDS) {
        step = (words + PAGE_WORDS - 1) / PAGE_WORDS * PAGE_WORDS;
        return step < SHELF_CHUNK_WORDS ? (uint32_t)step : SHELF_CHUNK_WORDS;
    }
    while (words > step * 8)
        step *= 2;
    return (uint32_t)((words + step - 1) / step * step);
}

/* --- chunks --- */

static void chunk_resize(struct shelf *shelf, struct shelf_chunk *chunk, uint32_t room)
{
    chunk->words = mem_realloc(chunk->words, room * sizeof(uint64_t));
    shelf->room += room;
    shelf->room -= chunk->room;
    chunk->room = room;
}

/* Updates the places of the blocks from offset `from` on. */
static void chunk_renumber(struct shelf *shelf, uint32_t index, uint32_t from)
{
    struct shelf_chunk *chunk = &shelf->chunks[index];
    struct shelf_block *block;

    for (uint32_t at = from; at < chunk->used; at += block->words) {
        block = &shelf->blocks[(uint32_t)chunk->words[at]];
        block->place = index << SHELF_OFFSET_BITS | at;
    }
}

/* Moves what is from offset `from` on, to `to`. There is room. */
static void chunk_shift(struct shelf *shelf, uint32_t index, uint32_t from, uint32_t to)
{
    struct shelf_chunk *chunk = &shelf->chunks[index];

    memmove(chunk->words + to, chunk->words + from, (chunk->used - from) * sizeof(uint64_t));
    chunk->used = chunk->used - from + to;
    shelf->used = shelf->used - from + to;
    chunk_renumber(shelf, index, to);
}

static uint32_t chunk_push(struct shelf *shelf)
{
    CHECK(shelf->chunk_count < CHUNK_COUNT_MAX);
    if (shelf->chunk_count == shelf->chunk_room) {
        shelf->chunk_room += shelf->chunk_room / 8 + 1;
        shelf->chunks = mem_realloc(shelf->chunks, shelf->chunk_room * sizeof(*shelf->chunks));
    }
    shelf->chunks[shelf->chunk_count] = (struct shelf_chunk){ 0 };
    return shelf->chunk_count++;
}

/* The chunk is empty; the last one takes its place. */
static void chunk_remove(struct shelf *shelf, uint32_t index)
{
    struct shelf_chunk *chunk = &shelf->chunks[index];

    shelf->room -= chunk->room;
    mem_free(chunk->words);
    *chunk = shelf->chunks[--shelf->chunk_count];
    if (index < shelf->chunk_count)
        chunk_renumber(shelf, index, 0);
    if (shelf->chunk_count + shelf->chunk_count / 4 + 1 < shelf->chunk_room) {
        shelf->chunk_room = shelf->chunk_count + 1;
        shelf->chunks = mem_realloc(shelf->chunks, shelf->chunk_room * sizeof(*shelf->chunks));
    }
}

/* The fullest chunk other than `except` that has space for that many words; NOWHERE if there is none. */
static uint32_t chunk_find(const struct shelf *shelf, uint32_t words, uint32_t except)
{
    uint32_t best = NOWHERE;
    uint32_t best_used = 0;

    if (words > SHELF_CHUNK_WORDS)
        return NOWHERE;
    for (uint32_t i = 0; i < shelf->chunk_count; i++) {
        uint32_t used = shelf->chunks[i].used;

        if (used <= SHELF_CHUNK_WORDS - words && i != except && (best == NOWHERE || used > best_used)) {
            best = i;
            best_used = used;
        }
    }
    return best;
}

/* The same, but the last chunk if it has space: while a map is filled no other has. */
static uint32_t chunk_find_quickly(const struct shelf *shelf, uint32_t words, uint32_t except)
{
    uint32_t last = shelf->chunk_count - 1;

    if (shelf->chunk_count > 0 && last != except && words <= SHELF_CHUNK_WORDS && shelf->chunks[last].used <= SHELF_CHUNK_WORDS - words)
        return last;
    return chunk_find(shelf, words, except);
}

/* --- blocks --- */

/* Puts a block of no words at the end of a chunk. */
static uint64_t *block_append(struct shelf *shelf, uint32_t number, uint32_t words, uint32_t index)
{
    struct shelf_chunk *chunk = &shelf->chunks[index];
    uint64_t *at;

    if (chunk->used + words > chunk->room)
        chunk_resize(shelf, chunk, room_for(chunk->used + words));
    at = chunk->words + chunk->used;
    *at = number;
    shelf->blocks[number] = (struct shelf_block){ index << SHELF_OFFSET_BITS | chunk->used, words };
    chunk->used += words;
    shelf->used += words;
    return at;
}

/* Closes the gap of `words` words before offset `end`, which no block is in any more. */
static void gap_close(struct shelf *shelf, uint32_t index, uint32_t end, uint32_t words)
{
    struct shelf_chunk *chunk = &shelf->chunks[index];

    chunk_shift(shelf, index, end, end - words);
    if (chunk->used == 0)
        chunk_remove(shelf, index);
    else if (room_for(chunk->used) < chunk->room / 2)
        chunk_resize(shelf, chunk, room_for(chunk->used));
}

/* Moves a block to the end of another chunk, with `words` words. */
static void block_move(struct shelf *shelf, uint32_t number, uint32_t words, uint32_t to)
{
    struct shelf_block before = shelf->blocks[number];
    uint32_t index = before.place >> SHELF_OFFSET_BITS;
    uint32_t offset = before.place & ((1u << SHELF_OFFSET_BITS) - 1);
    uint64_t *at = block_append(shelf, number, words, to);

    memcpy(at, shelf->chunks[index].words + offset, before.words * sizeof(uint64_t));
    gap_close(shelf, index, offset + before.words, before.words);
}

/* Moves the emptiest chunk's blocks to the others, when all chunks together have more unused space than allowed. */
static void shelf_tidy(struct shelf *shelf)
{
    uint32_t emptiest = 0;
    uint32_t number;
    uint32_t to;

    if (shelf->chunk_count < 2 || shelf->room - shelf->used <= SHELF_CHUNK_WORDS + shelf->used / TIDY_FRACTION)
        return;
    for (uint32_t i = 1; i < shelf->chunk_count; i++)
        if (shelf->chunks[i].used < shelf->chunks[emptiest].used)
            emptiest = i;
    /* From its end on, so that nothing has to be moved to close the gaps. */
    for (uint32_t count = shelf->chunk_count; shelf->chunk_count == count; ) {
        struct shelf_chunk *chunk = &shelf->chunks[emptiest];

        number = 0;
        for (uint32_t at = 0; at < chunk->used; at += shelf->blocks[number].words)
            number = (uint32_t)chunk->words[at];
        to = chunk_find(shelf, shelf->blocks[number].words, emptiest);
        if (to == NOWHERE)
            return;
        block_move(shelf, number, shelf->blocks[number].words, to);
    }
}

static uint64_t *block_grow(struct shelf *shelf, uint32_t number, uint32_t words)
{
    struct shelf_block *block = &shelf->blocks[number];
    uint32_t index = block->place >> SHELF_OFFSET_BITS;
    uint32_t end = (block->place & ((1u << SHELF_OFFSET_BITS) - 1)) + block->words;
    struct shelf_chunk *chunk = &shelf->chunks[index];
    uint32_t more = words - block->words;
    uint32_t to;

    if (chunk->used + more <= SHELF_CHUNK_WORDS || chunk->used == block->words) {
        if (chunk->used + more > chunk->room)
            chunk_resize(shelf, chunk, room_for(chunk->used + more));
        block->words = words;
        chunk_shift(shelf, index, end, end + more);
    } else {
        to = chunk_find_quickly(shelf, words, index);
        block_move(shelf, number, words, to == NOWHERE ? chunk_push(shelf) : to);
    }
    return shelf_at(shelf, number);
}

static uint64_t *block_cut(struct shelf *shelf, uint32_t number, uint32_t words)
{
    struct shelf_block *block = &shelf->blocks[number];
    uint32_t end = (block->place & ((1u << SHELF_OFFSET_BITS) - 1)) + block->words;
    uint32_t less = block->words - words;

    block->words = words;
    gap_close(shelf, block->place >> SHELF_OFFSET_BITS, end, less);
    shelf_tidy(shelf);
    return words == 0 ? NULL : shelf_at(shelf, number);
}

/* --- public --- */

void shelf_release(struct shelf *shelf)
{
    for (uint32_t i = 0; i < shelf->chunk_count; i++)
        mem_free(shelf->chunks[i].words);
    mem_free(shelf->chunks);
    mem_free(shelf->blocks);
    *shelf = (struct shelf){ 0 };
}

void shelf_push(struct shelf *shelf)
{
    CHECK(shelf->block_count < NOWHERE);
    if (shelf->block_count == shelf->block_room) {
        shelf->block_room += shelf->block_room / 8 + 1;
        shelf->blocks = mem_realloc(shelf->blocks, shelf->block_room * sizeof(*shelf->blocks));
    }
    shelf->blocks[shelf->block_count++] = (struct shelf_block){ 0 };
}

void shelf_pop(struct shelf *shelf)
{
    CHECK(shelf->block_count > 0 && shelf->blocks[shelf->block_count - 1].words == 0);
    shelf->block_count--;
    if (shelf->block_count + shelf->block_count / 4 + 1 < shelf->block_room) {
        shelf->block_room = shelf->block_count + 1;
        shelf->blocks = mem_realloc(shelf->blocks, shelf->block_room * sizeof(*shelf->blocks));
    }
}

uint64_t *shelf_resize(struct shelf *shelf, uint32_t number, uint32_t words)
{
    uint32_t before = shelf->blocks[number].words;
    uint32_t to;

    if (words == before)
        return words == 0 ? NULL : shelf_at(shelf, number);
    if (words < before)
        return block_cut(shelf, number, words);
    if (before > 0)
        return block_grow(shelf, number, words);
    to = chunk_find_quickly(shelf, words, NOWHERE);
    return block_append(shelf, number, words, to == NOWHERE ? chunk_push(shelf) : to);
}

size_t shelf_size(const struct shelf *shelf)
{
    size_t size = shelf->room * sizeof(uint64_t);

    if (shelf->blocks != NULL)
        size += mem_size(shelf->blocks);
    if (shelf->chunks != NULL)
        size += mem_size(shelf->chunks);
    return size;
}

/* --- loading --- */

void shelf_load_blocks(struct shelf *shelf, uint32_t count)
{
    CHECK(shelf->block_count == 0 && count < NOWHERE);
    if (count == 0)
        return;
    shelf->blocks = mem_zalloc(count * sizeof(*shelf->blocks));
    shelf->block_count = shelf->block_room = count;
}

uint64_t *shelf_load_chunk(struct shelf *shelf, uint32_t used)
{
    struct shelf_chunk *chunk;
    uint32_t index;

    if (shelf->chunk_count == CHUNK_COUNT_MAX || used == 0)
        return NULL;
    index = chunk_push(shelf);
    chunk = &shelf->chunks[index];
    chunk_resize(shelf, chunk, room_for(used));
    chunk->used = used;
    shelf->used += used;
    return chunk->words;
}

bool shelf_load_places(struct shelf *shelf, const uint32_t *words)
{
    uint32_t index = shelf->chunk_count - 1, at = 0;
    const struct shelf_chunk *chunk = &shelf->chunks[index];

    while (at < chunk->used) {
        uint32_t number = (uint32_t)chunk->words[at];

        if (number >= shelf->block_count || words[number] == 0 || words[number] > chunk->used - at || shelf->blocks[number].words != 0)
            return false;
        /* A chunk that is larger than others has one block. */
        if (at >= SHELF_CHUNK_WORDS)
            return false;
        shelf->blocks[number] = (struct shelf_block){ index << SHELF_OFFSET_BITS | at, words[number] };
        at += words[number];
    }
    return chunk->used <= SHELF_CHUNK_WORDS || shelf_words(shelf, (uint32_t)chunk->words[0]) == chunk->used;
}

#include "stream/backlog.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/disk.h"
#include "base/mem.h"
#include "stream/backlog_private.h"

enum { SLOTS_FIRST = 8, EVICT_WRITES_MAX = 4, EVICT_WAIT_BLOCKS = 64, FILES_MIN = 8, FILES_MAX = 128, FILE_SIZE_MAX = 1 << 30 };

struct backlog *backlog_create(const struct backlog_options *options)
{
    struct backlog *backlog = mem_zalloc(sizeof(*backlog));
    uint64_t block_size = options->block_size != 0 ? options->block_size : BACKLOG_BLOCK_SIZE;

    CHECK((block_size & (block_size - 1)) == 0);
    backlog->first = options->first;
    backlog->block_size = block_size;
    backlog->block_shift = (unsigned)__builtin_ctzll(block_size);
    backlog->file_size = options->file_size != 0 ? options->file_size : BACKLOG_SPOOL_FILE_SIZE;
    backlog->reader_memory = options->reader_memory;
    backlog->end = options->first;
    backlog->memory_size = options->memory_size;
    backlog->disk_size = options->disk_size;
    backlog->slot_count = SLOTS_FIRST;
    backlog->slots = mem_zalloc(SLOTS_FIRST * sizeof(struct block *));
    mutex_init(&backlog->spool_lock);
    mutex_init(&backlog->lock);
    spool_init(&backlog->spool, options->disk != NULL ? options->disk : disk_system(), options->closer, options->dir,
        options->name != NULL ? options->name : "backlog", block_size);
    return backlog;
}

static struct block *block_create(size_t size)
{
    struct block *block = mem_alloc(sizeof(*block));

    *block = (struct block){ .data = mem_alloc(size) };     /* apart: together they would need the next larger size of the allocator */
    return block;
}

static void blocks_free(struct block *block)
{
    while (block != NULL) {
        struct block *next = block->next;

        mem_free(block->data);
        mem_free(block);
        block = next;
    }
}

void backlog_destroy(struct backlog *backlog)
{
    if (backlog == NULL)
        return;
    CHECK(backlog->readers == NULL);
    while (backlog->ring_first < backlog->ring_next)
        blocks_free(backlog_block(backlog, backlog->ring_first++));
    blocks_free(backlog->spare);
    spool_release(&backlog->spool);
    mutex_release(&backlog->lock);
    mutex_release(&backlog->spool_lock);
    mem_free(backlog->slots);
    mem_free(backlog);
}

void backlog_unlock(struct backlog *backlog)
{
    struct block *blocks = backlog->unused;
    struct spool_file *files = spool_take_unused(&backlog->spool);

    backlog->unused = NULL;
    mutex_unlock(&backlog->lock);
    blocks_free(blocks);
    spool_close(&backlog->spool, files);
}

/* --- positions --- */

static uint64_t memory_begin(const struct backlog *backlog) REQUIRES(backlog->lock);
static uint64_t memory_begin(const struct backlog *backlog)
{
    uint64_t start = backlog_start_of(backlog, backlog->ring_first), end = backlog->end;
    uint64_t wanted = end > backlog->memory_size ? end - backlog->memory_size : 0;

    return wanted > start ? wanted : start;
}

/* Returns the needed bytes in memory that are not among the last `memory_size` bytes. */
static uint64_t needed_in_memory(const struct backlog *backlog) REQUIRES(backlog->lock);
static uint64_t needed_in_memory(const struct backlog *backlog)
{
    uint64_t start = backlog_start_of(backlog, backlog->ring_first), needed = backlog_needed_from(backlog);

    return needed > start ? needed : start;
}

uint64_t backlog_oldest(const struct backlog *backlog)
{
    uint64_t in_memory = memory_begin(backlog), needed;

    if (spool_is_empty(&backlog->spool))
        needed = needed_in_memory(backlog);
    else
        needed = backlog_start_of(backlog, spool_begin(&backlog->spool));
    return needed < in_memory ? needed : in_memory;
}

uint64_t backlog_begin(struct backlog *backlog)
{
    uint64_t begin;

    mutex_lock(&backlog->lock);
    begin = backlog_oldest(backlog);
    mutex_unlock(&backlog->lock);
    return begin;
}

uint64_t backlog_end(const struct backlog *backlog)
{
    return atomic_load_explicit(&backlog->end, memory_order_acquire);
}

static uint64_t disk_bound(const struct backlog *backlog) REQUIRES(backlog->lock);
static uint64_t disk_bound(const struct backlog *backlog)
{
    return backlog->spool.path != NULL ? backlog->disk_size : 0;
}

static uint64_t blocks_free_on_disk(const struct backlog *backlog) REQUIRES(backlog->lock);
static uint64_t blocks_free_on_disk(const struct backlog *backlog)
{
    uint64_t bound = disk_bound(backlog), used = backlog->spool.used;

    return bound > used ? (bound - used) >> backlog->block_shift : 0;
}

/* The end of the stream at which the first needed block leaves memory that has no room on disk. Blocks before it are dropped by the next append. */
static uint64_t full_at(const struct backlog *backlog) REQUIRES(backlog->lock);
static uint64_t full_at(const struct backlog *backlog)
{
    uint64_t number = backlog_number_of(backlog, needed_in_memory(backlog)), kept = blocks_free_on_disk(backlog) << backlog->block_shift, at;
    uint64_t in_memory = backlog->reader_memory > backlog->memory_size ? backlog->reader_memory : backlog->memory_size;

    if (!spool_is_empty(&backlog->spool) && spool_end(&backlog->spool) > number)
        number = spool_end(&backlog->spool);
    if (__builtin_add_overflow(kept, in_memory, &kept) ||
        __builtin_add_overflow(backlog_start_of(backlog, number + 1), kept, &at))
        return UINT64_MAX;
    return at;
}

uint64_t backlog_room(struct backlog *backlog)
{
    uint64_t room = UINT64_MAX, at, end;

    mutex_lock(&backlog->lock);
    if (backlog_needed_from(backlog) != UINT64_MAX) {
        at = full_at(backlog);
        end = backlog->end;
        room = at > end ? at - end - 1 : 0;
    }
    mutex_unlock(&backlog->lock);
    return room;
}

/* --- appending --- */

static void grow_slots(struct backlog *backlog) REQUIRES(backlog->lock);
static void grow_slots(struct backlog *backlog)
{
    uint64_t count = backlog->slot_count * 2;
    struct block **slots = mem_zalloc(count * sizeof(*slots));

    for (uint64_t number = backlog->ring_first; number < backlog->ring_next; number++)
        slots[number & (count - 1)] = backlog_block(backlog, number);
    mem_free(backlog->slots);
    backlog->slots = slots;
    backlog->slot_count = count;
}

static void add_tail(struct backlog *backlog, struct block *block) REQUIRES(backlog->lock);
static void add_tail(struct backlog *backlog, struct block *block)
{
    if (backlog->ring_next - backlog->ring_first == backlog->slot_count)
        grow_slots(backlog);
    block->holds++;
    backlog->slots[backlog->ring_next++ & (backlog->slot_count - 1)] = block;
}

static void begin_block(struct backlog *backlog)
{
    mutex_lock(&backlog->lock);
    backlog->tail = backlog->spare;
    backlog->spare = NULL;
    mutex_unlock(&backlog->lock);
    if (backlog->tail == NULL)
        backlog->tail = block_create(backlog->block_size);
}

/* The first block is full, and the last `size` bytes begin after it. */
static bool is_before_last(const struct backlog *backlog, uint64_t size) REQUIRES(backlog->lock);
static bool is_before_last(const struct backlog *backlog, uint64_t size)
{
    uint64_t after = backlog_start_of(backlog, backlog->ring_first + 1), end = backlog->end;

    return after <= end && end - after >= size;
}

static bool is_over(const struct backlog *backlog) REQUIRES(backlog->lock);
static bool is_over(const struct backlog *backlog)
{
    return is_before_last(backlog, backlog->memory_size);
}

/* Memory grows because another thread, which evicts blocks, waits for the disk. */
static bool is_far_over(const struct backlog *backlog) REQUIRES(backlog->lock);
static bool is_far_over(const struct backlog *backlog)
{
    uint64_t more = backlog->reader_memory + ((uint64_t)EVICT_WAIT_BLOCKS << backlog->block_shift), size;

    return !__builtin_add_overflow(backlog->memory_size, more, &size) && is_before_last(backlog, size);
}

/* Appends bytes that fit into one block: copied first, then made known under the lock. */
static void append_to_block(struct backlog *backlog, struct bytes bytes)
{
    uint64_t end = atomic_load_explicit(&backlog->end, memory_order_relaxed);
    size_t offset = (size_t)(end - backlog->first) & (backlog->block_size - 1);
    bool over, far;

    if (offset == 0)
        begin_block(backlog);
    memcpy(backlog->tail->data + offset, bytes.data, bytes.size);
    mutex_lock(&backlog->lock);
    if (offset == 0)
        add_tail(backlog, backlog->tail);
    atomic_store_explicit(&backlog->end, end + bytes.size, memory_order_release);
    over = is_over(backlog);
    far = over && is_far_over(backlog);
    mutex_unlock(&backlog->lock);
    if (UNLIKELY(over))
        backlog_evict(backlog, far ? BACKLOG_EVICT_WAIT : BACKLOG_EVICT_UNLESS_BUSY);
}

void backlog_append(struct backlog *backlog, struct bytes bytes)
{
    while (bytes.size > 0) {
        size_t offset = (size_t)(backlog_end(backlog) - backlog->first) & (backlog->block_size - 1);
        size_t size = backlog->block_size - offset < bytes.size ? backlog->block_size - offset : bytes.size;

        append_to_block(backlog, bytes_of(bytes.data, size));
        bytes = bytes_of(bytes.data + size, bytes.size - size);
    }
}

/* --- what memory_size does not cover --- */

void backlog_let_go(struct backlog *backlog, struct block *block)
{
    if (--block->holds > 0)
        return;
    if (backlog->spare == NULL) {
        block->next = NULL;
        backlog->spare = block;
        return;
    }
    block->next = backlog->unused;
    backlog->unused = block;
}

static void drop_first(struct backlog *backlog) REQUIRES(backlog->lock);
static void drop_first(struct backlog *backlog)
{
    backlog_let_go(backlog, backlog_block(backlog, backlog->ring_first));
    backlog->ring_first++;
}

static bool first_is_needed(const struct backlog *backlog) REQUIRES(backlog->lock);
static bool first_is_needed(const struct backlog *backlog)
{
    return backlog_needed_from(backlog) < backlog_start_of(backlog, backlog->ring_first + 1);
}

/* Gives positions up until the first block fits into the spool. False: it is not needed any more. */
static bool make_room(struct backlog *backlog) REQUIRES(backlog->lock);
static bool make_room(struct backlog *backlog)
{
    while (first_is_needed(backlog)) {
        if (blocks_free_on_disk(backlog) > 0)
            return true;
        backlog_give_up(backlog, (struct backlog_loss_reason){ disk_bound(backlog) > 0 ? BACKLOG_LOST_BOUND : BACKLOG_LOST_NO_DISK, 0 });
    }
    return false;
}

/* So that a spool frees its space in steps of at most a FILES_MIN-th of it, and has not many more than FILES_MAX descriptors, unless it has
 * room for very much. */
static uint32_t file_capacity(const struct backlog *backlog) REQUIRES(backlog->lock);
static uint32_t file_capacity(const struct backlog *backlog)
{
    uint64_t size = backlog->file_size, bound = backlog->disk_size;

    if (size > bound / FILES_MIN)
        size = bound / FILES_MIN;
    if (size < bound / FILES_MAX)
        size = bound / FILES_MAX;
    if (size > FILE_SIZE_MAX)
        size = FILE_SIZE_MAX;
    size >>= backlog->block_shift;
    return size > 0 ? (uint32_t)size : 1;
}

/* A block on its way to the spool. */
struct transfer {
    struct block *block;            /* held */
    uint64_t number;
    struct spool_file *file;        /* held; NULL: a new one is needed, or can't be opened */
    bool is_new;                    /* the file */
    uint32_t capacity, sum;
};

static void begin_transfer(struct backlog *backlog, struct transfer *transfer) REQUIRES(backlog->lock);
static void begin_transfer(struct backlog *backlog, struct transfer *transfer)
{
    *transfer = (struct transfer){ .block = backlog_block(backlog, backlog->ring_first), .number = backlog->ring_first };
    transfer->block->holds++;
    transfer->file = spool_hold_last(&backlog->spool);
    transfer->is_new = transfer->file == NULL;
    transfer->capacity = file_capacity(backlog);
}

/* 0, or errno. */
static int write_block(struct backlog *backlog, struct transfer *transfer)
{
    if (transfer->is_new)
        transfer->file = spool_open(&backlog->spool, transfer->number, transfer->capacity);
    if (transfer->file != NULL && spool_write(&backlog->spool, transfer->file, transfer->block->data, &transfer->sum))
        return 0;
    return errno != 0 ? errno : EIO;
}

/* After a failure the block stays in memory, and is tried again if it is still needed. Meanwhile all readers that needed it may have gone,
 * and the file with them; or memory_size may have grown so that the block stays. */
static void end_transfer(struct backlog *backlog, struct transfer *transfer, int error) REQUIRES(backlog->lock);
static void end_transfer(struct backlog *backlog, struct transfer *transfer, int error)
{
    struct spool_file *file = transfer->file;

    if (error == 0 && (file->is_listed || (transfer->is_new && first_is_needed(backlog)))) {
        spool_commit(&backlog->spool, file, transfer->sum);
        backlog->blocks_written++;
        if (is_over(backlog))
            drop_first(backlog);
    }
    if (error != 0) {
        backlog->write_errors++;
        if (file != NULL)
            spool_seal(&backlog->spool, file);
        if (first_is_needed(backlog))
            backlog_give_up(backlog, (struct backlog_loss_reason){ BACKLOG_LOST_WRITE, error });
    }
    if (file != NULL)
        spool_let_go(&backlog->spool, file);
    backlog_let_go(backlog, transfer->block);
}

/* The next step with the first block. */
enum fate { FATE_STAYS, FATE_DROPPED, FATE_TO_WRITE };

static enum fate fate_of_first(struct backlog *backlog) REQUIRES(backlog->lock);
static enum fate fate_of_first(struct backlog *backlog)
{
    if (!is_over(backlog))
        return FATE_STAYS;
    if (spool_has(&backlog->spool, backlog->ring_first) || !first_is_needed(backlog))
        return FATE_DROPPED;
    if (backlog->reader_count > 0 && !is_before_last(backlog, backlog->reader_memory))
        return FATE_STAYS;
    return make_room(backlog) ? FATE_TO_WRITE : FATE_DROPPED;
}

/* Drops the first block, or writes it to the spool. False: it stays. */
static bool evict_next(struct backlog *backlog, int *writes) REQUIRES(backlog->spool_lock);
static bool evict_next(struct backlog *backlog, int *writes)
{
    struct transfer transfer;
    enum fate fate;
    int error;

    mutex_lock(&backlog->lock);
    fate = fate_of_first(backlog);
    if (fate == FATE_DROPPED)
        drop_first(backlog);
    else if (fate == FATE_TO_WRITE)
        begin_transfer(backlog, &transfer);
    backlog_unlock(backlog);
    if (fate != FATE_TO_WRITE)
        return fate == FATE_DROPPED;
    error = write_block(backlog, &transfer);
    mutex_lock(&backlog->lock);
    end_transfer(backlog, &transfer, error);
    backlog_unlock(backlog);
    ++*writes;
    return true;
}

static void evict_some(struct backlog *backlog) REQUIRES(backlog->spool_lock);
static void evict_some(struct backlog *backlog)
{
    int writes = 0;

    while (writes < EVICT_WRITES_MAX && evict_next(backlog, &writes))
        ;
}

void backlog_evict(struct backlog *backlog, enum backlog_evict how)
{
    if (how == BACKLOG_EVICT_WAIT) {
        mutex_lock(&backlog->spool_lock);
        evict_some(backlog);
        mutex_unlock(&backlog->spool_lock);
    } else if (mutex_try_lock(&backlog->spool_lock)) {
        evict_some(backlog);
        mutex_unlock(&backlog->spool_lock);
    }
}

/* --- settings and statistics --- */

void backlog_resize(struct backlog *backlog, uint64_t memory_size)
{
    mutex_lock(&backlog->lock);
    backlog->memory_size = memory_size;
    mutex_unlock(&backlog->lock);
    backlog_evict(backlog, BACKLOG_EVICT_UNLESS_BUSY);
}

void backlog_limit_disk(struct backlog *backlog, uint64_t disk_size)
{
    mutex_lock(&backlog->lock);
    backlog->disk_size = disk_size;
    while (backlog->spool.used > disk_size)
        backlog_give_up(backlog, (struct backlog_loss_reason){ disk_size > 0 ? BACKLOG_LOST_BOUND : BACKLOG_LOST_NO_DISK, 0 });
    backlog_unlock(backlog);
}

static uint64_t memory_used(const struct backlog *backlog) REQUIRES(backlog->lock);
static uint64_t memory_used(const struct backlog *backlog)
{
    uint64_t blocks = backlog->ring_next - backlog->ring_first + (backlog->spare != NULL);

    return sizeof(*backlog) + backlog->slot_count * sizeof(struct block *) + blocks * (backlog->block_size + sizeof(struct block)) +
        (uint64_t)backlog->copy_count * backlog->block_size + (backlog->spool.used >> backlog->block_shift) * sizeof(uint32_t);
}

void backlog_stats(struct backlog *backlog, struct backlog_stats *stats)
{
    mutex_lock(&backlog->lock);
    *stats = (struct backlog_stats){
        .begin = backlog_oldest(backlog), .end = backlog->end,
        .memory_begin = memory_begin(backlog), .memory_used = memory_used(backlog),
        .disk_used = backlog->spool.used, .files = backlog->spool.file_count,
        .readers = backlog->reader_count, .retained = backlog->retained_count,
        .disk_written = backlog->blocks_written << backlog->block_shift, .disk_read = backlog->blocks_read << backlog->block_shift,
        .write_errors = backlog->write_errors, .read_errors = backlog->read_errors,
        .lost_readers = backlog->lost_readers, .lost_retained = backlog->lost_retained,
    };
    mutex_unlock(&backlog->lock);
}

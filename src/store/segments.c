#include "store/segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "store/segment_body.h"

static const uint64_t slots_size = sizeof(_Atomic(struct segment *)) << PLACE_SLOT_BITS;
static const uint64_t sequence_max = INT64_MAX;         /* of sequences and stamps in files: the next ones must not overflow */

/* --- places --- */

static unsigned class_of(uint64_t size)
{
    unsigned class = 0;

    while (class < SEGMENT_CLASS_HUGE && size > 128ull << class)
        class++;
    return class;
}

uint64_t place_make(uint32_t slot, uint64_t offset, unsigned kind, uint64_t size)
{
    uint64_t unit = (uint64_t)slot << PLACE_UNIT_BITS | offset / SEGMENT_UNIT;

    return (unit << SEGMENT_KIND_BITS | kind) << PLACE_CLASS_BITS | class_of(size);
}

uint64_t segment_place(const struct segment *segment, uint64_t offset, unsigned kind, uint64_t size)
{
    return place_make(segment->slot, offset, kind, size);
}

static uint32_t slot_of(uint64_t place)
{
    return (uint32_t)(place >> PLACE_SLOT_SHIFT);
}

static struct segment *segment_at(const struct segments *segments, uint64_t place)
{
    uint32_t slot = slot_of(place);

    return slot < 1u << PLACE_SLOT_BITS ? atomic_load_explicit(&segments->slots[slot], memory_order_acquire) : NULL;
}

/* --- the list --- */

void segment_path(const struct segments *segments, const struct segment *segment, char path[SEGMENT_PATH_SIZE])
{
    snprintf(path, SEGMENT_PATH_SIZE, "%s/%08llu.seg", segments->dir, (unsigned long long)segment->sequence);
}

static void list_append(struct segments *segments, struct segment *segment)
{
    segment->previous = segments->last;
    if (segments->last != NULL)
        segments->last->next = segment;
    else
        segments->first = segment;
    segments->last = segment;
    atomic_fetch_add(&segments->count, 1);
    atomic_store_explicit(&segments->slots[segment->slot], segment, memory_order_release);
}

static void list_remove(struct segments *segments, struct segment *segment)
{
    *(segment->previous != NULL ? &segment->previous->next : &segments->first) = segment->next;
    *(segment->next != NULL ? &segment->next->previous : &segments->last) = segment->previous;
    atomic_fetch_sub(&segments->count, 1);
}

struct segment *segments_next(struct segments *segments, const struct segment *segment)
{
    return segment == NULL ? segments->first : segment->next;
}

static struct segment *segment_create(const struct segment_head *head)
{
    struct segment *segment = mem_zalloc(sizeof(*segment));

    segment->sequence = head->sequence;
    segment->slot = head->slot;
    segment->fd = segment->write_fd = -1;
    atomic_init(&segment->direct_fd, -1);
    return segment;
}

static void segment_destroy(struct segments *segments, struct segment *segment)
{
    if (segment->fd >= 0)
        segments->disk->close(segments->disk->context, segment->fd);
    if (segment->write_fd >= 0)
        segments->disk->close(segments->disk->context, segment->write_fd);
    if (segment->direct_fd >= 0) {
        segments->disk->close(segments->disk->context, segment->direct_fd);
        segments->direct_count--;
    }
    buffer_release(&segment->pending);
    buffer_release(&segment->rest);
    mem_free(segment);
}

int segment_open(const struct segments *segments, const struct segment *segment)
{
    char path[SEGMENT_PATH_SIZE];

    if (segment->fd >= 0)
        return segment->fd;
    segment_path(segments, segment, path);
    return file_open(segments->disk, AT_FDCWD, path, O_RDONLY);
}

void segment_close(const struct segments *segments, const struct segment *segment, int fd)
{
    if (fd >= 0 && fd != segment->fd)
        segments->disk->close(segments->disk->context, fd);
}

static uint32_t free_slot(struct segments *segments)
{
    for (uint32_t i = 0; i < 1u << PLACE_SLOT_BITS; i++) {
        uint32_t slot = segments->next_slot;

        segments->next_slot = (slot + 1) & ((1u << PLACE_SLOT_BITS) - 1);
        if (segments->slots[slot] == NULL)
            return slot;
    }
    CHECK(!"the slots of segments are used up");
    return 0;
}

/* --- opening --- */

bool segment_is_file(const char *path)
{
    size_t size = strlen(path);

    return size > 4 && strcmp(path + size - 4, ".seg") == 0;
}

static int by_sequence(const void *a, const void *b)
{
    const struct segment *left = *(struct segment *const *)a, *right = *(struct segment *const *)b;

    return left->sequence < right->sequence ? -1 : left->sequence > right->sequence;
}

/* The weight of all records and the last stamp, from the footer. Without one (the file is damaged) the file's size has to do. */
static void read_footer(const struct segments *segments, struct segment *segment)
{
    char bytes[256];
    struct segment_record record;
    struct segment_footer footer;
    uint64_t size = segment_footer_size() + segment_uses_size(), footer_at;

    CHECK(size <= sizeof(bytes));
    segment->weight = segment->size;
    segment->stamp = segment->sequence + STAMPS_LOST;
    if (segment->size < size)
        size = segment->size;
    if (size < segment_footer_size() || file_pread_all(segments->disk, segment->fd, bytes, size, segment->size - size) != (ssize_t)size)
        return;
    segment_uses_parse(bytes_of(bytes, size), &segment->uses);
    footer_at = size - segment_footer_size();
    if (segment_record_parse(bytes_of(bytes + footer_at, size - footer_at), &record, &size) != STATUS_OK || !segment_footer_parse(&record, &footer) ||
        footer.stamp > sequence_max)
        return;
    segment->weight = footer.weight;
    segment->stamp = footer.stamp > segment->sequence ? footer.stamp : segment->sequence;
    segment->is_huge = segment_footer_is_of_one_huge(&footer);
    if (segment->is_huge)
        segment->uses.are_known = true;         /* it is not packed */
}

/* NULL: `status` says why. */
static struct segment *open_file(const struct segments *segments, const char *name, enum status *status)
{
    char path[SEGMENT_PATH_SIZE], bytes[SEGMENT_HEAD_SIZE];
    struct segment_head head = { 0 };
    struct segment *segment;
    struct stat info;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", segments->dir, name);
    fd = file_open(segments->disk, AT_FDCWD, path, O_RDONLY);
    if (fd < 0 || fstat(fd, &info) != 0) {
        *status = status_of_errno(errno);
        if (fd >= 0)
            segments->disk->close(segments->disk->context, fd);
        return NULL;
    }
    *status = file_pread_all(segments->disk, fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) ?
        segment_head_parse(bytes_of(bytes, sizeof(bytes)), &head) : STATUS_CORRUPT;
    if (*status == STATUS_OK && (head.sequence > sequence_max || head.slot >= 1u << PLACE_SLOT_BITS || segments->slots[head.slot] != NULL))
        *status = STATUS_CORRUPT;
    if (*status != STATUS_OK) {
        segments->disk->close(segments->disk->context, fd);
        return NULL;
    }
    segment = segment_create(&head);
    segment->fd = fd;
    segment->size = (uint64_t)info.st_size;
    segment->written = segment->size;
    segment->state = SEGMENT_SEALED;
    segment->is_synced = true;          /* images and their clones are */
    read_footer(segments, segment);
    if (segments->is_lazy) {
        segments->disk->close(segments->disk->context, fd);
        segment->fd = -1;
    }
    return segment;
}

static void use_sequence(struct segments *segments, uint64_t sequence)
{
    if (segments->next_sequence <= sequence)
        segments->next_sequence = sequence + 1;
}

/* Its stamps are not known; and as long as it is kept no other file may have its name. */
static void note_damaged(struct segments *segments, const char *name)
{
    uint64_t sequence = strtoull(name, NULL, 10);

    if (sequence <= sequence_max)
        use_sequence(segments, sequence + STAMPS_LOST);
    segments->damaged = mem_realloc(segments->damaged, (segments->damaged_count + 1) * sizeof(*segments->damaged));
    segments->damaged[segments->damaged_count++] = mem_string(bytes_of_string(name));
}

/* A segment whose head is damaged is left out: its records are missing, and the reader of a place says so. */
static enum status open_all(struct segments *segments, struct message *message)
{
    DIR *dir = opendir(segments->dir);
    struct segment **found = NULL;
    size_t count = 0;
    struct dirent *entry;
    enum status status = dir != NULL ? STATUS_OK : status_of_errno(errno);

    while (dir != NULL && status == STATUS_OK && (entry = readdir(dir)) != NULL) {
        struct segment *segment;

        if (!segment_is_file(entry->d_name))
            continue;
        segment = open_file(segments, entry->d_name, &status);
        if (segment == NULL && (status == STATUS_CORRUPT || status == STATUS_TRUNCATED)) {
            note_damaged(segments, entry->d_name);
            status = STATUS_OK;
            continue;
        }
        if (segment == NULL) {
            if (message != NULL)
                message_set(message, "the segment '%.150s/%.40s' can't be opened: %s", segments->dir, entry->d_name,
                    status == STATUS_VERSION ? "it was written by a newer Kelvin" : status_name(status));
            break;
        }
        if (count % 64 == 0)
            found = mem_realloc(found, (count + 64) * sizeof(*found));
        found[count++] = segment;
        segments->slots[segment->slot] = segment;
    }
    if (dir != NULL)
        closedir(dir);
    if (dir == NULL && message != NULL)
        message_set(message, "can't open the segments in '%.150s': %s", segments->dir, status_name(status));
    if (count > 0)
        qsort(found, count, sizeof(*found), by_sequence);
    for (size_t i = 0; i < count; i++) {
        list_append(segments, found[i]);
        segments->unsettled_count++;
        segments->bytes += found[i]->size;
        segments->total_weight += found[i]->weight;
        use_sequence(segments, found[i]->stamp);
    }
    mem_free(found);
    return status;
}

enum status segments_open(const struct segments_options *options, struct segments **segments, struct message *message)
{
    struct segments *opened = mem_zalloc(sizeof(*opened));
    enum status status;

    opened->dir = mem_string(bytes_of_string(options->dir));
    opened->disk = options->disk;
    opened->descriptors_max = options->descriptors_max != 0 ? options->descriptors_max : UINT64_MAX;
    opened->is_lazy = options->is_lazy;
    opened->size_max = options->size_max != 0 ? options->size_max : SEGMENT_SIZE_MAX;
    CHECK(opened->size_max <= SEGMENT_SIZE_MAX);
    /* Address space: only pages that are used take memory. */
    opened->slots = mmap(NULL, slots_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(opened->slots != MAP_FAILED);
    opened->next_sequence = 1;
    opened->writes = 1;
    status = open_all(opened, message);
    if (status != STATUS_OK) {
        segments_close(opened);
        opened = NULL;
    }
    *segments = opened;
    return status;
}

static void destroy_all(struct segments *segments, struct segment *first)
{
    while (first != NULL) {
        struct segment *segment = first;

        first = segment->next;
        segment_destroy(segments, segment);
    }
}

void segments_close(struct segments *segments)
{
    if (segments == NULL)
        return;
    while (segments->first != NULL) {
        struct segment *segment = segments->first;

        CHECK(segment->pins == 0);
        list_remove(segments, segment);
        segment_destroy(segments, segment);
    }
    destroy_all(segments, segments->retired);
    destroy_all(segments, segments->lost);
    for (uint64_t i = 0; i < segments->damaged_count; i++)
        mem_free(segments->damaged[i]);
    mem_free(segments->damaged);
    segment_buffer_release(&segments->scratch);
    munmap(segments->slots, slots_size);
    mem_free(segments->dir);
    mem_free(segments);
}

/* --- putting --- */

static void seal(struct segments *segments, struct segment *segment)
{
    size_t before = segment->pending.size;

    segment_footer_append(&segment->pending, &(struct segment_footer){ segment->weight, segment->count, segment->stamp },
        segment->is_huge ? NULL : &segment->uses);
    segments->pending += segment->pending.size - before;
    segment->size += segment->pending.size - before;
    segment->state = SEGMENT_SEALED;
    segments->unsettled_count++;
    segment->sealed_ms = clock_mono_us() / 1000;
}

static void seal_tail(struct segments *segments, unsigned tail)
{
    if (segments->tails[tail] != NULL)
        seal(segments, segments->tails[tail]);
    segments->tails[tail] = NULL;
}

void segments_seal(struct segments *segments)
{
    for (unsigned tail = 0; tail < SEGMENT_TAILS; tail++)
        seal_tail(segments, tail);
}

void segments_seal_dying(struct segments *segments, unsigned percent, uint64_t least)
{
    if (least > segments->size_max / 4)
        least = segments->size_max / 4;
    for (unsigned tail = 0; tail < SEGMENT_TAILS; tail++) {
        const struct segment *segment = segments->tails[tail];

        if (segment != NULL && segment->pending.size == 0 && segment->size >= least && segment->live * 100 <= segment->weight * percent)
            seal_tail(segments, tail);
    }
}

static struct segment *new_tail(struct segments *segments, unsigned tail)
{
    struct segment_head head = { segments->next_sequence++, free_slot(segments) };
    struct segment *segment = segment_create(&head);

    segment->state = SEGMENT_TAIL;
    segment->stamp = segment->sequence;
    segment->uses.are_known = true;
    segment->is_ours = true;
    segment->is_direct = segments->prefers_direct && segment_may_be_direct(segments);
    atomic_init(&segment->is_read_direct, segment->is_direct);
    segment_head_append(&segment->pending, segment->sequence, segment->slot);
    segment->size = segment->pending.size;
    segments->pending += segment->pending.size;
    list_append(segments, segment);
    segments->tails[tail] = segment;
    return segment;
}

/* One write puts different keys. So a mark is needed only where others were stamped since the segment's last write. */
static void mark(struct segments *segments, struct segment *segment)
{
    size_t before = segment->pending.size;

    if (segment->put_at != segments->writes && segment->stamp + 1 < segments->next_sequence) {
        segment->stamp = segments->next_sequence++;
        segment_mark_append(&segment->pending, segment->stamp);
        segments->pending += segment->pending.size - before;
        segment->size += segment->pending.size - before;
    }
    segment->put_at = segments->writes;
}

/* The segment for a record of that class. */
static struct segment *tail_for(struct segments *segments, unsigned tail, unsigned class)
{
    struct segment *segment = segments->tails[tail];

    if (segment != NULL && (segment->size + SEGMENT_MARK_SIZE >= segments->size_max || class == SEGMENT_CLASS_HUGE))
        seal_tail(segments, tail);
    segment = segments->tails[tail] != NULL ? segments->tails[tail] : new_tail(segments, tail);
    mark(segments, segment);
    CHECK(segment->size < SEGMENT_SIZE_MAX);
    return segment;
}

uint64_t segments_put(struct segments *segments, unsigned tail, uint32_t incarnation, unsigned kind, struct bytes key, struct bytes value,
    uint32_t dictionary)
{
    uint64_t size = segment_record_size(incarnation, kind, key.size, value.size), place;
    unsigned class = class_of(size);
    struct segment *segment;

    CHECK(incarnation != 0 && tail < SEGMENT_TAILS && !segments->is_lazy);
    segment = tail_for(segments, tail, class);
    place = segment_place(segment, segment->size, kind, size);
    CHECK(segment_record_append(&segment->pending, incarnation, kind, key, value) == size);
    segment_uses_add(&segment->uses, dictionary);
    segments->pending += size;
    segment->size += size;
    segment->count++;
    segment->weight += place_weight(place);
    segments->total_weight += place_weight(place);
    atomic_fetch_add_explicit(&segment->live, place_weight(place), memory_order_relaxed);
    atomic_fetch_add_explicit(&segments->live_weight, place_weight(place), memory_order_relaxed);
    if (class == SEGMENT_CLASS_HUGE) {
        segment->is_huge = true;
        seal_tail(segments, tail);
    }
    return place;
}

static bool may_need(const struct segment *first, uint32_t dictionary)
{
    for (const struct segment *segment = first; segment != NULL; segment = segment->next) {
        if (segment_uses_have(&segment->uses, dictionary))
            return true;
    }
    return false;
}

bool segments_may_need(const struct segments *segments, uint32_t dictionary)
{
    return segments->damaged_count > 0 || may_need(segments->first, dictionary) || may_need(segments->retired, dictionary);
}

void segments_take_back(struct segments *segments, uint64_t place)
{
    struct segment *segment = segment_at(segments, place);
    uint64_t offset = place_offset(place);

    segments_dead(segments, place);
    if (segment->state != SEGMENT_TAIL || offset < segment->written)
        return;                     /* it is written as garbage */
    segments->pending -= segment->size - offset;
    segment->pending.size -= segment->size - offset;
    segment->size = offset;
    segment->count--;
    segment->weight -= place_weight(place);
    segments->total_weight -= place_weight(place);
}

void segments_prefer_direct(struct segments *segments, bool prefers_direct)
{
    segments->prefers_direct = prefers_direct;
}

size_t segments_pending(const struct segments *segments)
{
    return segments->pending;
}

/* --- live records --- */

bool segments_have_lost(const struct segments *segments)
{
    return segments->lost != NULL;
}

/* For a slot whose file is missing. */
static struct segment *add_lost(struct segments *segments, uint32_t slot)
{
    struct segment *segment = segment_create(&(struct segment_head){ .slot = slot });

    segment->is_lost = true;
    segment->next = segments->lost;
    segments->lost = segment;
    atomic_store_explicit(&segments->slots[segment->slot], segment, memory_order_release);
    return segment;
}

bool segments_alive(struct segments *segments, uint32_t slot, uint64_t weight)
{
    struct segment *segment;

    CHECK(slot < 1u << PLACE_SLOT_BITS);
    segment = atomic_load_explicit(&segments->slots[slot], memory_order_acquire);
    if (segment == NULL)
        segment = add_lost(segments, slot);
    atomic_fetch_add_explicit(&segment->live, weight, memory_order_relaxed);
    atomic_fetch_add_explicit(&segments->live_weight, weight, memory_order_relaxed);
    if (!segment->is_lost)
        return true;
    segment->weight += weight;
    segments->total_weight += weight;
    return false;
}

void segments_dead(struct segments *segments, uint64_t place)
{
    struct segment *segment = place_is_in_segment(place) ? segment_at(segments, place) : NULL;

    if (segment == NULL)
        return;
    atomic_fetch_sub_explicit(&segment->live, place_weight(place), memory_order_relaxed);
    atomic_fetch_sub_explicit(&segments->live_weight, place_weight(place), memory_order_relaxed);
}

uint64_t segments_live_weight(const struct segments *segments)
{
    return segments->live_weight;
}

void segments_measure(const struct segments *segments, struct segments_stats *stats)
{
    uint64_t weight = segments->total_weight;

    *stats = (struct segments_stats){
        .count = segments->count,
        .bytes = segments->bytes,
        .written_bytes = segments->written_bytes,
        .linked_bytes = segments->linked_bytes,
        .reads = segments->reads,
    };
    if (weight > 0)
        stats->live_bytes = (uint64_t)((double)segments->bytes * (double)segments->live_weight / (double)weight);
}

/* --- garbage collection --- */

bool segment_is_dead(const struct segment *segment)
{
    return atomic_load_explicit(&segment->live, memory_order_relaxed) == 0;
}

bool segment_is_suspect(const struct segment *segment)
{
    return segment->is_suspect;
}

void segment_spare(struct segment *segment)
{
    segment->is_spared = true;
}

void segment_put_off(struct segment *segment)
{
    segment->put_off_ms = segment->put_off_ms == 0 ? PUT_OFF_MS : segment->put_off_ms * 2;
    if (segment->put_off_ms > PUT_OFF_MAX_MS)
        segment->put_off_ms = PUT_OFF_MAX_MS;
    segment->put_off_until_ms = clock_mono_us() / 1000 + segment->put_off_ms;
}

uint64_t segment_live_weight(const struct segment *segment)
{
    return segment->live;
}

uint64_t segment_live_bytes(const struct segment *segment)
{
    return segment->weight > 0 ? (uint64_t)((double)segment->size * (double)segment->live / (double)segment->weight) : 0;
}

static bool is_small(const struct segments *segments, const struct segment *segment)
{
    return segment->size < segments->size_max / SMALL_SHARE && !segment->is_huge;
}

static bool can_be_collected(const struct segment *segment, int64_t now_ms)
{
    return segment->state != SEGMENT_TAIL && segment->pending.size == 0 && !segment->is_spared && now_ms >= segment->put_off_until_ms;
}

/* Sums over all segments that can be collected. */
struct collectable {
    struct segment *suspect;
    uint64_t count, small_count, weight, live;
};

static struct collectable find_collectable(const struct segments *segments, uint64_t first_sequence, int64_t now_ms)
{
    struct collectable all = { 0 };

    for (struct segment *segment = segments->first; segment != NULL; segment = segment->next) {
        if (!can_be_collected(segment, now_ms))
            continue;
        if (segment->is_suspect && all.suspect == NULL)
            all.suspect = segment;
        if (segment->sequence < first_sequence)
            continue;
        all.count++;
        all.small_count += is_small(segments, segment);
        all.weight += segment->weight;
        all.live += segment->live;
    }
    return all;
}

static uint64_t share_of(const struct segment *segment)
{
    return segment->weight > 0 ? segment->live * 100 / segment->weight : 0;
}

struct segment *segments_victim(struct segments *segments, unsigned target_percent, uint64_t first_sequence)
{
    int64_t now_ms = clock_mono_us() / 1000;
    struct collectable all = find_collectable(segments, first_sequence, now_ms);
    bool is_due = all.live < all.weight / 100 * target_percent;
    struct segment *best = NULL;
    uint64_t lowest = UINT64_MAX;

    if (all.suspect != NULL)
        return all.suspect;         /* its records are written again, or nothing is ever synced */
    if (!is_due && all.small_count <= SMALL_MAX + all.count / 4)
        return NULL;
    for (struct segment *segment = segments->first; segment != NULL; segment = segment->next) {
        uint64_t cost = is_due ? share_of(segment) : segment->live;

        if (cost < lowest && segment->sequence >= first_sequence && can_be_collected(segment, now_ms) && (is_due || is_small(segments, segment))) {
            lowest = cost;
            best = segment;
        }
    }
    return best;
}

struct segment *segments_oldest(struct segments *segments)
{
    int64_t now_ms = clock_mono_us() / 1000;
    struct segment *oldest = NULL;

    for (struct segment *segment = segments->first; segment != NULL; segment = segment->next) {
        if (can_be_collected(segment, now_ms) && (oldest == NULL || segment->sequence < oldest->sequence))
            oldest = segment;
    }
    return oldest;
}

enum status segments_retire(struct segments *segments, struct segment *segment)
{
    char path[SEGMENT_PATH_SIZE];
    struct stat info;
    bool is_linked;

    CHECK(segment->state != SEGMENT_TAIL && segment->pending.size == 0);
    segment_path(segments, segment, path);
    is_linked = segment->fd >= 0 && fstat(segment->fd, &info) == 0 && info.st_nlink > 1;
    if (segments->disk->unlink(segments->disk->context, AT_FDCWD, path) != 0 && errno != ENOENT)
        return status_of_errno(errno);
    if (is_linked)
        segments->linked_bytes += segment->size;
    list_remove(segments, segment);
    segments->unsettled_count -= segment->state == SEGMENT_SEALED;
    segments->bytes -= segment->size;
    segments->total_weight -= segment->weight;
    segment->next = segments->retired;
    segments->retired = segment;
    return STATUS_OK;
}

static void free_retired(struct segments *segments)
{
    struct segment **link = &segments->retired;

    while (*link != NULL) {
        struct segment *segment = *link;

        if (atomic_load_explicit(&segment->pins, memory_order_acquire) > 0) {
            link = &segment->next;
            continue;
        }
        *link = segment->next;
        atomic_store_explicit(&segments->slots[segment->slot], NULL, memory_order_release);
        segment_destroy(segments, segment);
    }
}

static void retire_lost(struct segments *segments)
{
    struct segment **link = &segments->lost;

    while (*link != NULL) {
        struct segment *segment = *link;

        if (!segment_is_dead(segment)) {
            link = &segment->next;
            continue;
        }
        *link = segment->next;
        segments->total_weight -= segment->weight;
        segment->next = segments->retired;
        segments->retired = segment;
    }
}

static enum status remove_damaged(struct segments *segments)
{
    while (segments->damaged_count > 0) {
        char *name = segments->damaged[segments->damaged_count - 1], path[SEGMENT_PATH_SIZE];

        snprintf(path, sizeof(path), "%s/%s", segments->dir, name);
        if (segments->disk->unlink(segments->disk->context, AT_FDCWD, path) != 0 && errno != ENOENT)
            return status_of_errno(errno);
        mem_free(name);
        segments->damaged_count--;
    }
    return STATUS_OK;
}

enum status segments_tidy(struct segments *segments)
{
    enum status status = STATUS_OK;
    struct segment *next;

    for (struct segment *segment = segments->first; segment != NULL && status == STATUS_OK; segment = next) {
        next = segment->next;
        if (segment->state != SEGMENT_TAIL && segment->pending.size == 0 && segment_is_dead(segment))
            status = segments_retire(segments, segment);
    }
    retire_lost(segments);
    if (status == STATUS_OK && segments->lost == NULL)
        status = remove_damaged(segments);
    free_retired(segments);
    return status;
}

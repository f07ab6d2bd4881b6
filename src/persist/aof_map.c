#include "persist/aof_map.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

#include "base/closer.h"
#include "base/disk.h"
#include "base/file.h"
#include "base/mem.h"

enum { FILES_MAX = 64 };        /* increments that are held open: there are few, unless checkpoints fail */

struct aof_map_file {
    _Atomic int refs;
    uint64_t seq;
    int fd;
};

/* A part of one file. */
struct part {
    struct aof_map_file *file;
    uint64_t from, size;
};

struct aof_past {
    struct aof_map *map;
    struct part *parts;
    size_t count, at;           /* parts[at].from and .size are what is left of it */
};

void aof_map_init(struct aof_map *map, struct closer *closer)
{
    *map = (struct aof_map){ .closer = closer };
    mutex_init(&map->lock);
}

/* A checkpoint may have removed it: then the close frees its space, which takes time. */
static void file_release(struct aof_map *map, struct aof_map_file *file)
{
    if (atomic_fetch_sub(&file->refs, 1) > 1)
        return;
    closer_close(map->closer, disk_system(), file->fd, CLOSER_FILE_SYNCED);
    mem_free(file);
}

void aof_map_release(struct aof_map *map)
{
    for (size_t i = 0; i < map->file_count; i++)
        file_release(map, map->files[i]);
    mem_free(map->files);
    mem_free(map->ranges);
    mutex_release(&map->lock);
}

/* --- ranges --- */

static struct aof_range *last_of(struct aof_map *map) REQUIRES(map->lock);
static struct aof_range *last_of(struct aof_map *map)
{
    return map->count > 0 ? &map->ranges[map->count - 1] : NULL;
}

static bool same_id(const char *a, const char *b)
{
    return memcmp(a, b, HISTORY_ID_SIZE) == 0;
}

/* Returns whether the bytes at `next` continue those that end at `end`. */
static bool continues(const struct history_point *end, const struct history_point *next)
{
    if (end->offset != next->offset)
        return false;
    return same_id(end->identity.id, next->identity.id) ||
           (same_id(end->identity.id, next->identity.second_id) && next->identity.second_offset == next->offset + 1);
}

/* Ends the last range, which is open, at `to` in its file. */
static void end_range(struct aof_map *map, uint64_t to) REQUIRES(map->lock);
static void end_range(struct aof_map *map, uint64_t to)
{
    struct aof_range *last = last_of(map);

    if (last == NULL || last->size != UINT64_MAX)
        return;
    last->size = to - last->from;
    map->end = last->point;
    map->end.offset += (int64_t)last->size;
    map->has_end = true;
}

static void add_range(struct aof_map *map, uint64_t seq, uint64_t from, const struct history_point *point) REQUIRES(map->lock);
static void add_range(struct aof_map *map, uint64_t seq, uint64_t from, const struct history_point *point)
{
    if (map->count > 0 && last_of(map)->size == 0)
        map->count--;
    if (map->count == map->capacity) {
        map->capacity = map->capacity == 0 ? 8 : map->capacity * 2;
        map->ranges = mem_realloc(map->ranges, map->capacity * sizeof(map->ranges[0]));
    }
    map->ranges[map->count++] = (struct aof_range){ seq, from, UINT64_MAX, *point };
}

/* Ends the last range, if it is open, where the next one begins. */
static void end_range_at(struct aof_map *map, int64_t offset) REQUIRES(map->lock);
static void end_range_at(struct aof_map *map, int64_t offset)
{
    struct aof_range *last = last_of(map);

    if (last != NULL && offset >= last->point.offset)
        end_range(map, last->from + (uint64_t)(offset - last->point.offset));
}

void aof_map_begin(struct aof_map *map, uint64_t seq, uint64_t from, const struct history_point *point)
{
    struct aof_range *last;

    mutex_lock(&map->lock);
    last = last_of(map);
    if (last != NULL && last->seq == seq && last->from == from)
        end_range(map, from);       /* while the log is read: the bytes before it were counted (aof_map_skip) */
    else
        end_range_at(map, point->offset);
    if (!map->has_end || !continues(&map->end, point))
        map->count = 0;
    add_range(map, seq, from, point);
    mutex_unlock(&map->lock);
}

void aof_map_skip(struct aof_map *map, uint64_t seq, uint64_t from, uint64_t to)
{
    struct aof_range *last;

    mutex_lock(&map->lock);
    last = last_of(map);
    if (last != NULL && last->seq == seq && from >= last->from) {       /* else it was read before, and is read again */
        end_range(map, from);
        add_range(map, seq, to, &map->end);
    }
    mutex_unlock(&map->lock);
}

void aof_map_forget(struct aof_map *map)
{
    mutex_lock(&map->lock);
    map->count = 0;
    map->has_end = false;
    mutex_unlock(&map->lock);
}

void aof_map_move(struct aof_map *map, uint64_t seq, uint64_t size, uint64_t new_seq, uint64_t head_size, const struct history_point *point)
{
    struct aof_range *old;
    size_t count, kept = 0;

    mutex_lock(&map->lock);
    old = map->ranges;
    count = map->count;
    while (kept < count && (old[kept].seq != seq || old[kept].from < size))
        kept++;
    map->ranges = mem_alloc((count + 1) * sizeof(old[0]));
    map->capacity = count + 1;
    map->count = kept;
    if (kept > 0) {
        memcpy(map->ranges, old, kept * sizeof(old[0]));
        last_of(map)->size = UINT64_MAX;
    }
    if (point != NULL) {
        end_range_at(map, point->offset);
        add_range(map, new_seq, head_size, point);
    }
    for (size_t i = kept; i < count; i++) {
        end_range_at(map, old[i].point.offset);
        add_range(map, new_seq, old[i].from - size + head_size, &old[i].point);
    }
    mem_free(old);
    mutex_unlock(&map->lock);
}

/* --- recovery --- */

void aof_map_begin_at(struct aof_map *map, const struct history_point *point)
{
    mutex_lock(&map->lock);
    map->end = *point;
    map->has_end = true;
    mutex_unlock(&map->lock);
}

void aof_map_close(struct aof_map *map, uint64_t seq, uint64_t where, int db)
{
    struct aof_range *last;
    bool dropped = false;

    mutex_lock(&map->lock);
    while ((last = last_of(map)) != NULL && last->seq == seq && last->from > where) {
        map->count--;
        dropped = true;
    }
    if (last != NULL && last->seq == seq) {
        if (where - last->from > last->size)
            where = last->from + last->size;
        last->size = UINT64_MAX;
        end_range(map, where);
        if (db >= 0)
            map->end.db = db;
    } else if (dropped) {
        map->count = 0;
        map->has_end = false;
    }
    mutex_unlock(&map->lock);
}

bool aof_map_end(struct aof_map *map, struct history_point *point)
{
    bool has_end;

    mutex_lock(&map->lock);
    *point = map->end;
    has_end = map->has_end;
    mutex_unlock(&map->lock);
    return has_end;
}

/* --- files --- */

/* Removes the first `count` of `*left` elements of `size` bytes. */
static void remove_first(void *elements, size_t *left, size_t count, size_t size)
{
    *left -= count;
    if (count > 0)
        memmove(elements, (char *)elements + count * size, *left * size);
}

void aof_map_add_file(struct aof_map *map, uint64_t seq, int fd)
{
    struct aof_map_file *file;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (own < 0)
        return;
    file = mem_alloc(sizeof(*file));
    *file = (struct aof_map_file){ .refs = 1, .seq = seq, .fd = own };
    mutex_lock(&map->lock);
    if (map->file_count == FILES_MAX) {
        file_release(map, map->files[0]);
        remove_first(map->files, &map->file_count, 1, sizeof(*map->files));
    }
    if (map->file_count == map->file_capacity) {
        map->file_capacity = map->file_capacity == 0 ? 4 : map->file_capacity * 2;
        map->files = mem_realloc(map->files, map->file_capacity * sizeof(*map->files));
    }
    map->files[map->file_count++] = file;
    mutex_unlock(&map->lock);
}

void aof_map_drop_before(struct aof_map *map, uint64_t seq)
{
    size_t files = 0, ranges = 0;

    mutex_lock(&map->lock);
    while (files < map->file_count && map->files[files]->seq < seq)
        file_release(map, map->files[files++]);
    remove_first(map->files, &map->file_count, files, sizeof(*map->files));
    while (ranges < map->count && map->ranges[ranges].seq < seq)
        ranges++;
    remove_first(map->ranges, &map->count, ranges, sizeof(*map->ranges));
    mutex_unlock(&map->lock);
}

static struct aof_map_file *find_file(const struct aof_map *map, uint64_t seq) REQUIRES(map->lock);
static struct aof_map_file *find_file(const struct aof_map *map, uint64_t seq)
{
    for (size_t i = 0; i < map->file_count; i++) {
        if (map->files[i]->seq == seq)
            return map->files[i];
    }
    return NULL;
}

/* --- reading --- */

/* Adds what [from, until) has of a range. False: its file is not held. */
static bool add_part(const struct aof_map *map, struct aof_past *past, const struct aof_range *range, int64_t from, int64_t until) REQUIRES(map->lock);
static bool add_part(const struct aof_map *map, struct aof_past *past, const struct aof_range *range, int64_t from, int64_t until)
{
    struct aof_map_file *file = find_file(map, range->seq);
    int64_t begin = range->point.offset > from ? range->point.offset : from, end = until;

    if (range->size != UINT64_MAX && range->point.offset + (int64_t)range->size < end)
        end = range->point.offset + (int64_t)range->size;
    if (begin >= end)
        return true;
    if (file == NULL)
        return false;
    atomic_fetch_add(&file->refs, 1);
    past->parts[past->count++] = (struct part){ file, range->from + (uint64_t)(begin - range->point.offset), (uint64_t)(end - begin) };
    return true;
}

struct aof_past *aof_past_open(struct aof_map *map, int64_t from, int64_t until)
{
    struct aof_past *past = mem_zalloc(sizeof(*past));
    bool good;

    past->map = map;
    mutex_lock(&map->lock);
    good = map->count > 0 && map->ranges[0].point.offset <= from;
    past->parts = mem_alloc((map->count + 1) * sizeof(past->parts[0]));
    for (size_t i = 0; i < map->count && good; i++)
        good = add_part(map, past, &map->ranges[i], from, until);
    mutex_unlock(&map->lock);
    for (size_t i = 0; i < past->count; i++)
        from += (int64_t)past->parts[i].size;
    if (good && from == until)
        return past;
    aof_past_close(past);
    return NULL;
}

void aof_past_close(struct aof_past *past)
{
    if (past == NULL)
        return;
    for (size_t i = 0; i < past->count; i++)
        file_release(past->map, past->parts[i].file);
    mem_free(past->parts);
    mem_free(past);
}

bool aof_past_read(struct aof_past *past, const struct disk *disk, char *to, size_t max, size_t *got)
{
    struct part *part = past->at < past->count ? &past->parts[past->at] : NULL;

    *got = 0;
    if (part == NULL)
        return true;
    if (max > part->size)
        max = (size_t)part->size;
    if (file_pread_all(disk, part->file->fd, to, max, part->from) != (ssize_t)max)
        return false;
    part->from += max;
    part->size -= max;
    if (part->size == 0)
        past->at++;
    *got = max;
    return true;
}

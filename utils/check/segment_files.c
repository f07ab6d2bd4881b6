#include "segment_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tree.h"

struct file_walk {
    struct check *check;
    segment_met *met;
    void *context;
    struct segment_counts *counts;
};

static void pass_on(struct file_walk *walk, struct segment_piece *piece, uint64_t offset, uint64_t size, const struct segment_record *record)
{
    if (size == 0)
        return;
    piece->offset = offset;
    piece->size = size;
    piece->record = record;
    walk->counts->records += record != NULL;
    walk->counts->damaged_bytes += record == NULL ? size : 0;
    walk->met(walk->context, piece);
}

/* Of a file that was not cut off. */
static bool read_footer(struct bytes bytes, struct segment_footer *footer)
{
    uint64_t footer_size = segment_footer_size(), size;
    struct segment_record record;

    if (bytes.size < SEGMENT_HEAD_SIZE + footer_size)
        return false;
    return segment_record_parse(bytes_of(bytes.data + bytes.size - footer_size, footer_size), &record, &size) == STATUS_OK &&
        segment_footer_parse(&record, footer);
}

/* Where the next record may begin after damaged bytes: a file of one huge record has nothing else but its footer. */
static uint64_t after_damage(struct bytes bytes, uint64_t at)
{
    struct segment_footer footer;

    if (at == SEGMENT_HEAD_SIZE && read_footer(bytes, &footer) && segment_footer_is_of_one_huge(&footer))
        return bytes.size - segment_footer_size();
    return at + SEGMENT_UNIT;
}

static uint64_t last_stamp(struct bytes bytes, uint64_t sequence)
{
    struct segment_footer footer;

    if (!read_footer(bytes, &footer))
        return UINT64_MAX;
    return footer.stamp > sequence ? footer.stamp : sequence;
}

/* The bytes up to the footer; a file that was cut off ends with a run of damaged bytes, which is empty if it was cut between records. */
static void walk_records(struct file_walk *walk, struct bytes bytes, struct segment_piece *piece)
{
    uint64_t at = SEGMENT_HEAD_SIZE, good_end = at, size;
    struct segment_footer footer;
    bool has_footer = false;

    while (at < bytes.size && !has_footer) {
        struct segment_record record;

        if (segment_record_parse_at(at, bytes_of(bytes.data + at, bytes.size - at), &record, &size) != STATUS_OK) {
            at = after_damage(bytes, at);
            check_progress(walk->check, walk->counts->bytes + at);
            continue;
        }
        pass_on(walk, piece, good_end, at - good_end, NULL);
        has_footer = segment_footer_parse(&record, &footer);
        if (!has_footer && !segment_mark_parse(&record, &piece->stamp) && !segment_is_uses(&record))
            pass_on(walk, piece, at, size, &record);
        at += size;
        good_end = at;
        check_progress(walk->check, walk->counts->bytes + at);
    }
    if (good_end < bytes.size)
        pass_on(walk, piece, good_end, bytes.size - good_end, NULL);
    else if (!has_footer)
        check_note(walk->check, "%s has no footer: its last records may be missing", piece->name);
}

static bool has_head(const char *name, struct bytes bytes, struct segment_head *head)
{
    char wanted[32];

    if (segment_head_parse(bytes, head) != STATUS_OK || head->slot >= 1u << PLACE_SLOT_BITS)
        return false;
    snprintf(wanted, sizeof(wanted), "%08llu.seg", (unsigned long long)head->sequence);
    return strcmp(name, wanted) == 0;
}

static void walk_file(struct file_walk *walk, const char *dir, const char *name, int ordinal)
{
    char path[CHECK_PATH_SIZE * 2];
    struct segment_piece piece = { .name = name, .ordinal = ordinal };
    struct message message;
    struct mapped mapped;
    struct segment_head head;

    walk->counts->files++;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (!mapped_open(path, &mapped, &message)) {
        check_damage(walk->check, name, "can't be read: %s", message.text);
        return;
    }
    if (segment_head_parse(mapped.bytes, &head) == STATUS_VERSION) {
        check_newer(walk->check, name);
    } else if (!has_head(name, mapped.bytes, &head)) {
        piece.slot = SEGMENT_HEADLESS;
        piece.stamp = piece.last_stamp = UINT64_MAX;
        pass_on(walk, &piece, 0, mapped.bytes.size, NULL);
    } else {
        piece.slot = head.slot;
        piece.stamp = head.sequence;
        piece.last_stamp = last_stamp(mapped.bytes, head.sequence);
        walk_records(walk, mapped.bytes, &piece);
    }
    walk->counts->bytes += mapped.bytes.size;
    mapped_close(&mapped);
}

static int is_segment(const struct dirent *entry)
{
    return segment_is_file(entry->d_name);
}

/* Their names are numbers, in the order in which they were begun. */
static int compare_names(const struct dirent **a, const struct dirent **b)
{
    unsigned long long first = strtoull((*a)->d_name, NULL, 10), second = strtoull((*b)->d_name, NULL, 10);

    return first < second ? -1 : first > second;
}

static uint64_t size_of(const char *dir, struct dirent **names, int count)
{
    uint64_t bytes = 0;

    for (int i = 0; i < count; i++) {
        char path[CHECK_PATH_SIZE * 2];
        struct stat info;

        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        bytes += stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
    }
    return bytes;
}

void segment_files_walk(struct check *check, const char *dir, segment_met *met, void *context, struct segment_counts *counts)
{
    struct file_walk walk = { check, met, context, counts };
    struct dirent **names = NULL;
    int count = scandir(dir, &names, is_segment, compare_names);

    *counts = (struct segment_counts){ 0 };
    check_progress_begin(check, "segments", PROGRESS_BYTES, size_of(dir, names, count));
    for (int i = 0; i < count; i++) {
        walk_file(&walk, dir, names[i]->d_name, i);
        free(names[i]);
    }
    free(names);
}

static bool link_file(const char *dir, const char *to, const char *name, struct message *message)
{
    char from_path[CHECK_PATH_SIZE * 2], to_path[CHECK_PATH_SIZE * 2];
    struct mapped mapped;
    struct segment_head head;
    bool good;

    snprintf(from_path, sizeof(from_path), "%s/%s", dir, name);
    snprintf(to_path, sizeof(to_path), "%s/%s", to, name);
    if (!mapped_open(from_path, &mapped, message))
        return false;
    good = has_head(name, mapped.bytes, &head);
    mapped_close(&mapped);
    if (!good || link(from_path, to_path) == 0)
        return true;
    return tree_copy_file(from_path, to_path, NULL, message) == STATUS_OK;
}

bool segment_files_link(const char *dir, const char *to, struct message *message)
{
    DIR *list = opendir(dir);
    struct dirent *entry;
    bool good = list != NULL;

    if (!good)
        message_set(message, "%s", strerror(errno));
    while (good && (entry = readdir(list)) != NULL) {
        if (segment_is_file(entry->d_name))
            good = link_file(dir, to, entry->d_name, message);
    }
    if (list != NULL)
        closedir(list);
    return good && tree_sync(to, message) == STATUS_OK;
}

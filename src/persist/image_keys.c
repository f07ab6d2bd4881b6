#include "persist/image_keys.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crc64.h"
#include "base/mem.h"
#include "base/message.h"
#include "persist/dataset_file.h"
#include "tier/tags.h"

enum { PIECE = 1 << 16 };

/* The tags file, read from its beginning to its end, with the checksum so far. */
struct reading {
    FILE *file;
    uint64_t left;              /* bytes up to the file's last part, of TAGS_END_SIZE */
    uint64_t crc;
};

static bool read_part(struct reading *reading, void *data, size_t size)
{
    if (size > reading->left || fread(data, 1, size, reading->file) != size)
        return false;
    reading->left -= size;
    reading->crc = crc64(reading->crc, bytes_of(data, size));
    return true;
}

static bool skip_part(struct reading *reading, uint64_t size)
{
    char piece[PIECE];

    while (size > 0) {
        size_t part = size < PIECE ? (size_t)size : PIECE;

        if (!read_part(reading, piece, part))
            return false;
        size -= part;
    }
    return true;
}

/* NULL, or what is wrong. Records of incarnations that no database has are to be purged, and not counted. */
static const char *count_sections(struct reading *reading, const struct dataset_file *dataset, struct image_keys *keys)
{
    char head[TAGS_SECTION_SIZE], end[TAGS_END_SIZE];
    struct tags_section section;
    uint64_t crc;
    int db;

    if (!read_part(reading, head, TAGS_HEAD_SIZE) || !tags_is_head(head))
        return "it does not begin like a tags file";
    while (reading->left > 0) {
        if (!read_part(reading, head, TAGS_SECTION_SIZE))
            return "it ends early";
        if (!tags_section_read(head, reading->left, &section) || !skip_part(reading, section.size))
            return "a section is longer than the file";
        db = dataset_file_db_of(dataset, section.incarnation);
        if (db >= 0)
            keys->counts[db] += section.count;
    }
    if (fread(end, 1, sizeof(end), reading->file) != sizeof(end))
        return "it ends early";
    memcpy(&crc, end + 4, 8);
    return crc == reading->crc ? NULL : "its checksum is wrong";
}

static enum status count_tags(const char *path, const struct dataset_file *dataset, struct image_keys *keys, struct message *message)
{
    struct reading reading = { .file = fopen(path, "re") };
    const char *problem = NULL;
    struct stat info;

    if (reading.file == NULL) {
        message_set(message, "can't open '%.150s': %.60s", path, strerror(errno));
        return status_of_errno(errno);
    }
    if (fstat(fileno(reading.file), &info) != 0 || info.st_size < TAGS_HEAD_SIZE + TAGS_END_SIZE) {
        problem = "it is too short";
    } else {
        reading.left = (uint64_t)info.st_size - TAGS_END_SIZE;
        problem = count_sections(&reading, dataset, keys);
    }
    fclose(reading.file);
    if (problem == NULL)
        return STATUS_OK;
    message_set(message, "'%.150s' is damaged: %s", path, problem);
    return STATUS_CORRUPT;
}

enum status image_keys_count(const char *image, struct image_keys *keys, struct message *message)
{
    struct dataset_file dataset;
    char path[4096];
    const char *problem = NULL;
    enum status status;

    *keys = (struct image_keys){ 0 };
    status = dataset_file_load_image(image, &dataset, &problem);
    if (status != STATUS_OK) {
        message_set(message, "'%.140s/dataset' %s: %.70s", image, status == STATUS_VERSION ? "can't be read" : "is damaged, and there is no good copy of it", problem);
        return status;
    }
    status = dataset_file_verify(&dataset, image, message);
    if (status != STATUS_OK) {
        dataset_file_release(&dataset);
        return status;
    }
    keys->db_count = dataset.db_count;
    keys->counts = mem_zalloc((size_t)dataset.db_count * sizeof(keys->counts[0]));
    snprintf(path, sizeof(path), "%s/tags", image);
    status = count_tags(path, &dataset, keys, message);
    if (status != STATUS_OK)
        image_keys_release(keys);
    dataset_file_release(&dataset);
    return status;
}

void image_keys_release(struct image_keys *keys)
{
    mem_free(keys->counts);
    *keys = (struct image_keys){ 0 };
}

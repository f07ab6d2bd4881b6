#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/message.h"
#include "check.h"
#include "persist/rdb_reader.h"
#include "value/codec.h"

static void check_value(struct check *check, const char *path, const struct rdb_part *part, uint64_t *unknown)
{
    struct value_limits limits = { .hash_listpack_entries_max = SIZE_MAX, .hash_listpack_value_max = SIZE_MAX };
    struct buffer scratch = { 0 };
    struct value value;
    char key[CHECK_KEY_SIZE];

    if (part->payload.size == 0) {
        (*unknown)++;
        return;
    }
    if (codec_decode(part->payload, &limits, &scratch, &value) != STATUS_OK)
        check_damage(check, path, "offset %llu: the value of the key %s is invalid", (unsigned long long)part->offset,
            check_key(part->name, key));
    else if (value_is_object(&value))
        value_free(&value);
    buffer_release(&scratch);
}

void rdb_check(struct check *check, const char *path)
{
    uint64_t before = check->damages, keys = 0, unknown = 0, functions = 0, offset;
    struct message message = { "" };
    struct rdb_reader *reader;
    struct rdb_part part;
    struct stat info;
    enum status status;
    int fd = open(path, O_RDONLY | O_CLOEXEC), version;

    if (fd < 0) {
        check_damage(check, path, "can't be opened");
        check_part(check, "rdb", before, "%s", path);
        return;
    }
    reader = rdb_reader_create_file(fd);
    check_progress_begin(check, "rdb", PROGRESS_BYTES, fstat(fd, &info) == 0 ? (uint64_t)info.st_size : 0);
    while ((status = rdb_read(reader, &part, &message)) == STATUS_OK && part.kind != RDB_PART_END) {
        if (part.kind == RDB_PART_KEY) {
            keys++;
            check_value(check, path, &part, &unknown);
        }
        check_progress(check, rdb_reader_offset(reader));
        functions += part.kind == RDB_PART_FUNCTION;
    }
    version = rdb_reader_version(reader);
    offset = rdb_reader_offset(reader);
    if (status != STATUS_OK)
        check_damage(check, path, "%s", message.text);
    if (unknown > 0)
        check_note(check, "%llu values have types that this version does not know: only their structure was checked",
            (unsigned long long)unknown);
    check_part(check, "rdb", before, "%s: version %d, %llu keys, %llu libraries of functions, %llu bytes read", path, version,
        (unsigned long long)keys, (unsigned long long)functions, (unsigned long long)offset);
    if (status != STATUS_OK)
        check_unrepaired(check, "RDB files");
    rdb_reader_destroy(reader);
    close(fd);
}

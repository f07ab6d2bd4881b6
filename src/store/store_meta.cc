#include "store/store_meta.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

extern "C" {
#include "base/buffer.h"
#include "base/crc32c.h"
#include "base/file.h"
}

const char META_NAME[] = "meta";

enum {
    MAGIC_SIZE = 8, CRC_SIZE = 4,
    NEWER_PREFIX = 6,                   /* "KSTORE": a newer version has another digit */
    BY_SLOT = 1,                        /* a flag */
};
static const char magic[MAGIC_SIZE] = { 'K', 'S', 'T', 'O', 'R', 'E', '6', '\n' };
static const size_t FILE_SIZE_MAX = size_t { 1 } << 30;

template<typename number> static void append_number(std::string *text, number value)
{
    text->append(reinterpret_cast<const char *>(&value), sizeof(value));
}

template<typename number> static bool take_number(struct bytes *from, number *value)
{
    if (from->size < sizeof(*value))
        return false;
    memcpy(value, from->data, sizeof(*value));
    *from = bytes_of(from->data + sizeof(*value), from->size - sizeof(*value));
    return true;
}

std::string meta_print(const struct store_meta &meta)
{
    std::string text(magic, MAGIC_SIZE);

    append_number<uint32_t>(&text, meta.by_slot ? BY_SLOT : 0);
    append_number(&text, meta.seed);
    append_number<uint64_t>(&text, meta.number);
    append_number<uint32_t>(&text, static_cast<uint32_t>(meta.runs.size()));
    for (const auto &run : meta.runs) {
        append_number<uint64_t>(&text, run.number);
        append_number<uint64_t>(&text, run.tombstones);
        append_number<uint64_t>(&text, run.bytes);
        append_number<uint32_t>(&text, static_cast<uint32_t>(run.incarnations.size()));
        for (const auto &part : run.incarnations) {
            append_number<uint32_t>(&text, part.first);
            append_number<uint64_t>(&text, part.second);
        }
    }
    append_number<uint32_t>(&text, crc32c(0, text.data(), text.size()));
    return text;
}

/* Counts are not trusted: memory is taken for what is there. */
static bool take_run(struct bytes *from, struct key_run_facts *run)
{
    uint32_t count;

    if (!take_number(from, &run->number) || !take_number(from, &run->tombstones) || !take_number(from, &run->bytes) || !take_number(from, &count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        std::pair<uint32_t, uint64_t> part;

        if (!take_number(from, &part.first) || !take_number(from, &part.second))
            return false;
        run->incarnations.push_back(part);
    }
    return true;
}

enum status meta_parse(struct bytes file, struct store_meta *meta)
{
    uint32_t crc, flags, count;

    *meta = {};
    if (file.size < MAGIC_SIZE + CRC_SIZE || memcmp(file.data, magic, NEWER_PREFIX) != 0)
        return STATUS_CORRUPT;
    file.size -= CRC_SIZE;
    memcpy(&crc, file.data + file.size, CRC_SIZE);
    if (crc32c(0, file.data, file.size) != crc)
        return STATUS_CORRUPT;
    if (memcmp(file.data, magic, MAGIC_SIZE) != 0)
        return STATUS_VERSION;
    file = bytes_of(file.data + MAGIC_SIZE, file.size - MAGIC_SIZE);
    if (!take_number(&file, &flags) || flags > BY_SLOT || !take_number(&file, &meta->seed) || !take_number(&file, &meta->number) ||
        !take_number(&file, &count))
        return STATUS_CORRUPT;
    meta->by_slot = flags == BY_SLOT;
    for (uint32_t i = 0; i < count; i++) {
        struct key_run_facts run;

        if (!take_run(&file, &run))
            return STATUS_CORRUPT;
        meta->runs.push_back(std::move(run));
    }
    return file.size == 0 ? STATUS_OK : STATUS_CORRUPT;
}

static std::string path_in(const std::string &dir)
{
    return dir + "/" + META_NAME;
}

enum status meta_read(const struct disk *disk, const std::string &dir, struct store_meta *meta, struct message *message)
{
    std::string path = path_in(dir);
    struct buffer file = {};
    enum status status = file_read_all(disk, AT_FDCWD, path.c_str(), FILE_SIZE_MAX, &file);

    if (status == STATUS_OK) {
        status = meta_parse(buffer_bytes(&file), meta);
        if (status != STATUS_OK)
            message_set(message, "'%.150s' %s", path.c_str(), status == STATUS_VERSION ? "was written by a newer Kelvin" : "is damaged");
    } else if (status == STATUS_TOO_LARGE) {
        message_set(message, "'%.150s' is damaged: it is too long", path.c_str());
        status = STATUS_CORRUPT;
    } else if (status != STATUS_NOT_FOUND) {
        message_set(message, "'%.150s' can't be read: %s", path.c_str(), strerror(errno));
    }
    buffer_release(&file);
    return status;
}

enum status meta_write(const struct disk *disk, const std::string &dir, const struct store_meta &meta, struct message *message)
{
    std::string path = path_in(dir), text = meta_print(meta);
    enum status status = file_create(disk, AT_FDCWD, path.c_str(), bytes_of(text.data(), text.size()));

    if (status != STATUS_OK)
        message_set(message, "can't write '%.150s': %s", path.c_str(), strerror(errno));
    return status;
}

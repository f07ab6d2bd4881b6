#include "persist/dataset_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc64.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/text.h"
#include "keyspace/partition.h"
#include "persist/aof_mark.h"

enum { SUM_BLOCK = 1 << 18, VERSION_PLAIN = 1, VERSION_FUNCTIONS = 2, VERSION_RUNS = 3, VERSION_PAGES = 6 };       /* 4: of hashes and sets only, 5: and of sorted sets */

/* Removes the first line from the text; *line is without its end. False: there is no complete one. */
static bool take_line(struct bytes *text, struct bytes *line)
{
    const char *end = text->size > 0 ? memchr(text->data, '\n', text->size) : NULL;

    if (end == NULL)
        return false;
    *line = bytes_of(text->data, (size_t)(end - text->data));
    *text = bytes_of(end + 1, text->size - line->size - 1);
    return true;
}

/* Removes the line "<name> <number>"; false if it is anything else. */
static bool take_number(struct bytes *text, const char *name, int64_t lowest, int64_t highest, int64_t *number)
{
    size_t size = strlen(name);
    struct bytes line;

    return take_line(text, &line) && line.size > size && memcmp(line.data, name, size) == 0 && line.data[size] == ' ' &&
           text_to_int(bytes_of(line.data + size + 1, line.size - size - 1), number) && *number >= lowest && *number <= highest;
}

/* Verifies and removes the last line, which has the checksum of all before it. */
static const char *check_end(struct bytes *text)
{
    static const char word[] = "end ";
    enum { END_SIZE = sizeof(word) - 1 + 16 + 1 };
    char wanted[24];
    size_t size;

    if (text->size < END_SIZE || text->data[text->size - 1] != '\n')
        return "it ends early";
    size = text->size - END_SIZE;
    if (memcmp(text->data + size, word, sizeof(word) - 1) != 0)
        return "its last line is not its checksum";
    snprintf(wanted, sizeof(wanted), "%016llx", (unsigned long long)crc64(0, bytes_of(text->data, size)));
    if (memcmp(text->data + size + sizeof(word) - 1, wanted, 16) != 0)
        return "its checksum is wrong";
    text->size = size;
    return NULL;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

    return first < second ? -1 : first > second;
}

static bool has_duplicate(const struct dataset_file *dataset)
{
    size_t size = (size_t)dataset->db_count * sizeof(dataset->incarnations[0]);
    uint32_t *sorted = mem_alloc(size);
    bool twice = false;

    memcpy(sorted, dataset->incarnations, size);
    qsort(sorted, (size_t)dataset->db_count, sizeof(sorted[0]), compare_numbers);
    for (int i = 1; i < dataset->db_count; i++)
        twice = twice || sorted[i] == sorted[i - 1];
    mem_free(sorted);
    return twice;
}

static const char *read_databases(struct bytes *text, struct dataset_file *dataset)
{
    for (int db = 0; db < dataset->db_count; db++) {
        char name[32];
        int64_t incarnation;

        snprintf(name, sizeof(name), "db %d", db);
        if (!take_number(text, name, 1, dataset->incarnation_last, &incarnation))
            return "a database's line is invalid";
        dataset->incarnations[db] = (uint32_t)incarnation;
    }
    return has_duplicate(dataset) ? "two databases have one incarnation" : NULL;
}

/* "<bytes> <CRC-64>", and what follows. */
static bool take_sum(struct bytes *line, struct dataset_small *file)
{
    const char *blank = memchr(line->data, ' ', line->size);
    char digits[17] = "", *end;
    int64_t size;

    if (blank == NULL || !text_to_int(bytes_of(line->data, (size_t)(blank - line->data)), &size) || size < 0)
        return false;
    *line = bytes_of(blank + 1, line->size - (size_t)(blank + 1 - line->data));
    if (line->size < 16)
        return false;
    memcpy(digits, line->data, 16);
    file->size = (uint64_t)size;
    file->crc = strtoull(digits, &end, 16);
    *line = bytes_of(line->data + 16, line->size - 16);
    return *end == '\0';
}

/* "<bytes> <CRC-64> <name>". */
static bool take_file(struct bytes line, struct dataset_file *dataset)
{
    struct dataset_small file;
    struct bytes name;

    if (!take_sum(&line, &file) || line.size < 2 || line.data[0] != ' ')
        return false;
    name = bytes_of(line.data + 1, line.size - 1);
    if (memchr(name.data, '/', name.size) != NULL || memchr(name.data, 0, name.size) != NULL)
        return false;
    file.name = mem_string(name);
    if ((dataset->file_count & (dataset->file_count - 1)) == 0)
        dataset->files = mem_realloc(dataset->files, ((size_t)dataset->file_count * 2 + 1) * sizeof(dataset->files[0]));
    dataset->files[dataset->file_count++] = file;
    return true;
}

/* "<bytes> <CRC-64>", once. */
static bool take_functions(struct bytes line, struct dataset_file *dataset)
{
    if (dataset->functions.name != NULL || !take_sum(&line, &dataset->functions) || line.size > 0)
        return false;
    dataset->functions.name = mem_string(BYTES("functions"));
    return true;
}

static bool begins_with(struct bytes line, const char *word, struct bytes *rest)
{
    size_t size = strlen(word);

    if (line.size <= size || memcmp(line.data, word, size) != 0)
        return false;
    *rest = bytes_of(line.data + size, line.size - size);
    return true;
}

/* 32 hexadecimal digits. */
static bool take_seed(struct bytes line, struct dataset_file *dataset)
{
    uint8_t *bytes = (uint8_t *)&dataset->seed.sip;

    if (line.size != 2 * sizeof(dataset->seed.sip))
        return false;
    for (size_t i = 0; i < sizeof(dataset->seed.sip); i++) {
        char digits[3] = { line.data[2 * i], line.data[2 * i + 1], '\0' }, *end;

        bytes[i] = (uint8_t)strtoul(digits, &end, 16);
        if (*end != '\0')
            return false;
    }
    dataset->has_seed = true;
    return true;
}

static bool take_value_count(struct bytes line, struct dataset_file *dataset)
{
    int64_t count;

    if (!text_to_int(line, &count) || count < 0 || count >= (int64_t)1 << PAGE_ID_COUNT_BITS)
        return false;
    dataset->value_count = (uint64_t)count;
    return true;
}

/* The lines after `store`. */
static const char *read_files(struct bytes *text, struct dataset_file *dataset)
{
    struct bytes line, rest;

    while (text->size > 0) {
        if (!take_line(text, &line))
            return "a line has no end";
        if (begins_with(line, "file ", &rest) && !take_file(rest, dataset))
            return "a file's line is invalid";
        if (begins_with(line, "stream ", &rest))
            dataset->has_point = aof_mark_parse_point(rest, &dataset->point);
        if (begins_with(line, "values ", &rest) && !take_value_count(rest, dataset))
            return "the line of value IDs is invalid";
        if (begins_with(line, "renamed ", &rest))
            dataset->has_renamed = true;
        if (begins_with(line, "seed ", &rest) && !take_seed(rest, dataset))
            return "the seed's line is invalid";
        if (begins_with(line, "layout ", &rest)) {
            if (!bytes_equal(rest, BYTES("1")))
                return "its hashes are of an unknown layout";
            dataset->seed.by_slot = true;
        }
        if (begins_with(line, "functions ", &rest) && !take_functions(rest, dataset))
            return "the functions' line is invalid";
    }
    return NULL;
}

enum status dataset_file_parse(struct bytes text, struct dataset_file *dataset, const char **problem)
{
    int64_t version, partitions, databases, last, number;

    *dataset = (struct dataset_file){ 0 };
    *problem = text.size > DATASET_FILE_SIZE_MAX ? "it is too long" : check_end(&text);
    if (*problem != NULL)
        return STATUS_CORRUPT;
    *problem = "its first lines are invalid";
    if (!take_number(&text, "kelvin-image", 1, INT64_MAX, &version))
        return STATUS_CORRUPT;
    if (version > VERSION_PAGES) {
        *problem = "it was written by a newer Kelvin (kelvin-image 7 or later)";
        return STATUS_VERSION;
    }
    if (!take_number(&text, "partitions", 1, 1 << 16, &partitions) || (partitions & (partitions - 1)) != 0 ||
        !take_number(&text, "databases", 1, DATASET_FILE_DATABASES_MAX, &databases) ||
        !take_number(&text, "last", 1, INCARNATION_MAX, &last))
        return STATUS_CORRUPT;
    if ((size_t)databases > text.size / sizeof("db 0 1")) {
        *problem = "it has fewer lines than databases";
        return STATUS_CORRUPT;
    }
    dataset->partition_count = (uint32_t)partitions;
    dataset->incarnation_last = (uint32_t)last;
    dataset->db_count = (int)databases;
    dataset->incarnations = mem_zalloc((size_t)databases * sizeof(dataset->incarnations[0]));
    *problem = read_databases(&text, dataset);
    if (*problem == NULL && !take_number(&text, "store", 0, INT64_MAX, &number))
        *problem = "the store's number is missing";
    if (*problem == NULL)
        dataset->store_number = (uint64_t)number;
    if (*problem == NULL)
        *problem = read_files(&text, dataset);
    if (*problem == NULL && version < VERSION_RUNS && (version == VERSION_FUNCTIONS) != (dataset->functions.name != NULL))
        *problem = "its version and the functions' line do not agree";
    if (*problem == NULL)
        return STATUS_OK;
    dataset_file_release(dataset);
    return STATUS_CORRUPT;
}

enum status dataset_file_load(const char *path, struct dataset_file *dataset, const char **problem)
{
    struct buffer text = { 0 };
    enum status status = file_read_all(disk_system(), AT_FDCWD, path, DATASET_FILE_SIZE_MAX, &text);

    *dataset = (struct dataset_file){ 0 };
    if (status == STATUS_OK) {
        status = dataset_file_parse(buffer_bytes(&text), dataset, problem);
    } else if (status == STATUS_TOO_LARGE) {
        *problem = "it is too long";
        status = STATUS_CORRUPT;
    } else {
        *problem = strerror(errno);
    }
    buffer_release(&text);
    return status;
}

enum status dataset_file_load_image(const char *image, struct dataset_file *dataset, const char **problem)
{
    char path[4096];
    const char *of_copy;
    enum status status;

    *problem = NULL;
    snprintf(path, sizeof(path), "%.4000s/" DATASET_FILE_NAME, image);
    status = dataset_file_load(path, dataset, problem);
    if (status != STATUS_CORRUPT && status != STATUS_NOT_FOUND && status != STATUS_IO)
        return status;
    snprintf(path, sizeof(path), "%.4000s/" DATASET_FILE_COPY, image);
    return dataset_file_load(path, dataset, &of_copy) == STATUS_OK ? STATUS_OK : status;
}

enum status dataset_file_write(const char *image, struct bytes text)
{
    char path[4096];
    enum status status;

    snprintf(path, sizeof(path), "%.4000s/" DATASET_FILE_COPY, image);
    status = file_overwrite(disk_system(), AT_FDCWD, path, text);
    snprintf(path, sizeof(path), "%.4000s/" DATASET_FILE_NAME, image);
    return status == STATUS_OK ? file_overwrite(disk_system(), AT_FDCWD, path, text) : status;
}

static enum status sum_file(const char *path, uint64_t *size, uint64_t *crc)
{
    int fd = file_open(disk_system(), AT_FDCWD, path, O_RDONLY);
    char *block;
    ssize_t got;

    *size = *crc = 0;
    if (fd < 0)
        return status_of_errno(errno);
    block = mem_alloc(SUM_BLOCK);
    while ((got = file_read(disk_system(), fd, block, SUM_BLOCK)) > 0) {
        *size += (uint64_t)got;
        *crc = crc64(*crc, bytes_of(block, (size_t)got));
    }
    mem_free(block);
    close(fd);
    return got == 0 ? STATUS_OK : STATUS_IO;
}

static bool is_small_file(const char *name)
{
    return strcmp(name, "meta") == 0;
}

static enum status describe_functions(const char *image, struct buffer *text)
{
    uint64_t size, crc;
    char path[4096];
    enum status status;

    snprintf(path, sizeof(path), "%.3800s/functions", image);
    status = sum_file(path, &size, &crc);
    if (status == STATUS_OK)
        buffer_append_format(text, "functions %llu %016llx\n", (unsigned long long)size, (unsigned long long)crc);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static enum status describe_store(const char *image, struct buffer *text)
{
    char path[4096];
    enum status status = STATUS_OK;
    struct dirent *entry;
    DIR *list;

    snprintf(path, sizeof(path), "%.3800s/store", image);
    list = opendir(path);
    if (list == NULL)
        return status_of_errno(errno);
    while (status == STATUS_OK && (entry = readdir(list)) != NULL) {
        uint64_t size, crc;

        if (!is_small_file(entry->d_name))
            continue;
        snprintf(path, sizeof(path), "%.3800s/store/%.200s", image, entry->d_name);
        status = sum_file(path, &size, &crc);
        buffer_append_format(text, "file %llu %016llx %s\n", (unsigned long long)size, (unsigned long long)crc, entry->d_name);
    }
    closedir(list);
    return status;
}

enum status dataset_file_describe(const char *image, struct buffer *text)
{
    enum status status = describe_store(image, text);

    return status == STATUS_OK ? describe_functions(image, text) : status;
}

void dataset_file_print_seed(const struct key_seed *seed, struct buffer *text)
{
    const uint8_t *bytes = (const uint8_t *)&seed->sip;

    buffer_append_format(text, "seed ");
    for (size_t i = 0; i < sizeof(seed->sip); i++)
        buffer_append_format(text, "%02x", bytes[i]);
    buffer_append_format(text, seed->by_slot ? "\nlayout 1\n" : "\n");
}

void dataset_file_print_values(uint64_t count, bool has_renamed, struct buffer *text)
{
    if (count > 0)
        buffer_append_format(text, "values %llu\n", (unsigned long long)count);
    if (has_renamed)
        buffer_append_string(text, "renamed 1\n");
}

void dataset_file_begin(uint64_t value_count, struct buffer *text)
{
    buffer_append_format(text, "kelvin-image %d\n", value_count > 0 ? VERSION_PAGES : VERSION_RUNS);
}

enum status dataset_file_print(const struct dataset_file *dataset, const char *image, struct buffer *text)
{
    enum status status;

    dataset_file_begin(dataset->value_count, text);
    buffer_append_format(text, "partitions %u\ndatabases %d\nlast %u\n", (unsigned)dataset->partition_count, dataset->db_count,
        (unsigned)dataset->incarnation_last);
    for (int db = 0; db < dataset->db_count; db++)
        buffer_append_format(text, "db %d %u\n", db, (unsigned)dataset->incarnations[db]);
    buffer_append_format(text, "store %llu\n", (unsigned long long)dataset->store_number);
    dataset_file_print_values(dataset->value_count, dataset->has_renamed, text);
    if (dataset->has_seed)
        dataset_file_print_seed(&dataset->seed, text);
    status = describe_store(image, text);
    if (status == STATUS_OK && dataset->functions.name != NULL)
        status = describe_functions(image, text);
    buffer_append_format(text, "end %016llx\n", (unsigned long long)crc64(0, buffer_bytes(text)));
    return status;
}

static enum status verify_one(const struct dataset_small *file, const char *path, struct message *message)
{
    uint64_t size, crc;
    enum status status = sum_file(path, &size, &crc);

    if (status != STATUS_OK) {
        message_set(message, "'%.180s' can't be read (%s)", path, status_name(status));
        return status == STATUS_NOT_FOUND ? STATUS_CORRUPT : status;
    }
    if (size == file->size && crc == file->crc)
        return STATUS_OK;
    message_set(message, "'%.180s' is damaged: %s", path, size != file->size ? "its size is different" : "its checksum is wrong");
    return STATUS_CORRUPT;
}

enum status dataset_file_verify_store(const struct dataset_file *dataset, const char *image, struct message *message)
{
    enum status status = STATUS_OK;
    char path[4096];

    for (int i = 0; i < dataset->file_count && status == STATUS_OK; i++) {
        snprintf(path, sizeof(path), "%.3800s/store/%.200s", image, dataset->files[i].name);
        status = verify_one(&dataset->files[i], path, message);
    }
    return status;
}

enum status dataset_file_verify_functions(const struct dataset_file *dataset, const char *image, struct message *message)
{
    char path[4096];

    if (dataset->functions.name == NULL)
        return STATUS_OK;
    snprintf(path, sizeof(path), "%.3800s/functions", image);
    return verify_one(&dataset->functions, path, message);
}

enum status dataset_file_verify(const struct dataset_file *dataset, const char *image, struct message *message)
{
    enum status status = dataset_file_verify_store(dataset, image, message);

    return status == STATUS_OK ? dataset_file_verify_functions(dataset, image, message) : status;
}

void dataset_file_release(struct dataset_file *dataset)
{
    for (int i = 0; i < dataset->file_count; i++)
        mem_free(dataset->files[i].name);
    mem_free(dataset->files);
    mem_free(dataset->functions.name);
    mem_free(dataset->incarnations);
    *dataset = (struct dataset_file){ 0 };
}

int dataset_file_db_of(const struct dataset_file *dataset, uint32_t incarnation)
{
    for (int db = 0; db < dataset->db_count; db++) {
        if (dataset->incarnations[db] == (incarnation & ~(uint32_t)INCARNATION_PAGES))
            return db;
    }
    return -1;
}

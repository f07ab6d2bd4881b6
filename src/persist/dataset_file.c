#include "persist/dataset_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "value/codec.h"

enum { INCARNATION_MAX = 0x7fffffff };

/* Takes a line off the text, without its end. False: there is no whole one. */
static bool line_take(struct bytes *text, struct bytes *line)
{
    const char *end = text->size > 0 ? memchr(text->data, '\n', text->size) : NULL;

    if (end == NULL)
        return false;
    *line = bytes_of(text->data, (size_t)(end - text->data));
    *text = bytes_of(end + 1, text->size - line->size - 1);
    return true;
}

/* "<name> <number>"; false if it is anything else. */
static bool number_take(struct bytes *text, const char *name, int64_t lowest, int64_t highest, int64_t *number)
{
    size_t size = strlen(name);
    struct bytes line;

    return line_take(text, &line) && line.size > size && memcmp(line.data, name, size) == 0 && line.data[size] == ' ' &&
           text_to_int(bytes_of(line.data + size + 1, line.size - size - 1), number) && *number >= lowest && *number <= highest;
}

/* The last line has the checksum of all before it. */
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

static bool is_any_twice(const struct dataset_file *dataset)
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
        if (!number_take(text, name, 1, dataset->incarnation_last, &incarnation))
            return "a database's line makes no sense";
        dataset->incarnations[db] = (uint32_t)incarnation;
    }
    return is_any_twice(dataset) ? "two databases have one incarnation" : NULL;
}

enum status dataset_file_parse(struct bytes text, struct dataset_file *dataset, const char **problem)
{
    int64_t partitions, databases, last, number;
    struct bytes line;

    *dataset = (struct dataset_file){ 0 };
    *problem = text.size > DATASET_FILE_SIZE_MAX ? "it is too long" : check_end(&text);
    if (*problem != NULL)
        return STATUS_CORRUPT;
    *problem = "its first lines make no sense";
    if (!line_take(&text, &line) || !bytes_equal(line, BYTES("kelvin-image 1")) ||
        !number_take(&text, "partitions", 1, 1 << 16, &partitions) || (partitions & (partitions - 1)) != 0 ||
        !number_take(&text, "databases", 1, DATASET_FILE_DATABASES_MAX, &databases) ||
        !number_take(&text, "last", 1, INCARNATION_MAX, &last))
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
    if (*problem == NULL && !number_take(&text, "store", 0, INT64_MAX, &number))
        *problem = "the store's number is missing";
    if (*problem == NULL)
        dataset->store_number = (uint64_t)number;
    while (*problem == NULL && text.size > 0) {
        if (!line_take(&text, &line))
            *problem = "a line does not end";
    }
    if (*problem == NULL)
        return STATUS_OK;
    dataset_file_release(dataset);
    return STATUS_CORRUPT;
}

enum status dataset_file_load(const char *path, struct dataset_file *dataset, const char **problem)
{
    struct buffer text = { 0 };
    enum status status;
    FILE *file = fopen(path, "re");
    size_t got;

    *dataset = (struct dataset_file){ 0 };
    if (file == NULL) {
        *problem = strerror(errno);
        return status_of_errno(errno);
    }
    errno = 0;
    do {
        got = fread(buffer_reserve(&text, 4096), 1, 4096, file);
        text.size += got;
    } while (got > 0 && text.size <= DATASET_FILE_SIZE_MAX);
    if (ferror(file)) {
        *problem = strerror(errno);
        status = STATUS_IO;
    } else {
        status = dataset_file_parse(buffer_bytes(&text), dataset, problem);
    }
    fclose(file);
    buffer_release(&text);
    return status;
}

void dataset_file_release(struct dataset_file *dataset)
{
    mem_free(dataset->incarnations);
    *dataset = (struct dataset_file){ 0 };
}

int dataset_file_db_of(const struct dataset_file *dataset, uint32_t incarnation)
{
    for (int db = 0; db < dataset->db_count; db++) {
        if (dataset->incarnations[db] == incarnation)
            return db;
    }
    return -1;
}

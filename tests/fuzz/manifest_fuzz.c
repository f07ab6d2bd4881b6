/* Hostile bytes for the small files that say what the data is: the log's manifest, an image's `dataset` and `tags`. Each as any bytes, or
 * made at random and damaged.
 *
 * A damaged manifest is refused with a line's number, or what it says prints and reads back as the same. A damaged dataset or tags
 * file is refused, as its checksum says; with the checksum made right again, what is accepted obeys its header's promises.
 */
#include <string.h>

#include "base/check.h"
#include "base/crc64.h"
#include "base/mem.h"
#include "base/message.h"
#include "persist/aof_manifest.h"
#include "persist/dataset_file.h"
#include "support/fuzz.h"
#include "tier/recordmap.h"
#include "tier/tags.h"

enum { TEXT_MAX = 20000 };

static void random_manifest(struct fuzz_input *input, struct buffer *text)
{
    struct aof_manifest manifest;
    uint64_t seq = 0;

    aof_manifest_init(&manifest);
    for (uint64_t i = 1 + fuzz_below(input, 6); i > 0; i--) {
        char name[24];
        size_t size = 1 + fuzz_below(input, sizeof(name) - 1);

        for (size_t k = 0; k < size; k++) {
            do
                name[k] = fuzz_below(input, 4) ? (char)('a' + fuzz_below(input, 26)) : (char)fuzz_below(input, 256);
            while (name[k] == 0 || name[k] == '/');
        }
        seq += 1 + fuzz_below(input, 3);
        aof_manifest_add(&manifest, bytes_of(name, size), seq, i == 1 ? AOF_FILE_BASE : fuzz_below(input, 5) ? AOF_FILE_INCREMENT
                                                                                      : AOF_FILE_HISTORY);
        if (fuzz_below(input, 4) == 0)
            manifest.files[manifest.count - 1].valid_size = fuzz_below(input, 1000);
    }
    aof_manifest_print(&manifest, text);
    aof_manifest_release(&manifest);
}

enum form { FORM_ANY, FORM_SEALED, FORM_MADE };     /* any bytes; the same, ended as the format wants it; a good file, damaged */

static void run_manifest(struct fuzz_input *input, enum form form)
{
    static const struct bytes alphabet = BYTES("file seq type bhi validsize \"'\\x0123456789-#\n\r\t\0\xff/..");
    struct buffer text = { 0 }, printed = { 0 }, twice = { 0 };
    struct aof_manifest manifest, again;
    struct message message = { "" };
    struct bytes copy;

    if (form == FORM_ANY) {
        fuzz_rest(input, &text);
    } else {
        random_manifest(input, &text);
        fuzz_damage(input, &text, alphabet, 5, TEXT_MAX);
    }
    copy = fuzz_exact_copy(buffer_bytes(&text));
    if (aof_manifest_parse(&manifest, copy, &message) != STATUS_OK) {
        CHECK(strstr(message.text, "line ") != NULL && memchr(message.text, 0, sizeof(message.text)) != NULL);
    } else {
        for (int i = 0; i < manifest.count; i++) {
            const char *name = manifest.files[i].name;

            CHECK(name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
            CHECK(manifest.files[i].seq > 0);
        }
        aof_manifest_print(&manifest, &printed);
        CHECK(aof_manifest_parse(&again, buffer_bytes(&printed), &message) == STATUS_OK);
        aof_manifest_print(&again, &twice);
        CHECK(again.count == manifest.count && bytes_equal(buffer_bytes(&printed), buffer_bytes(&twice)));
        aof_manifest_release(&manifest);
        aof_manifest_release(&again);
    }
    mem_free((void *)copy.data);
    buffer_release(&text);
    buffer_release(&printed);
    buffer_release(&twice);
}

static void make_dataset(struct fuzz_input *input, struct buffer *text)
{
    int databases = 1 + (int)fuzz_below(input, 20);
    bool has_functions = fuzz_below(input, 2) == 0;

    dataset_file_begin(0, text);
    buffer_append_format(text, "partitions %d\ndatabases %d\nlast %d\n", 1 << fuzz_below(input, 8), databases,
        databases + (int)fuzz_below(input, 9));
    for (int db = 0; db < databases; db++)
        buffer_append_format(text, "db %d %d\n", db, databases - db);
    buffer_append_format(text, "store %d\n", (int)fuzz_below(input, 1000000));
    for (int files = (int)fuzz_below(input, 4); files > 0; files--)
        buffer_append_format(text, "file %d %016llx %06d.run\n", (int)fuzz_below(input, 10000), (unsigned long long)fuzz_next(input), files);
    if (has_functions)
        buffer_append_format(text, "functions %d %016llx\n", (int)fuzz_below(input, 10000), (unsigned long long)fuzz_next(input));
}

static void run_dataset(struct fuzz_input *input, enum form form)
{
    static const struct bytes alphabet = BYTES("kelvin-image 1partitions databases last db store file functions end\n0123456789 -\xff");
    struct buffer text = { 0 };
    struct dataset_file dataset;
    const char *problem = NULL;
    struct bytes copy;

    if (form == FORM_MADE)
        make_dataset(input, &text);
    else
        fuzz_rest(input, &text);
    if (form == FORM_MADE && fuzz_below(input, 4) != 0) {
        fuzz_damage(input, &text, alphabet, 5, TEXT_MAX);
        form = FORM_SEALED;
    }
    if (form != FORM_ANY)
        buffer_append_format(&text, "end %016llx\n", (unsigned long long)crc64(0, buffer_bytes(&text)));
    if (form == FORM_MADE)
        fuzz_damage(input, &text, alphabet, 5, TEXT_MAX);
    copy = fuzz_exact_copy(buffer_bytes(&text));
    if (dataset_file_parse(copy, &dataset, &problem) == STATUS_OK) {
        CHECK(dataset.db_count > 0 && (size_t)dataset.db_count < text.size && (dataset.partition_count & (dataset.partition_count - 1)) == 0);
        for (int db = 0; db < dataset.db_count; db++) {
            CHECK(dataset.incarnations[db] > 0 && dataset.incarnations[db] <= dataset.incarnation_last);
            CHECK(dataset_file_db_of(&dataset, dataset.incarnations[db]) == db);
        }
        dataset_file_release(&dataset);
    } else {
        CHECK(problem != NULL && dataset.incarnations == NULL && dataset.functions.name == NULL);
    }
    mem_free((void *)copy.data);
    buffer_release(&text);
}

struct seen {
    const char *begin, *end;
    uint32_t partition_count;
    struct recordmap *map;
};

static bool see_section(void *context, const struct tags_section *section)
{
    struct seen *seen = context;
    struct recordmap *map = tags_section_map(section);
    struct recordmap_record record;
    struct recordmap_walk walk;
    uint64_t count = 0;

    CHECK(section->incarnation != 0 && section->partition < seen->partition_count);
    CHECK(section->body.data >= seen->begin && section->body.data + section->body.size <= seen->end);
    recordmap_walk_begin(&walk, map, 0);
    for (; recordmap_walk_next(&walk, &record); count++)
        recordmap_add(seen->map, record.tag, record.key, record.place);
    CHECK(count == section->count);
    recordmap_destroy(map);
    return true;
}

static void make_record(struct fuzz_input *input, struct recordmap_record *record, bool may_be_twin)
{
    static const char key[] = "some key";

    record->is_twin = may_be_twin && fuzz_below(input, 4) == 0;
    record->place = fuzz_below(input, 2) == 0 ? 0 : fuzz_below(input, 1 << 30);
    record->key = (struct bytes){ 0 };
    if (record->is_twin)
        record->key = bytes_of(key, fuzz_below(input, sizeof(key)));
    else
        record->tag += may_be_twin + fuzz_below(input, 1 << 28);
}

static void add_map(struct buffer *text, uint32_t incarnation, uint32_t partition, const struct recordmap_record *records, uint64_t count)
{
    struct recordmap *map = recordmap_create(0, 0);

    for (uint64_t i = 0; i < count; i++)
        recordmap_add(map, records[i].tag, records[i].key, records[i].place);
    tags_add(text, incarnation, partition, map, bytes_of(NULL, 0));
    recordmap_destroy(map);
}

static void make_tags(struct fuzz_input *input, struct buffer *text)
{
    uint32_t partitions = 1 + (uint32_t)fuzz_below(input, 8);

    tags_begin(text, partitions, false);
    for (uint32_t i = 0; i < partitions; i++) {
        struct recordmap_record records[40] = { 0 };
        uint64_t count = fuzz_below(input, 40);

        for (uint64_t k = 0; k < count; k++) {
            if (k > 0)
                records[k].tag = records[k - 1].tag;
            make_record(input, &records[k], k > 0);
        }
        add_map(text, 1 + (uint32_t)fuzz_below(input, 5), i, records, count);
    }
}

static void end_tags(struct buffer *text)
{
    uint64_t crc = crc64(0, buffer_bytes(text));
    uint32_t zero = 0;

    buffer_append(text, &zero, 4);
    buffer_append(text, &crc, 8);
}

static void run_tags(struct fuzz_input *input, enum form form)
{
    static const struct bytes alphabet = BYTES("KTAGS124\n\0\1\2\3\4\5\x7f\x80\xff");
    struct buffer text = { 0 };
    uint32_t count_read = 0;
    const char *problem = NULL;
    uint64_t number;
    struct bytes copy;
    struct seen seen;

    if (form == FORM_MADE)
        make_tags(input, &text);
    else
        fuzz_rest(input, &text);
    if (form == FORM_MADE && fuzz_below(input, 4) != 0) {
        fuzz_damage(input, &text, alphabet, 5, TEXT_MAX);
        form = FORM_SEALED;
    }
    if (form != FORM_ANY)
        end_tags(&text);
    if (form == FORM_MADE)
        fuzz_damage(input, &text, alphabet, 5, TEXT_MAX);
    copy = fuzz_exact_copy(buffer_bytes(&text));
    seen = (struct seen){ copy.data, copy.data + copy.size, 0, recordmap_create(0, 0) };
    if (tags_walk(copy, &count_read, NULL, NULL, &problem) == STATUS_OK) {
        seen.partition_count = count_read;
        CHECK(tags_walk(copy, &count_read, see_section, &seen, &problem) == STATUS_OK);
        number = recordmap_count(seen.map);
        CHECK(number <= copy.size);
    } else {
        CHECK(problem != NULL);
    }
    recordmap_destroy(seen.map);
    mem_free((void *)copy.data);
    buffer_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input;

    fuzz_begin(&input, data, size);
    switch (fuzz_below(&input, 8)) {
    case 0: run_manifest(&input, FORM_ANY); break;
    case 1: run_manifest(&input, FORM_MADE); break;
    case 2: run_dataset(&input, FORM_ANY); break;
    case 3: run_dataset(&input, FORM_SEALED); break;
    case 4: run_dataset(&input, FORM_MADE); break;
    case 5: run_tags(&input, FORM_ANY); break;
    case 6: run_tags(&input, FORM_SEALED); break;
    case 7: run_tags(&input, FORM_MADE); break;
    }
    return 0;
}

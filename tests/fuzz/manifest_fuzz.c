/* manifest_fuzz SECONDS [SEED]: hostile bytes for the small files that say what the data is: the log's manifest, an image's
 * `dataset` and `tags`.
 *
 * A damaged manifest is refused with a line's number, or what it says prints and reads back as the same. A damaged dataset or tags
 * file is refused, as its checksum says; with the checksum made right again, what is accepted obeys its header's promises. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/crc64.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/random.h"
#include "persist/aof_manifest.h"
#include "persist/dataset_file.h"
#include "support/fuzz.h"
#include "tier/recordmap.h"
#include "tier/tags.h"

struct fuzz {
    struct random random;
    uint64_t manifests, datasets, tags;     /* accepted ones */
};

/* A copy of exactly its size, so that the sanitizer sees a byte too many. Freed with mem_free. */
static struct bytes exact_copy(const struct buffer *text)
{
    char *copy = mem_alloc(text->size);

    if (text->size > 0)
        memcpy(copy, text->data, text->size);
    return bytes_of(copy, text->size);
}

static void damage(struct fuzz *fuzz, struct buffer *text, const char *alphabet, size_t alphabet_size)
{
    for (uint64_t changes = random_below(&fuzz->random, 6); changes > 0 && text->size > 0; changes--) {
        size_t at = random_below(&fuzz->random, text->size), size = 1 + random_below(&fuzz->random, text->size - at);

        switch (random_below(&fuzz->random, 6)) {
        case 0: text->data[at] ^= (char)(1 << random_below(&fuzz->random, 8)); break;
        case 1:
        case 2: text->data[at] = alphabet[random_below(&fuzz->random, alphabet_size)]; break;
        case 3: text->size = at; break;
        case 4:
            memmove(text->data + at, text->data + at + size, text->size - at - size);
            text->size -= size;
            break;
        case 5:
            if (text->size < 20000) {
                buffer_reserve(text, size);
                memcpy(text->data + text->size, text->data + at, size);
                text->size += size;
            }
            break;
        }
    }
}

static void random_manifest(struct fuzz *fuzz, struct buffer *text)
{
    struct aof_manifest manifest;
    uint64_t seq = 0;

    aof_manifest_init(&manifest);
    for (uint64_t i = 1 + random_below(&fuzz->random, 6); i > 0; i--) {
        char name[24];
        size_t size = 1 + random_below(&fuzz->random, sizeof(name) - 1);

        for (size_t k = 0; k < size; k++) {
            do
                name[k] = random_below(&fuzz->random, 4) ? (char)('a' + random_below(&fuzz->random, 26)) : (char)random_next(&fuzz->random);
            while (name[k] == 0 || name[k] == '/');
        }
        seq += 1 + random_below(&fuzz->random, 3);
        aof_manifest_add(&manifest, bytes_of(name, size), seq, i == 1 ? AOF_FILE_BASE : random_below(&fuzz->random, 5) ? AOF_FILE_INCREMENT
                                                                                      : AOF_FILE_HISTORY);
        if (random_below(&fuzz->random, 4) == 0)
            manifest.files[manifest.count - 1].valid_size = random_below(&fuzz->random, 1000);
    }
    aof_manifest_print(&manifest, text);
    aof_manifest_release(&manifest);
}

static void run_manifest(struct fuzz *fuzz)
{
    static const char alphabet[] = "file seq type bhi validsize \"'\\x0123456789-#\n\r\t\0\xff/..";
    struct buffer text = { 0 }, printed = { 0 }, twice = { 0 };
    struct aof_manifest manifest, again;
    struct message message = { "" };
    struct bytes copy;

    random_manifest(fuzz, &text);
    damage(fuzz, &text, alphabet, sizeof(alphabet) - 1);
    copy = exact_copy(&text);
    if (aof_manifest_parse(&manifest, copy, &message) != STATUS_OK) {
        CHECK(strstr(message.text, "line ") != NULL && memchr(message.text, 0, sizeof(message.text)) != NULL);
    } else {
        fuzz->manifests++;
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

static void run_dataset(struct fuzz *fuzz)
{
    static const char alphabet[] = "kelvin-image 1partitions databases last db store end\n0123456789 -\xff";
    struct buffer text = { 0 };
    struct dataset_file dataset;
    const char *problem = NULL;
    uint64_t databases = 1 + random_below(&fuzz->random, 20);
    bool sealed = random_below(&fuzz->random, 4) != 0;
    struct bytes copy;

    buffer_append_format(&text, "kelvin-image 1\npartitions %d\ndatabases %d\nlast %d\n", 1 << random_below(&fuzz->random, 8),
        (int)databases, (int)databases + (int)random_below(&fuzz->random, 9));
    for (uint64_t db = 0; db < databases; db++)
        buffer_append_format(&text, "db %d %d\n", (int)db, (int)(databases - db));
    buffer_append_format(&text, "store %d\n", (int)random_below(&fuzz->random, 1000000));
    if (sealed)
        damage(fuzz, &text, alphabet, sizeof(alphabet) - 1);
    buffer_append_format(&text, "end %016llx\n", (unsigned long long)crc64(0, buffer_bytes(&text)));
    if (!sealed)
        damage(fuzz, &text, alphabet, sizeof(alphabet) - 1);
    copy = exact_copy(&text);
    if (dataset_file_parse(copy, &dataset, &problem) == STATUS_OK) {
        fuzz->datasets++;
        CHECK(dataset.db_count > 0 && (size_t)dataset.db_count < text.size && (dataset.partition_count & (dataset.partition_count - 1)) == 0);
        for (int db = 0; db < dataset.db_count; db++) {
            CHECK(dataset.incarnations[db] > 0 && dataset.incarnations[db] <= dataset.incarnation_last);
            CHECK(dataset_file_db_of(&dataset, dataset.incarnations[db]) == db);
        }
        dataset_file_release(&dataset);
    } else {
        CHECK(problem != NULL && dataset.incarnations == NULL);
    }
    mem_free((void *)copy.data);
    buffer_release(&text);
}

struct seen {
    const char *begin, *end;
    uint32_t partition_count;
    struct recordmap *map;
};

static bool see_section(void *context, uint32_t incarnation, uint32_t partition, const uint8_t *tags, uint64_t count)
{
    struct seen *seen = context;

    CHECK(incarnation != 0 && partition < seen->partition_count);
    CHECK((const char *)tags >= seen->begin && (const char *)tags + count * RECORDMAP_TAG_SIZE <= seen->end);
    CHECK(recordmap_load(seen->map, tags, count));
    return true;
}

static void run_tags(struct fuzz *fuzz)
{
    static const char alphabet[] = "KTAGS1\n\0\1\2\3\4\5\x7f\x80\xff";
    struct buffer text = { 0 };
    uint32_t partitions = 1 + (uint32_t)random_below(&fuzz->random, 8), zero = 0, count_read = 0;
    bool sealed = random_below(&fuzz->random, 4) != 0;
    const char *problem = NULL;
    uint64_t crc, number;
    struct bytes copy;
    struct seen seen;

    buffer_append(&text, "KTAGS1\n\0", 8);
    buffer_append(&text, &partitions, 4);
    for (uint32_t i = 0; i < partitions; i++) {
        uint32_t incarnation = 1 + (uint32_t)random_below(&fuzz->random, 5);
        uint64_t count = random_below(&fuzz->random, 40), tag = 0;

        buffer_append(&text, &incarnation, 4);
        buffer_append(&text, &i, 4);
        buffer_append(&text, &count, 8);
        for (uint64_t k = 0; k < count; k++) {
            tag += random_below(&fuzz->random, 1 << 28);
            buffer_append(&text, &tag, RECORDMAP_TAG_SIZE);
        }
    }
    if (sealed)
        damage(fuzz, &text, alphabet, sizeof(alphabet) - 1);
    crc = crc64(0, buffer_bytes(&text));
    buffer_append(&text, &zero, 4);
    buffer_append(&text, &crc, 8);
    if (!sealed)
        damage(fuzz, &text, alphabet, sizeof(alphabet) - 1);
    copy = exact_copy(&text);
    seen = (struct seen){ copy.data, copy.data + copy.size, 0, recordmap_create(0) };
    if (tags_walk(copy, &count_read, NULL, NULL, &problem) == STATUS_OK) {
        fuzz->tags++;
        seen.partition_count = count_read;
        CHECK(tags_walk(copy, &count_read, see_section, &seen, &problem) == STATUS_OK);
        number = recordmap_count(seen.map);
        CHECK(number * RECORDMAP_TAG_SIZE <= copy.size);
    } else {
        CHECK(problem != NULL);
    }
    recordmap_destroy(seen.map);
    mem_free((void *)copy.data);
    buffer_release(&text);
}

int main(int argc, char **argv)
{
    struct fuzz_time time;
    struct fuzz fuzz = { 0 };
    uint64_t seed = fuzz_begin(&time, "manifest_fuzz", argc, argv), first = seed;

    do {
        for (int i = 0; i < 100; i++) {
            random_init(&fuzz.random, seed++);
            run_manifest(&fuzz);
            run_dataset(&fuzz);
            run_tags(&fuzz);
        }
    } while (fuzz_goes_on(&time));
    printf("manifest_fuzz: %" PRIu64 " of each; accepted: %" PRIu64 " manifests, %" PRIu64 " datasets, %" PRIu64 " tags\n", seed - first,
        fuzz.manifests, fuzz.datasets, fuzz.tags);
    return 0;
}

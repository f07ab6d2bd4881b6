/* Dataset file: the databases of an image. Text, a part of each image (persist/checkpoint.h):
 *
 *   kelvin-image <version>         3; 1 or 2, with a `functions` line, before the store's meta data was a file
 *   partitions <n>
 *   databases <n>
 *   last <incarnation>             the highest incarnation given out so far
 *   db <number> <incarnation>      a line for each, in order
 *   store <number>                 of the last batch that was written to the image's store (store_number)
 *   file <bytes> <CRC-64> <name>   of the store's meta data; in older images, a line for each small file of LevelDB
 *   stream <position>              where the image is in the replication stream, as in a STREAM line of the log (persist/aof_mark.h)
 *   functions <bytes> <CRC-64>     of the image's file `functions`, if there are libraries (docs/formats/functions.md)
 *   seed <32 hexadecimal digits>   the seed of the store's hashes, as the store has it
 *   layout 1                       the hashes are by slot (keyspace/slot.h); no line: they are not
 *   end <CRC-64 of all before this line, 16 hexadecimal digits>
 *
 * An image has it twice: `dataset.copy` is written first and has the same bytes. Either is enough; older images have no copy.
 * Lines after `store` with an unknown first word are ignored; images without `file` lines are from older versions.
 */
#ifndef KELVIN_PERSIST_DATASET_FILE_H
#define KELVIN_PERSIST_DATASET_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/message.h"
#include "base/status.h"
#include "keyspace/page_name.h"
#include "stream/history.h"

enum { DATASET_FILE_SIZE_MAX = 64 << 20, DATASET_FILE_DATABASES_MAX = 1 << 21 };

struct dataset_small {
    char *name;                     /* plain, in store/ */
    uint64_t size, crc;
};

struct dataset_file {
    uint32_t partition_count;       /* a power of two */
    uint32_t incarnation_last;
    int db_count;
    uint64_t store_number;
    struct dataset_small *files;
    int file_count;
    struct dataset_small functions; /* .name is NULL: there are none */
    uint64_t value_count;           /* values that have got an ID (keyspace/pages.h) */
    bool has_renamed;               /* some may have their pages in another partition than their key */
    struct history_point point;     /* has_point */
    bool has_point, has_seed;
    struct key_seed seed;          /* has_seed */
    uint32_t *incarnations;         /* by database; 1 .. incarnation_last, none twice */
};

#define DATASET_FILE_NAME "dataset"
#define DATASET_FILE_COPY "dataset.copy"

/* STATUS_CORRUPT, STATUS_VERSION: *problem says why, and there is nothing to release. */
enum status dataset_file_parse(struct bytes text, struct dataset_file *dataset, const char **problem);
/* The same from a file. STATUS_NOT_FOUND, STATUS_IO: *problem is the system's text. */
enum status dataset_file_load(const char *path, struct dataset_file *dataset, const char **problem);
/* The same for an image: from its copy, if the file itself is missing or damaged. *problem is that of the file itself, or NULL; with STATUS_OK
 * and a problem the copy was taken. */
enum status dataset_file_load_image(const char *image, struct dataset_file *dataset, const char **problem);
/* Writes both, synced; the names in the directory are the caller's to sync. */
enum status dataset_file_write(const char *image, struct bytes text);
void dataset_file_release(struct dataset_file *dataset);

/* Appends the lines `values` and `renamed`, if there is anything to say. */
void dataset_file_print_values(uint64_t count, bool has_renamed, struct buffer *text);
/* Appends the `seed` line, and that of the layout. */
void dataset_file_print_seed(const struct key_seed *seed, struct buffer *text);
/* Appends the whole text, with the files in `image` as they are now, but without the point: what was repaired is not what replicas have. */
enum status dataset_file_print(const struct dataset_file *dataset, const char *image, struct buffer *text);
/* Appends the first line. The version says whether there may be values in pages, which versions before did not know: partitions.value_count at the cut. */
void dataset_file_begin(uint64_t value_count, struct buffer *text);
/* Appends the `file` lines for the store in `image`, and the `functions` line if it has that file. */
enum status dataset_file_describe(const char *image, struct buffer *text);
/* Checks that the files are as their lines say: all, those of the store, the one with the functions. STATUS_CORRUPT: `message` says which one
 * is not. */
enum status dataset_file_verify(const struct dataset_file *dataset, const char *image, struct message *message);
enum status dataset_file_verify_store(const struct dataset_file *dataset, const char *image, struct message *message);
enum status dataset_file_verify_functions(const struct dataset_file *dataset, const char *image, struct message *message);

/* The database whose keys, or whose pages, have the incarnation; -1: none. */
int dataset_file_db_of(const struct dataset_file *dataset, uint32_t incarnation);

#endif

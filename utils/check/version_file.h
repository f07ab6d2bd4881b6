/* Version file: what LevelDB's MANIFEST says about tables: which ones there are, and which keys each may have. */
#ifndef KELVIN_CHECK_VERSION_FILE_H
#define KELVIN_CHECK_VERSION_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "record_file.h"

struct version_table {
    uint64_t number, size;
    bool live;                          /* not replaced by other tables since */
    struct bytes smallest, largest;     /* store keys, owned */
};
struct version_file {
    struct version_table *tables;
    int count, capacity;
    bool strange;                       /* a record could not be parsed to its end */
};
void version_file_init(struct version_file *version);
void version_file_release(struct version_file *version);
record_found version_file_add;          /* for record_file_check; the context is the version */
const struct version_table *version_file_table(const struct version_file *version, uint64_t number);    /* NULL: unknown */

#endif

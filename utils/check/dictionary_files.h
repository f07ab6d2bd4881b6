/* Dictionary files: those of an image's store (store/dictionaries.h), and how many records need one that can't be used. */
#ifndef KELVIN_CHECK_DICTIONARY_FILES_H
#define KELVIN_CHECK_DICTIONARY_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/message.h"

struct check;

enum { LACKING_MAX = 64 };

/* Records that need dictionaries that can't be used, by number; all zero: none. Of more than LACKING_MAX only the sum is known. */
struct lacking {
    struct {
        uint32_t number;
        uint64_t records;
    } list[LACKING_MAX];
    size_t count;
    uint64_t others;
};
void lacking_add(struct lacking *lacking, uint32_t number);

/* Reports damaged files. Returns whether there are any. */
bool dictionary_files_check(struct check *check, const char *dir);
/* Says what `lacking` has counted; the records have been reported one by one. */
void dictionary_files_report(struct check *check, const char *dir, const struct lacking *lacking);
/* Hard links (or copies) of those that can be used, in another directory. */
bool dictionary_files_link(const char *dir, const char *to, struct message *message);

#endif

/* Identity: which data set a directory holds, so that somebody else's dump is not taken for ours, nor ours for somebody else's.
 *
 * A data set gets 32 random hex digits when its log is first created. They stand in `<appenddirname>/<appendfilename>.id` and, as
 * `kelvin-id`, in its dumps:
 *
 *   kelvin-id 1
 *   id <32 hex digits>
 *   known <16 hex digits>       the identity_fingerprint of a dump that has not our id and lies there rightly: the data came from it, or it
 *                               lay beside the log already when Kelvin first came. Only if there was one.
 *
 * No lock, no thread: used at the start.
 */
#ifndef KELVIN_PERSIST_IDENTITY_H
#define KELVIN_PERSIST_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/message.h"
#include "base/status.h"

enum { IDENTITY_SIZE = 33 };        /* digits and a NUL */

struct identity {
    char id[IDENTITY_SIZE];
    bool has_known;
    uint64_t known_dump;
};

void identity_make(char id[IDENTITY_SIZE]);
bool identity_is(struct bytes text);        /* 32 lower case hex digits */

/* STATUS_NOT_FOUND: there is none. `message` is set for all other failures. */
enum status identity_read(const char *dir, const char *name, struct identity *identity, struct message *message);

/* Makes the directory if need be, and the file, durably; one that is there already stays and is read. */
enum status identity_keep(const char *dir, const char *name, struct identity *identity, struct message *message);

void identity_forget(const char *dir, const char *name);        /* none is there afterwards */

/* The `kelvin-id` of a dump. STATUS_NOT_FOUND: no such file, or it has none: another server wrote it. What comes behind its aux fields is
 * not read. `message` is set for all failures. */
enum status identity_of_dump(const char *path, char id[IDENTITY_SIZE], struct message *message);

/* Of a file's size, first and last 64 KiB: the same for a copy of it. STATUS_NOT_FOUND: no such file. */
enum status identity_fingerprint(const char *path, uint64_t *fingerprint);

#endif

/* Identity: which data set a directory has, so that the log and the dump of different data sets are not mixed.
 *
 * A data set gets 32 random hex digits when its log is first created. They are in `<appenddirname>/<appendfilename>.id` and, as
 * `kelvin-id`, in its dumps:
 *
 *   kelvin-id 1
 *   id <32 hex digits>
 *   known <16 hex digits>       the identity_fingerprint of a dump that does not have this id and is accepted nevertheless: the data came
 *                               from it, or it was next to the log already when Kelvin was first started there. Only if there is one.
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

/* STATUS_NOT_FOUND: there is none; STATUS_VERSION: a newer Kelvin wrote it. `message` is set for all other failures. */
enum status identity_read(const char *dir, const char *name, struct identity *identity, struct message *message);

/* Creates the directory, if there is none, and the file, durably; an existing file stays and is read. */
enum status identity_keep(const char *dir, const char *name, struct identity *identity, struct message *message);

void identity_forget(const char *dir, const char *name);        /* removes the file, if there is one */

/* The `kelvin-id` of a dump. STATUS_NOT_FOUND: no such file, or it has no id because another server wrote it. What comes after its aux
 * fields is not read. `message` is set for all failures. */
enum status identity_of_dump(const char *path, char id[IDENTITY_SIZE], struct message *message);

/* Computes the fingerprint of a file from its size, first and last 64 KiB: the same for a copy of it. STATUS_NOT_FOUND: no such file. */
enum status identity_fingerprint(const char *path, uint64_t *fingerprint);

#endif

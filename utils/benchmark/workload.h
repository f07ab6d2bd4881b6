/* Workload: what a test sends, and what should come back.
 *
 * A test is a command with placeholders, or two of them, one that reads and one that writes:
 *
 *   __key__         the key drawn for this request (each occurrence draws one): prefix, zeros, number
 *   __value__       the value that belongs to the key drawn last; an argument of its own
 *   __member__      m0000000000 .. one of --members
 *   __rand_int__    twelve digits, a number below the number of keys
 *
 * Commands are put into wire format once; a request is that text with the placeholders filled in.
 * Immutable after creation, shared by all threads.
 */
#ifndef KELVIN_BENCHMARK_WORKLOAD_H
#define KELVIN_BENCHMARK_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/random.h"

struct key_space;
struct options;
struct workload;

enum request_class { REQUEST_READ, REQUEST_WRITE, REQUEST_CLASSES };

/* A test by its name (any case), or the user's own command when `name` is NULL. NULL: `error` says why not. `options`
 * and `keys` are borrowed for as long as the workload lives.
 */
struct workload *workload_create(const char *name, const struct options *options, const struct key_space *keys,
    char *error, size_t error_size);
void workload_destroy(struct workload *workload);       /* NULL is fine */

const char *workload_name(const struct workload *workload);
bool workload_is_load(const struct workload *workload);     /* every key once, in order */
void workload_help(FILE *out);                              /* the tests there are */

/* Most keys that one request draws. */
size_t workload_keys_max(const struct workload *workload);

/* Appends a request. `drawn` gets the numbers of its keys, workload_keys_max() at most. */
enum request_class workload_request(const struct workload *workload, struct random *random, uint64_t ticket,
    uint64_t *drawn, struct buffer *out);

/* What a reply turned out to be. */
struct verdict {
    bool error;             /* the server refused */
    unsigned found;         /* values that were there, and nil instead of one; reading tests only */
    unsigned missing;
    bool wrong;             /* not what was expected; --verify only, and `reason` says in what */
};

/* Judges the complete reply to a request that drew `drawn`. */
struct verdict workload_judge(const struct workload *workload, enum request_class class, const uint64_t *drawn,
    struct bytes reply, char *reason, size_t reason_size);

#endif

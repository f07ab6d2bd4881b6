/* Workload: the requests of a test, and the expected replies.
 *
 * A test is a command with placeholders, or two commands, one that reads and one that writes:
 *
 *   __key__         a key drawn for this request (each occurrence draws another): prefix, zeros, number
 *   __value__       the value of the key drawn last; must be a whole argument
 *   __member__      one of --members members, m0000000000 ...
 *   __rand_int__    a number below the number of keys, twelve digits
 *
 * Commands are encoded once; a request is this text with the placeholders replaced.
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

/* Creates a test by its name (case-insensitive), or from the user's command if `name` is NULL. NULL: `error` has the reason.
 * `options` and `keys` are borrowed until workload_destroy.
 */
struct workload *workload_create(const char *name, const struct options *options, const struct key_space *keys,
    char *error, size_t error_size);
void workload_destroy(struct workload *workload);       /* NULL is fine */

const char *workload_name(const struct workload *workload);
bool workload_is_load(const struct workload *workload);     /* each key once, in order */
void workload_help(FILE *out);                              /* prints the list of tests */

/* The maximum number of keys that one request draws. */
size_t workload_keys_max(const struct workload *workload);

/* Appends a request. `drawn` is set to the numbers of its keys, at most workload_keys_max(). */
enum request_class workload_request(const struct workload *workload, struct random *random, uint64_t ticket,
    uint64_t *drawn, struct buffer *out);

/* The result of checking a reply. */
struct verdict {
    bool error;             /* it is an error */
    unsigned found;         /* number of values, number of nil replies; reading tests only */
    unsigned missing;
    bool wrong;             /* not as expected; --verify only, `reason` has the difference */
};

/* Checks the complete reply to a request that drew the keys `drawn`. */
struct verdict workload_judge(const struct workload *workload, enum request_class class, const uint64_t *drawn,
    struct bytes reply, char *reason, size_t reason_size);

#endif

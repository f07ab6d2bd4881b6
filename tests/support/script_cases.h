/* Tables of scripts with their replies, as redis-server 7.0 gives them (where 7.2 differs, as that does). "{sha}" in a reply is
 * the SHA1 of the script. Keys and arguments: support/fake_host.h.
 */
#ifndef KELVIN_SUPPORT_SCRIPT_CASES_H
#define KELVIN_SUPPORT_SCRIPT_CASES_H

#include <stddef.h>

#include "base/bytes.h"

struct script_case {
    struct bytes code, reply;
};

#define SCRIPT_CASE(code, reply) { { code, sizeof(code) - 1 }, { reply, sizeof(reply) - 1 } }

/* Runs all of them on one interpreter and prints those whose reply is another. Returns how many. `protocol` is the caller's. */
int script_cases_run(const struct script_case *cases, size_t count, int protocol);

#endif

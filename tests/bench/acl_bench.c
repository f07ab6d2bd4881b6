/* What a check costs a client whose user may not do everything: nanoseconds per call, the best of several runs. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "base/check.h"
#include "base/clock.h"
#include "support/acl_box.h"

enum { ROUNDS = 200000, RUNS = 7 };

static void time_check(const char *name, const char *rules, const char *call)
{
    struct acl_box box;
    struct acl_box_call parsed;
    struct acl_user *user;
    int64_t best = INT64_MAX;

    acl_box_create(&box);
    CHECK(acl_box_set(&box, "u", rules) == NULL);
    acl_box_parse(&box, call, &parsed);
    user = acl_find(box.acl, BYTES("u"));
    for (int run = 0; run < RUNS; run++) {
        int64_t began = clock_mono_us(), took;
        int argument;

        for (int i = 0; i < ROUNDS; i++)
            CHECK(acl_check(acl_user_rules(user), &parsed.request, &argument) == ACL_ALLOWED);
        took = clock_mono_us() - began;
        best = took < best ? took : best;
    }
    acl_user_release(user);
    acl_box_destroy(&box);
    printf("%-40s %6.1f ns\n", name, (double)best * 1000 / ROUNDS);
}

int main(void)
{
    time_check("GET, all keys", "+@all -@dangerous ~*", "get key:000000000001");
    time_check("GET, the 4th of 4 prefixes", "+@read +@write ~a:* ~b:* ~c:* ~key:*", "get key:000000000001");
    time_check("GET, the 2nd of 2 other patterns", "+@read ~a[0-9]* ~key:*1", "get key:000000000001");
    time_check("SET, in the 2nd selector", "+@read ~a:* (+@write ~key:*)", "set key:000000000001 v");
    time_check("MGET of 8 keys, a prefix", "+@read ~key:*", "mget key:1 key:2 key:3 key:4 key:5 key:6 key:7 key:8");
    time_check("PUBLISH, a prefix", "+@pubsub &news:*", "publish news:1 text");
    return 0;
}

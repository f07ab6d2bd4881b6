/* Speed of running scripts, with a host that does nothing but write a reply: what a script costs beyond its commands.
 *
 * Prints nanoseconds per run, the best of several rounds. `script_bench NAME COUNT` runs one of them COUNT times, to count its
 * instructions with valgrind --tool=callgrind.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "resp/reply.h"
#include "script/interpreter.h"

enum { RUNS = 100000, ROUNDS = 5 };

static void call(void *context, const struct bytes *args, int arg_count, struct reply *reply)
{
    reply_bulk(reply, BYTES("value:000000000001"));
}

static bool may_go_on(void *context)
{
    return true;
}

static void write_log(void *context, enum script_log_level level, struct bytes text) { }

static enum script_acl acl_check(void *context, const struct bytes *args, int arg_count)
{
    return SCRIPT_ACL_ALLOWED;
}

static void set_replication(void *context, enum script_replication replication) { }

struct sample {
    const char *name, *code;
    int key_count, arg_count;
};

static const struct sample samples[] = {
    { "nothing", "return 1", 0, 0 },
    { "get", "return redis.call('get', KEYS[1])", 1, 0 },
    { "lock", "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end", 1, 1 },
    { "calls", "for i = 1, 10 do redis.call('set', KEYS[1], i) end", 1, 0 },
    { "loop", "local n = 0 for i = 1, 1000 do n = n + i end return n", 0, 0 },
    { "json", "return cjson.encode(cjson.decode('{\"a\":[1,2,3],\"b\":\"text\",\"c\":{\"d\":null}}'))", 0, 0 },
    { "match", "return (('key:1:field:2'):gsub('(%a+):(%d+)', '%2=%1'))", 0, 0 },
};

static void run_sample(struct interpreter *interpreter, const struct sample *sample, int count)
{
    static const struct script_host host = { NULL, call, may_go_on, write_log, acl_check, set_replication };
    static const struct bytes words[] = { { "key:000000000001", 16 } };
    struct script_source source = { .code = bytes_of_string(sample->code) };
    struct script_run run = { .source = &source, .keys = words, .key_count = sample->key_count, .args = words,
                              .arg_count = sample->arg_count, .host = &host };
    struct reply reply;

    memset(source.sha, 'a', sizeof(source.sha));
    memcpy(source.sha, sample->name, strlen(sample->name));
    reply_init(&reply, 2);
    for (int i = 0; i < count; i++) {
        CHECK(interpreter_run(interpreter, &run, &reply) == SCRIPT_OK);
        reply_truncate(&reply, 0);
    }
    reply_release(&reply);
}

static void time_sample(struct interpreter *interpreter, const struct sample *sample)
{
    int64_t best = INT64_MAX;

    for (int round = 0; round < ROUNDS; round++) {
        int64_t start = clock_mono_ns();

        run_sample(interpreter, sample, RUNS);
        if (clock_mono_ns() - start < best)
            best = clock_mono_ns() - start;
    }
    printf("script %-10s %8.1f ns\n", sample->name, (double)best / RUNS);
}

int main(int argc, char **argv)
{
    static const struct interpreter_options options = { .heap_size_max = (size_t)64 << 20, .cached_scripts_max = 100 };
    struct interpreter *interpreter = interpreter_create(&options);

    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        if (argc < 3)
            time_sample(interpreter, &samples[i]);
        else if (strcmp(argv[1], samples[i].name) == 0)
            run_sample(interpreter, &samples[i], atoi(argv[2]));
    }
    interpreter_destroy(interpreter);
    return 0;
}

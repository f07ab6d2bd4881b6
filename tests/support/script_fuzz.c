#include "support/script_fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "resp/reply.h"
#include "support/fake_host.h"

enum { HEAP_SIZE_MAX = 16 << 20 };

static struct interpreter *shared_interpreter(void)
{
    static struct interpreter *interpreter;

    if (interpreter == NULL) {
        struct interpreter_options options = { .heap_size_max = HEAP_SIZE_MAX, .cached_scripts_max = 10 };

        interpreter = interpreter_create(&options);
    }
    return interpreter;
}

void script_fuzz_run(const char *code, struct bytes first, struct bytes second)
{
    struct interpreter *interpreter = shared_interpreter();
    const struct bytes args[] = { first, second };
    struct script_source source = { .code = bytes_of_string(code) };
    struct fake_host fake;
    struct script_run run = { .source = &source, .args = args, .arg_count = 2, .host = &fake.host };
    struct reply reply;

    memset(source.sha, '0', sizeof(source.sha));
    fake_host_init(&fake);
    fake.questions_max = 1000;
    reply_init(&reply, 2);
    CHECK(interpreter_run(interpreter, &run, &reply) != SCRIPT_STOPPED);
    if (reply.out.size >= 6 && memmem(reply.out.data, reply.out.size, "\nBUG", 4) != NULL) {
        fprintf(stderr, "%.*s\n", (int)reply.out.size, reply.out.data);
        abort();
    }
    CHECK(interpreter_memory(interpreter) < HEAP_SIZE_MAX);
    reply_release(&reply);
    fake_host_release(&fake);
}

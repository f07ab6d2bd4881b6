#include "support/script_cases.h"

#include <stdio.h>

#include "base/buffer.h"
#include "base/digest.h"
#include "resp/reply.h"
#include "support/fake_host.h"

static void replace_sha(struct bytes code, struct bytes reply, struct buffer *out)
{
    static const char mark[] = "{sha}";
    char sha[SHA1_HEX_SIZE];

    digest_sha1_hex(code, sha);
    for (;;) {
        const char *found = memmem(reply.data, reply.size, mark, sizeof(mark) - 1);
        size_t before = found != NULL ? (size_t)(found - reply.data) : reply.size;

        buffer_append(out, reply.data, before);
        if (found == NULL)
            return;
        buffer_append(out, sha, sizeof(sha));
        reply = bytes_of(found + sizeof(mark) - 1, reply.size - before - (sizeof(mark) - 1));
    }
}

static bool run_case(struct interpreter *interpreter, const struct script_case *script, int protocol)
{
    struct buffer expected = { 0 };
    struct fake_host fake;
    struct reply reply;
    bool same;

    fake_host_init(&fake);
    reply_init(&reply, protocol);
    replace_sha(script->code, script->reply, &expected);
    fake_host_eval(&fake, interpreter, script->code, &reply);
    same = bytes_equal(buffer_bytes(&reply.out), buffer_bytes(&expected));
    if (!same)
        fprintf(stderr, "%.*s\n  expected %.*s  got      %.*s", (int)script->code.size, script->code.data, (int)expected.size,
                expected.data, (int)reply.out.size, reply.out.data);
    buffer_release(&expected);
    reply_release(&reply);
    fake_host_release(&fake);
    return same;
}

int script_cases_run(const struct script_case *cases, size_t count, int protocol)
{
    struct interpreter_options options = { .heap_size_max = (size_t)64 << 20, .cached_scripts_max = 100 };
    struct interpreter *interpreter = interpreter_create(&options);
    int wrong = 0;

    for (size_t i = 0; i < count; i++)
        wrong += !run_case(interpreter, &cases[i], protocol);
    interpreter_destroy(interpreter);
    return wrong;
}

/* Hostile bytes for what a replica applies (replication/applier.h): any bytes, or a stream of commands and groups, some of them damaged.
 *
 * The inbox gets them in random pieces. Nothing may crash or wait for ever, and afterwards the history has the bytes up to the applier's
 * position, no less and no more. A stream that was not damaged is applied to its end, or to the last MULTI without an EXEC.
 */
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "support/applier_box.h"
#include "support/fuzz.h"

enum { INBOX = 16 << 20, COMMANDS_MAX = 30, WAITS_MAX = 200 };

static void print_command(struct fuzz_input *fuzz, struct buffer *text)
{
    static const char *const lines[] = { "SET a 1", "INCR a", "INCR b", "APPEND a x", "SET b 7 PXAT 1", "SET a 1 PXAT 99999999999999", "DEL a b",
        "MSET a 1 b 2 c 3", "LPUSH l x y", "LPOP l", "BLPOP l 0", "HSET h f v", "RPOPLPUSH l m", "SADD s 1 2", "ZADD z 1 a", "XADD x * f v",
        "SELECT 1", "SELECT 0", "SELECT 99", "SWAPDB 0 1", "FLUSHDB", "FLUSHALL", "PING", "REPLCONF GETACK *", "NOSUCH", "GET a", "WATCH a",
        "DISCARD", "QUIT", "RESET", "MIGRATE 127.0.0.1 1 a 0 5", "SORT l STORE m", "COPY a b", "MOVE a 1", "RENAME a b", "EXPIRE a -1",
        "PERSIST b", "PFADD p 1", "SETBIT q 7 1", "RESTORE r 0 x", "SET", "CLIENT KILL", "AUTH x", "HELLO 3",
        "EVAL return{redis.call('incr',KEYS[1]),redis.call('lpush',KEYS[2],'x')} 2 a l", "EVAL redis.call('set',KEYS[1],'x');redis.call('incr',KEYS[1]) 1 b",
        "EVAL syntax( 0", "EVAL return 0 x", "EVAL redis.call('select',1);redis.call('set','undeclared','1') 0", "EVAL_RO return 1 0", "SCRIPT FLUSH",
        "SCRIPT LOAD return(redis.call('incr','a'))", "FUNCTION DELETE lib", "FUNCTION LOAD nonsense", "FUNCTION FLUSH" };

    applier_box_print(text, lines[fuzz_below(fuzz, sizeof(lines) / sizeof(lines[0]))]);
}

/* Returns where what can be applied ends. */
static size_t print_stream(struct fuzz_input *fuzz, struct buffer *text)
{
    bool in_group = false;
    size_t end = 0;

    for (uint64_t i = fuzz_below(fuzz, COMMANDS_MAX); i > 0; i--) {
        bool changes = fuzz_below(fuzz, 5) == 0;

        if (changes)
            applier_box_print(text, in_group ? "EXEC" : "MULTI");
        else
            print_command(fuzz, text);
        in_group ^= changes;
        if (!in_group)
            end = text->size;
    }
    return end;
}

static void feed(struct fuzz_input *fuzz, struct applier_box *box, struct bytes bytes)
{
    size_t piece_max = 1 + fuzz_below(fuzz, 300), at = 0;

    while (at < bytes.size) {
        size_t left = bytes.size - at, size = 1 + fuzz_below(fuzz, piece_max);

        size = size < left ? size : left;
        applier_box_feed(box, bytes_of(bytes.data + at, size));
        at += size;
        if (fuzz_below(fuzz, 8) == 0)
            sched_yield();
    }
}

static void check_history(struct applier_box *box, const struct buffer *text, size_t applied)
{
    struct buffer out = { 0 };

    applier_box_output(box, &out);
    CHECK(out.size == applied && applied <= text->size);
    CHECK(applied == 0 || memcmp(out.data, text->data, applied) == 0);
    buffer_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input fuzz;
    struct buffer text = { 0 };
    struct applier_box box;
    struct applier_end end;
    uint64_t mode;
    size_t wanted = 0;

    fuzz_begin(&fuzz, data, size);
    mode = fuzz_below(&fuzz, 4);
    if (mode == 0)
        fuzz_rest(&fuzz, &text);
    else
        wanted = print_stream(&fuzz, &text);
    if (mode == 3 && text.size > 0)
        fuzz_damage(&fuzz, &text, BYTES("\r\n$*-019 :"), 4, 1 << 16);
    applier_box_create(&box, INBOX);
    applier_box_start(&box, 0, 0);
    feed(&fuzz, &box, buffer_bytes(&text));
    if (mode == 1 || mode == 2)
        CHECK(applier_box_await(&box, (int64_t)wanted));
    end = applier_box_stop(&box);            /* it may be anywhere */
    applier_box_start(&box, end.offset, end.db);
    buffer_append(&text, "x", 1);               /* not a command: the stream ends here at the latest, or this is the rest of one */
    applier_box_feed(&box, BYTES("x"));
    for (int i = 0; i < WAITS_MAX && !box.failed; i++)
        sched_yield();
    end = applier_box_stop(&box);
    check_history(&box, &text, (size_t)end.offset);
    applier_box_destroy(&box);
    buffer_release(&text);
    return 0;
}

/* Hostile bytes for what a replica reads from its primary (replication/link_input.h): any bytes, or valid sessions, some of them damaged.
 *
 * An input is parsed at once and in random pieces, each in an exact block of memory of its own. Both must give the same, and a session that
 * was not damaged what was put into it. Marks have few different bytes, so that their begins are often in the data.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/mem.h"
#include "replication/link_input.h"
#include "replication/link_psync.h"
#include "support/fuzz.h"

#define ID "0123456789abcdef0123456789ABCDEF01234567"

struct session {
    struct buffer input, expected;
};

static void add_alive(struct fuzz_input *fuzz, struct session *session)
{
    static const char *const newlines[] = { "\n", "\r\n" };

    while (fuzz_below(fuzz, 3) == 1) {
        buffer_append_string(&session->input, newlines[fuzz_below(fuzz, 2)]);
        buffer_append_string(&session->expected, ".");
    }
}

static void add_line(struct session *session, const char *line)
{
    buffer_append_format(&session->input, "%s\r\n", line);
    buffer_append_format(&session->expected, "L%s;", line);
}

/* Bytes of which many are the mark's, but not the whole mark. */
static void make_rdb(struct fuzz_input *fuzz, const char *mark, struct buffer *rdb)
{
    for (uint64_t i = fuzz_below(fuzz, 20); i > 0; i--) {
        size_t from = fuzz_below(fuzz, LINK_MARK_SIZE);

        buffer_append(rdb, mark + from, fuzz_below(fuzz, LINK_MARK_SIZE - from));
        if (fuzz_below(fuzz, 4) == 1)
            buffer_append_u8(rdb, (uint8_t)fuzz_below(fuzz, 256));
    }
}

/* Where the mark is first. */
static size_t find_mark(struct bytes bytes, const char *mark)
{
    return (size_t)((const char *)memmem(bytes.data, bytes.size, mark, LINK_MARK_SIZE) - bytes.data);
}

static void add_rdb(struct fuzz_input *fuzz, struct session *session)
{
    char mark[LINK_MARK_SIZE];
    struct buffer rdb = { 0 };
    size_t letters = 1 + fuzz_below(fuzz, 3);

    for (size_t i = 0; i < LINK_MARK_SIZE; i++)
        mark[i] = (char)('a' + fuzz_below(fuzz, letters));
    make_rdb(fuzz, mark, &rdb);
    if (fuzz_below(fuzz, 2) == 1) {
        bool is_image = fuzz_below(fuzz, 4) == 1;

        buffer_append_format(&session->input, is_image ? "$IMAGE:%zu\r\n" : "$%zu\r\n", rdb.size);
        buffer_append_format(&session->expected, is_image ? "I%zu;" : "B%zu;", rdb.size);
        buffer_append_bytes(&session->input, buffer_bytes(&rdb));
        buffer_append_bytes(&session->expected, buffer_bytes(&rdb));
        buffer_append_string(&session->expected, "E");
    } else {
        size_t begin;

        buffer_append_format(&session->input, "$EOF:%.*s\r\n", LINK_MARK_SIZE, mark);
        buffer_append_string(&session->expected, "B-1;");
        buffer_append(&rdb, mark, LINK_MARK_SIZE);
        buffer_append_bytes(&session->input, buffer_bytes(&rdb));
        begin = find_mark(buffer_bytes(&rdb), mark);            /* the data's end and the mark's begin can make an earlier one */
        buffer_append(&session->expected, rdb.data, begin);
        buffer_append_string(&session->expected, "E");
        buffer_append(&session->expected, rdb.data + begin + LINK_MARK_SIZE, rdb.size - begin - LINK_MARK_SIZE);
    }
    buffer_release(&rdb);
}

static void make_session(struct fuzz_input *fuzz, struct session *session)
{
    static const char *const replies[] = { "+PONG", "-NOAUTH Authentication required.", "+OK", "-ERR \t" };
    size_t from;

    for (uint64_t i = fuzz_below(fuzz, 4); i > 0; i--) {
        add_alive(fuzz, session);
        add_line(session, replies[fuzz_below(fuzz, 4)]);
    }
    add_alive(fuzz, session);
    if (fuzz_below(fuzz, 3) == 1) {
        add_line(session, fuzz_below(fuzz, 2) == 1 ? "+CONTINUE" : "+CONTINUE " ID);
    } else {
        add_line(session, "+FULLRESYNC " ID " 123");
        add_alive(fuzz, session);
        add_rdb(fuzz, session);
    }
    from = session->input.size;
    fuzz_rest(fuzz, &session->input);
    buffer_append(&session->expected, session->input.data + from, session->input.size - from);
}

static void expect_next(struct link_input *input, struct bytes line)
{
    struct psync_reply reply;

    switch (psync_parse(line, &reply)) {
    case PSYNC_FULL:
        CHECK(strlen(reply.id) == LINK_ID_SIZE && reply.offset >= 0 && reply.offset <= HISTORY_OFFSET_MAX);
        link_input_expect_rdb(input);
        break;
    case PSYNC_CONTINUE:
        link_input_expect_stream(input);
        break;
    default:
        break;
    }
}

static void record_event(struct link_input *input, enum link_event_kind kind, const struct link_event *event, struct buffer *out)
{
    switch (kind) {
    case LINK_EVENT_ALIVE:
        buffer_append_string(out, ".");
        break;
    case LINK_EVENT_LINE:
        CHECK(event->bytes.size > 0 && event->bytes.size <= LINK_LINE_MAX);
        buffer_append_format(out, "L%.*s;", (int)event->bytes.size, event->bytes.data);
        if (input->mode == LINK_INPUT_LINES)
            expect_next(input, event->bytes);
        break;
    case LINK_EVENT_RDB_BEGIN:
        buffer_append_format(out, "B%lld;", (long long)event->total);
        break;
    case LINK_EVENT_IMAGE_BEGIN:
        buffer_append_format(out, "I%lld;", (long long)event->total);
        break;
    case LINK_EVENT_RDB_BYTES:
    case LINK_EVENT_STREAM:
        CHECK(event->bytes.size > 0);
        buffer_append_bytes(out, event->bytes);
        break;
    case LINK_EVENT_RDB_END:
        buffer_append_string(out, "E");
        break;
    case LINK_EVENT_BAD:
        CHECK(event->problem != NULL);
        buffer_append_string(out, "!");
        break;
    case LINK_EVENT_NONE:
        break;
    }
}

/* Parses one piece. False: the input is not valid. */
static bool parse_piece(struct link_input *input, struct bytes piece, struct buffer *out)
{
    struct bytes block = fuzz_exact_copy(piece), left = block;
    enum link_event_kind kind;
    size_t calls = 0;

    do {
        struct link_event event;

        kind = link_input_next(input, &left, &event);
        record_event(input, kind, &event, out);
        CHECK(calls++ < (piece.size + 2) * LINK_MARK_SIZE);
    } while (kind != LINK_EVENT_NONE && kind != LINK_EVENT_BAD);
    CHECK(kind == LINK_EVENT_BAD || left.size == 0);
    mem_free((void *)block.data);
    return kind != LINK_EVENT_BAD;
}

static void parse(struct fuzz_input *fuzz, struct bytes bytes, size_t piece_max, struct buffer *out)
{
    struct link_input input;
    size_t at = 0;

    link_input_init(&input);
    while (at < bytes.size) {
        size_t left = bytes.size - at, size = piece_max >= left ? left : 1 + fuzz_below(fuzz, piece_max);

        size = size < left ? size : left;
        if (!parse_piece(&input, bytes_of(bytes.data + at, size), out))
            return;
        at += size;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input fuzz;
    struct session session = { 0 };
    struct buffer whole = { 0 }, pieces = { 0 };
    uint64_t mode;

    fuzz_begin(&fuzz, data, size);
    mode = fuzz_below(&fuzz, 4);
    if (mode == 0) {
        fuzz_rest(&fuzz, &session.input);
    } else {
        make_session(&fuzz, &session);
        if (mode == 3)
            fuzz_damage(&fuzz, &session.input, BYTES("\r\n$-+ab0129 :"), 4, 1 << 16);
    }
    parse(&fuzz, buffer_bytes(&session.input), SIZE_MAX, &whole);
    parse(&fuzz, buffer_bytes(&session.input), 1 + fuzz_below(&fuzz, 60), &pieces);
    CHECK(bytes_equal(buffer_bytes(&whole), buffer_bytes(&pieces)));
    if (mode == 1 || mode == 2)
        CHECK(bytes_equal(buffer_bytes(&whole), buffer_bytes(&session.expected)));
    buffer_release(&session.input);
    buffer_release(&session.expected);
    buffer_release(&whole);
    buffer_release(&pieces);
    return 0;
}

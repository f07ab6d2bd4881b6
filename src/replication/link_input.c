#include "replication/link_input.h"

#include <string.h>

#include "base/text.h"

void link_input_init(struct link_input *input)
{
    input->mode = LINK_INPUT_LINES;
    input->line_size = 0;
}

void link_input_expect_rdb(struct link_input *input)
{
    input->mode = LINK_INPUT_RDB_HEADER;
}

void link_input_expect_stream(struct link_input *input)
{
    input->mode = LINK_INPUT_STREAM;
}

static struct bytes take_bytes(struct bytes *in, size_t size)
{
    struct bytes taken = bytes_of(in->data, size);

    *in = bytes_of(in->data + size, in->size - size);
    return taken;
}

static enum link_event_kind bad(struct link_input *input, struct link_event *event, const char *problem)
{
    input->mode = LINK_INPUT_BAD;
    input->problem = event->problem = problem;
    return LINK_EVENT_BAD;
}

static enum link_event_kind next_line(struct link_input *input, struct bytes *in, struct link_event *event)
{
    const char *end = in->size > 0 ? memchr(in->data, '\n', in->size) : NULL;
    size_t size = end != NULL ? (size_t)(end - in->data) : in->size;

    if (size > sizeof(input->line) - input->line_size)
        return bad(input, event, "a line is too long");
    if (size > 0)
        memcpy(input->line + input->line_size, take_bytes(in, size).data, size);
    input->line_size += size;
    if (end == NULL)
        return LINK_EVENT_NONE;
    (void)take_bytes(in, 1);
    size = input->line_size;
    input->line_size = 0;
    if (size > 0 && input->line[size - 1] == '\r')
        size--;
    event->bytes = bytes_of(input->line, size);
    return size > 0 ? LINK_EVENT_LINE : LINK_EVENT_ALIVE;
}

static enum link_event_kind begin_rdb(struct link_input *input, enum link_input_mode mode, int64_t total, struct link_event *event)
{
    input->mode = mode;
    input->left = total > 0 ? (uint64_t)total : 0;
    input->matched = 0;
    event->total = total;
    return LINK_EVENT_RDB_BEGIN;
}

static enum link_event_kind begin_image(struct link_input *input, struct bytes length, struct link_event *event)
{
    int64_t total;

    if (!text_to_int(length, &total) || total < 0)
        return bad(input, event, "the length of the image is not valid");
    (void)begin_rdb(input, LINK_INPUT_RDB_SIZED, total, event);
    return LINK_EVENT_IMAGE_BEGIN;
}

static enum link_event_kind next_header(struct link_input *input, struct bytes *in, struct link_event *event)
{
    static const char marked[] = "$EOF:", image[] = "$IMAGE:";
    enum { MARKED = sizeof(marked) - 1, IMAGE = sizeof(image) - 1 };
    enum link_event_kind kind = next_line(input, in, event);
    struct bytes line;
    int64_t total;

    if (kind != LINK_EVENT_LINE || event->bytes.data[0] == '-')
        return kind;
    line = event->bytes;
    if (line.size == MARKED + LINK_MARK_SIZE && memcmp(line.data, marked, MARKED) == 0) {
        memcpy(input->mark, line.data + MARKED, LINK_MARK_SIZE);
        return begin_rdb(input, LINK_INPUT_RDB_MARKED, -1, event);
    }
    if (line.size > IMAGE && memcmp(line.data, image, IMAGE) == 0)
        return begin_image(input, bytes_of(line.data + IMAGE, line.size - IMAGE), event);
    if (line.data[0] != '$' || !text_to_int(bytes_of(line.data + 1, line.size - 1), &total) || total < 0)
        return bad(input, event, "the length of the RDB is not valid");
    return begin_rdb(input, LINK_INPUT_RDB_SIZED, total, event);
}

static enum link_event_kind end_rdb(struct link_input *input)
{
    link_input_expect_stream(input);
    return LINK_EVENT_RDB_END;
}

static enum link_event_kind next_sized(struct link_input *input, struct bytes *in, struct link_event *event)
{
    if (input->left == 0)
        return end_rdb(input);
    if (in->size == 0)
        return LINK_EVENT_NONE;
    event->bytes = take_bytes(in, in->size < input->left ? in->size : (size_t)input->left);
    input->left -= event->bytes.size;
    return LINK_EVENT_RDB_BYTES;
}

/* How many bytes at the end of `data` are the begin of the mark: the largest number up to `max`. */
static size_t mark_at_end(const struct link_input *input, const char *data, size_t size, size_t max)
{
    size_t count = size < max ? size : max;

    while (count > 0 && memcmp(data + size - count, input->mark, count) != 0)
        count--;
    return count;
}

/* An earlier input ended with the begin of the mark. Either it goes on, or some of it was data: these bytes are the mark's own, so they are
 * passed on from there, and what is left may be the begin of the mark again. */
static enum link_event_kind continue_mark(struct link_input *input, struct bytes *in, struct link_event *event)
{
    while (input->matched < LINK_MARK_SIZE) {
        size_t again;

        if (in->size == 0)
            return LINK_EVENT_NONE;
        if (in->data[0] != input->mark[input->matched]) {
            again = mark_at_end(input, input->mark, input->matched, input->matched - 1);
            event->bytes = bytes_of(input->mark, input->matched - again);
            input->matched = again;
            return LINK_EVENT_RDB_BYTES;
        }
        (void)take_bytes(in, 1);
        input->matched++;
    }
    return end_rdb(input);
}

/* The mark may be anywhere: a primary may send the stream right after it. */
static enum link_event_kind next_marked(struct link_input *input, struct bytes *in, struct link_event *event)
{
    const char *found;
    size_t data;

    if (input->matched > 0)
        return continue_mark(input, in, event);
    if (in->size == 0)
        return LINK_EVENT_NONE;
    found = memmem(in->data, in->size, input->mark, LINK_MARK_SIZE);
    if (found == in->data) {
        (void)take_bytes(in, LINK_MARK_SIZE);
        return end_rdb(input);
    }
    data = found != NULL ? (size_t)(found - in->data) : in->size - mark_at_end(input, in->data, in->size, LINK_MARK_SIZE - 1);
    if (data > 0) {
        event->bytes = take_bytes(in, data);
        return LINK_EVENT_RDB_BYTES;
    }
    input->matched = in->size;
    (void)take_bytes(in, in->size);
    return LINK_EVENT_NONE;
}

static enum link_event_kind next_of_stream(struct bytes *in, struct link_event *event)
{
    if (in->size == 0)
        return LINK_EVENT_NONE;
    event->bytes = take_bytes(in, in->size);
    return LINK_EVENT_STREAM;
}

enum link_event_kind link_input_next(struct link_input *input, struct bytes *in, struct link_event *event)
{
    switch (input->mode) {
    case LINK_INPUT_LINES: return next_line(input, in, event);
    case LINK_INPUT_RDB_HEADER: return next_header(input, in, event);
    case LINK_INPUT_RDB_SIZED: return next_sized(input, in, event);
    case LINK_INPUT_RDB_MARKED: return next_marked(input, in, event);
    case LINK_INPUT_STREAM: return next_of_stream(in, event);
    case LINK_INPUT_BAD: break;
    }
    return bad(input, event, input->problem);
}

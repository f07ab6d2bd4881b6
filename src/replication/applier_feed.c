#include "replication/applier_feed.h"

#include <string.h>

#include "stream/backlog.h"

enum {
    TEXT_KEPT = 1 << 20,            /* a larger buffer is freed when it is empty */
    INLINE_MAX = 64 << 10,
};

bool feed_open(struct feed *feed, struct backlog *backlog, uint64_t position, uint64_t limit)
{
    *feed = (struct feed){ .reader = backlog_attach(backlog, position), .limit = limit, .command_max = FEED_COMMAND_MAX };
    request_init(&feed->parser);
    request_init(&feed->scout);
    return feed->reader != NULL;
}

void feed_close(struct feed *feed)
{
    backlog_detach(feed->reader);
    request_release(&feed->parser);
    request_release(&feed->scout);
    buffer_release(&feed->text);
}

static enum request_result parse(const struct feed *feed, struct request_parser *parser, size_t at, size_t *size)
{
    struct request_limits limits = { (int64_t)feed->command_max, INT32_MAX, INLINE_MAX, true };
    size_t wanted;

    return request_parse(parser, &limits, feed->text.data + at, feed->text.size - at, size, &wanted);
}

static enum feed_result bad(struct feed *feed, const char *problem)
{
    feed->problem = problem;
    return FEED_BAD;
}

/* Returns whether an incomplete command takes too much memory. */
static bool is_too_large(const struct feed *feed)
{
    return feed->text.size - feed->at + request_memory(&feed->parser) + request_memory(&feed->scout) > feed->command_max;
}

enum feed_result feed_next(struct feed *feed, size_t *size)
{
    if (feed->at == feed->text.size)
        return FEED_MORE;
    if (feed->text.data[feed->at] != '*')
        return bad(feed, "Protocol error: a command does not begin with '*'");
    switch (parse(feed, &feed->parser, feed->at, size)) {
    case REQUEST_ERROR: return bad(feed, feed->parser.error);
    case REQUEST_MORE: return is_too_large(feed) ? bad(feed, "Protocol error: a command is too large") : FEED_MORE;
    case REQUEST_COMPLETE: break;
    }
    return feed->parser.arg_count > 0 ? FEED_COMMAND : bad(feed, "Protocol error: a command has no arguments");
}

void feed_pass(struct feed *feed, size_t size)
{
    feed->at += size;
}

bool feed_scout(struct feed *feed)
{
    size_t size;

    if (feed->scout_at < feed->at) {
        feed->scout_at = feed->at;
        request_restart(&feed->scout);      /* it was in the middle of a command */
    }
    if (feed->scout_at == feed->text.size || parse(feed, &feed->scout, feed->scout_at, &size) != REQUEST_COMPLETE)
        return false;
    feed->scout_at += size;
    return feed->scout.arg_count > 0;
}

static void drop(struct feed *feed)
{
    struct buffer *text = &feed->text;

    if (feed->keep == 0)
        return;
    memmove(text->data, text->data + feed->keep, text->size - feed->keep);
    text->size -= feed->keep;
    feed->at -= feed->keep;
    if (feed->scout_at < feed->keep) {
        feed->scout_at = 0;
        request_restart(&feed->scout);
    } else {
        feed->scout_at -= feed->keep;
    }
    feed->keep = 0;
    if (text->size == 0 && text->capacity > TEXT_KEPT)
        buffer_release(text);
}

enum feed_result feed_read(struct feed *feed)
{
    size_t got;

    drop(feed);
    if (backlog_read(feed->reader, buffer_reserve(&feed->text, FEED_READ_SIZE), FEED_READ_SIZE, feed->limit, &got) != BACKLOG_OK)
        return bad(feed, backlog_loss_text(backlog_reason(feed->reader).loss));
    feed->text.size += got;
    return got > 0 ? FEED_COMMAND : FEED_MORE;
}

uint64_t feed_position(const struct feed *feed)
{
    return backlog_position(feed->reader) - (feed->text.size - feed->at);
}

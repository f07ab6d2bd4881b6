/* Feeding replicas: newlines while it waits, the header, the RDB, the stream. */
#include "replication/primary_private.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/disk.h"
#include "lifecycle/full_sync.h"
#include "persist/aof_map.h"

enum {
    TRICKLE_MS = 900,
    PIECE_SIZE = 256 << 10,
    IDLE_MS = 1000,                 /* so often a newline tells one that waits that this server is alive */
};

/* A replica that waits takes empty lines for a sign of life. */
static enum replica_fill keep_alive(struct replica *replica)
{
    int64_t now_ms = primary_now_ms();

    if (now_ms - replica->fed_ms < IDLE_MS)
        return REPLICA_FILL_NOTHING;
    replica->fed_ms = now_ms;
    buffer_append(&replica->client->reply.out, "\n", 1);
    return REPLICA_FILL_SOME;
}

/* The image has been taken: from here on the stream is kept for this replica. */
static enum replica_fill announce(struct replica *replica)
{
    struct replica_sync *sync = replica->sync;
    struct history *history = &replica->primary->engine->history;

    history_drain(history);
    if (backlog_end(history_backlog(history)) < sync->point.lsn)
        return replica->is_plain ? REPLICA_FILL_NOTHING : keep_alive(replica);      /* the log has not written it yet */
    replica->reader = backlog_attach(history_backlog(history), sync->point.lsn);
    if (replica->reader == NULL)
        return primary_drop(replica, "the changes since its full synchronization began are not kept any more (repl-backlog-disk-size)");
    backlog_acknowledge(replica->reader, sync->point.lsn);
    replica->fed_ms = primary_now_ms();
    replica->state = REPLICA_RECEIVES;
    if (!replica->is_plain)
        buffer_append_format(&replica->client->reply.out, "+FULLRESYNC %s %" PRId64 "\r\n", sync->point.identity.id, sync->point.offset);
    return REPLICA_FILL_SOME;
}

static enum replica_fill wait_for_sync(struct replica *replica)
{
    struct primary *primary = replica->primary;
    bool runs;

    mutex_lock(&primary->lock);
    runs = replica->sync != NULL && replica->sync->state == SYNC_RUNS;
    mutex_unlock(&primary->lock);
    if (!runs)
        return replica->is_plain ? REPLICA_FILL_NOTHING : keep_alive(replica);
    return announce(replica);
}

static bool with_mark(const struct replica *replica)
{
    return replica->can_eof && replica->sync->may_grow;
}

/* `$EOF:` and a mark, or the length once it is known. */
static enum replica_fill write_header(struct replica *replica, const struct full_sync_view *view)
{
    struct buffer *out = &replica->client->reply.out;

    if (with_mark(replica)) {
        history_make_id(replica->mark);
        replica->has_mark = true;
        buffer_append_format(out, "$EOF:%.*s\r\n", MARK_SIZE, replica->mark);
    } else if (view->state == FULL_SYNC_DONE) {
        buffer_append_format(out, "$%" PRIu64 "\r\n", view->size);
    } else {
        return keep_alive(replica);
    }
    replica->has_header = true;
    return REPLICA_FILL_SOME;
}

static enum replica_fill send_rdb(struct replica *replica)
{
    struct full_sync_file *file = replica->sync->file;
    struct full_sync_view view = full_sync_file_look(file);
    struct buffer *out = &replica->client->reply.out;
    ssize_t got;

    if (view.state == FULL_SYNC_FAILED)
        return primary_drop(replica, full_sync_file_problem(file));
    if (replica->has_header)
        replica->fed_ms = primary_now_ms();
    if (replica->sync->is_image)
        return view.state == FULL_SYNC_DONE ? image_send(replica, full_sync_file_archive(file)) : keep_alive(replica);
    if (!replica->has_header)
        return write_header(replica, &view);
    if (view.state == FULL_SYNC_RUNNING && view.size <= replica->sent)
        return REPLICA_FILL_NOTHING;
    got = full_sync_file_read(file, buffer_reserve(out, PIECE_SIZE), PIECE_SIZE, replica->sent);
    if (got < 0)
        return primary_drop(replica, strerror(errno));
    out->size += (size_t)got;
    replica->sent += (uint64_t)got;
    if (view.state == FULL_SYNC_DONE && replica->sent >= view.size)
        return sync_end(replica);
    return got > 0 ? REPLICA_FILL_SOME : REPLICA_FILL_NOTHING;
}

/* Sends bytes that only the log's files have. They were written when the replica came, but may not be durable yet. */
static enum replica_fill send_past(struct replica *replica, uint64_t covered)
{
    struct buffer *out = &replica->client->reply.out;
    size_t got = 0;

    if (backlog_position(replica->reader) > covered)
        return REPLICA_FILL_NOTHING;
    if (!aof_past_read(replica->past, disk_system(), buffer_reserve(out, PIECE_SIZE), PIECE_SIZE, &got))
        return primary_drop(replica, "the log's files can't be read");
    out->size += got;
    if (got == 0) {
        aof_past_close(replica->past);
        replica->past = NULL;
        backlog_acknowledge(replica->reader, backlog_position(replica->reader));
    }
    return REPLICA_FILL_SOME;
}

/* As long as the log is in error nothing more is covered by it. A byte a second is sent nevertheless: a replica takes silence for a dead primary. A
 * command is complete for it only with its last byte. */
static uint64_t add_trickle(struct replica *replica, uint64_t covered)
{
    struct aof *aof = replica->primary->engine->aof;
    uint64_t position = backlog_position(replica->reader);
    int64_t now_ms = primary_now_ms();

    if (aof == NULL || aof_error(aof) == STATUS_OK || position < covered || now_ms - replica->trickled_ms < TRICKLE_MS)
        return covered;
    replica->trickled_ms = now_ms;
    return position + 1;
}

static enum replica_fill send_stream(struct replica *replica, uint64_t covered)
{
    struct buffer *out = &replica->client->reply.out;
    uint64_t end = history_handed(&replica->primary->engine->history);
    size_t got = 0;

    covered = add_trickle(replica, covered);
    if (backlog_position(replica->reader) >= (end < covered ? end : covered))
        return REPLICA_FILL_NOTHING;
    switch (backlog_read(replica->reader, buffer_reserve(out, PIECE_SIZE), PIECE_SIZE, covered, &got)) {
    case BACKLOG_OK:
        break;
    case BACKLOG_LOST:
        return primary_drop(replica, backlog_loss_text(backlog_reason(replica->reader).loss));
    }
    out->size += got;
    return got > 0 ? REPLICA_FILL_SOME : REPLICA_FILL_NOTHING;
}

static void note_input(struct replica *replica)
{
    const struct client *client = replica->client;

    if (client->totals.input == replica->heard)
        return;
    replica->heard = client->totals.input;
    replica->heard_ms = primary_now_ms();
}

bool primary_attend(struct client *client)
{
    note_input(client->replica);
    return !client->replica->dropped;
}

enum replica_fill primary_fill(struct client *client, uint64_t covered)
{
    struct replica *replica = client->replica;

    switch ((enum replica_state)replica->state) {
    case REPLICA_NEW: return REPLICA_FILL_NOTHING;
    case REPLICA_WAITS: return wait_for_sync(replica);
    case REPLICA_RECEIVES: return send_rdb(replica);
    case REPLICA_LOADS: return REPLICA_FILL_NOTHING;
    case REPLICA_ONLINE: return replica->past != NULL ? send_past(replica, covered) : send_stream(replica, covered);
    }
    return REPLICA_FILL_NOTHING;
}

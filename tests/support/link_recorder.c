#include "support/link_recorder.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"

enum { LIMIT_S = 20 };

void link_recorder_init(struct link_recorder *recorder)
{
    *recorder = (struct link_recorder){ .disk = disk_system(), .rdb_fd = -1, .progress = { .applied = 0, .synced = -1 } };
    mutex_init(&recorder->lock);
    condition_init(&recorder->changed);
}

static void close_rdb(struct link_recorder *recorder)
{
    if (recorder->rdb_fd >= 0)
        recorder->disk->close(recorder->disk->context, recorder->rdb_fd);
    recorder->rdb_fd = -1;
}

void link_recorder_release(struct link_recorder *recorder)
{
    close_rdb(recorder);
    buffer_release(&recorder->record);
    buffer_release(&recorder->stream);
    condition_release(&recorder->changed);
    mutex_release(&recorder->lock);
}

static void begin(struct link_recorder *recorder) ACQUIRE(recorder->lock);
static void begin(struct link_recorder *recorder)
{
    mutex_lock(&recorder->lock);
}

static void end(struct link_recorder *recorder) RELEASE(recorder->lock);
static void end(struct link_recorder *recorder)
{
    condition_broadcast(&recorder->changed);
    mutex_unlock(&recorder->lock);
}

static void on_position(void *context, struct link_position *position)
{
    struct link_recorder *recorder = context;

    begin(recorder);
    *position = recorder->position;
    buffer_append_string(&recorder->record, "position ");
    end(recorder);
}

static void on_state(void *context, enum link_state state)
{
    static const char *const names[] = { "waiting", "connecting", "handshake", "sync", "connected" };
    struct link_recorder *recorder = context;

    begin(recorder);
    buffer_append_format(&recorder->record, "%s ", names[state]);
    end(recorder);
}

static void on_failed(void *context, enum link_failure failure, const char *reason)
{
    static const char *const names[] = { "connect", "timeout", "closed", "auth", "refused", "is_primary", "not_yet", "protocol", "disk", "requested" };
    struct link_recorder *recorder = context;

    begin(recorder);
    buffer_append_format(&recorder->record, "failed:%s:%s| ", names[failure], reason);
    end(recorder);
}

static void on_continued(void *context, const char *id)
{
    struct link_recorder *recorder = context;

    begin(recorder);
    if (id != NULL)
        snprintf(recorder->position.id, sizeof(recorder->position.id), "%s", id);
    buffer_append_format(&recorder->record, "continued:%s ", id != NULL ? id : "same");
    end(recorder);
}

static void on_full_resync(void *context, const char *id, int64_t offset)
{
    struct link_recorder *recorder = context;

    begin(recorder);
    if (recorder->follows_stream) {
        recorder->position = (struct link_position){ .offset = offset };
        snprintf(recorder->position.id, sizeof(recorder->position.id), "%s", id);
        recorder->progress.applied = offset;
        recorder->stream.size = 0;
    }
    buffer_append_format(&recorder->record, "full:%s:%lld ", id, (long long)offset);
    end(recorder);
}

static void on_rdb_progress(void *context, uint64_t received, int64_t total)
{
    struct link_recorder *recorder = context;

    begin(recorder);
    if (recorder->record_progress)
        buffer_append_format(&recorder->record, "progress:%llu/%lld ", (unsigned long long)received, (long long)total);
    end(recorder);
}

static void on_rdb_received(void *context, int fd, uint64_t size)
{
    struct link_recorder *recorder = context;

    begin(recorder);
    close_rdb(recorder);
    recorder->rdb_fd = fd;
    buffer_append_format(&recorder->record, "rdb:%llu ", (unsigned long long)size);
    end(recorder);
}

static bool on_received(void *context, struct bytes bytes)
{
    struct link_recorder *recorder = context;
    bool taken;

    begin(recorder);
    taken = recorder->refusals == 0;
    if (taken) {
        buffer_append_bytes(&recorder->stream, bytes);
        if (recorder->follows_stream) {
            recorder->position.offset += (int64_t)bytes.size;
            recorder->progress.applied = recorder->position.offset;
        }
    } else if (recorder->refusals > 0) {
        recorder->refusals--;
    }
    end(recorder);
    return taken;
}

static void on_progress(void *context, struct link_progress *progress)
{
    struct link_recorder *recorder = context;

    begin(recorder);
    *progress = recorder->progress;
    if (recorder->is_loading)
        progress->applied = 0;
    end(recorder);
}

struct link_host link_recorder_host(struct link_recorder *recorder)
{
    return (struct link_host){
        .context = recorder, .position = on_position, .state_changed = on_state, .failed = on_failed, .continued = on_continued,
        .full_resync = on_full_resync, .rdb_progress = on_rdb_progress, .rdb_received = on_rdb_received, .received = on_received,
        .progress = on_progress,
    };
}

static struct timespec limit(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += LIMIT_S;
    return at;
}

static void wait_more(struct link_recorder *recorder, const struct timespec *deadline, const char *wanted) REQUIRES(recorder->lock);
static void wait_more(struct link_recorder *recorder, const struct timespec *deadline, const char *wanted)
{
    if (condition_wait_until(&recorder->changed, &recorder->lock, deadline))
        return;
    fprintf(stderr, "wanted: %s\nrecord: %.*s\nstream: %zu bytes\n", wanted, (int)recorder->record.size, recorder->record.data,
        recorder->stream.size);
    CHECK(false);
}

void link_recorder_expect(struct link_recorder *recorder, const char *text)
{
    struct timespec deadline = limit();
    char *found;

    mutex_lock(&recorder->lock);
    for (;;) {
        found = recorder->record.size > 0 ? memmem(recorder->record.data, recorder->record.size, text, strlen(text)) : NULL;
        if (found != NULL)
            break;
        wait_more(recorder, &deadline, text);
    }
    found += strlen(text);
    recorder->record.size -= (size_t)(found - recorder->record.data);
    memmove(recorder->record.data, found, recorder->record.size);
    mutex_unlock(&recorder->lock);
}

void link_recorder_expect_exactly(struct link_recorder *recorder, const char *text)
{
    mutex_lock(&recorder->lock);
    if (!bytes_equal(buffer_bytes(&recorder->record), bytes_of_string(text))) {
        fprintf(stderr, "wanted: %s\nrecord: %.*s\n", text, (int)recorder->record.size, recorder->record.data);
        CHECK(false);
    }
    recorder->record.size = 0;
    mutex_unlock(&recorder->lock);
}

void link_recorder_expect_stream(struct link_recorder *recorder, size_t size)
{
    struct timespec deadline = limit();

    mutex_lock(&recorder->lock);
    while (recorder->stream.size < size)
        wait_more(recorder, &deadline, "more of the stream");
    mutex_unlock(&recorder->lock);
}

void link_recorder_set_position(struct link_recorder *recorder, const char *id, int64_t offset, bool failover)
{
    begin(recorder);
    recorder->position = (struct link_position){ .offset = offset, .failover = failover };
    snprintf(recorder->position.id, sizeof(recorder->position.id), "%s", id);
    end(recorder);
}

void link_recorder_set_progress(struct link_recorder *recorder, int64_t applied, int64_t synced)
{
    begin(recorder);
    recorder->progress = (struct link_progress){ .applied = applied, .synced = synced };
    end(recorder);
}

void link_recorder_set_refusals(struct link_recorder *recorder, int refusals)
{
    begin(recorder);
    recorder->refusals = refusals;
    end(recorder);
}

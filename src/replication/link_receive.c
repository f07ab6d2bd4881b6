/* Receiving after the handshake: an RDB or an image, which goes to files, and the stream, which goes to the host; and its ACKs. */
#include "replication/link_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "base/tree.h"
#include "persist/archive.h"

enum { ACK_US = 1000000, PROGRESS_US = 100000, FULL_US = 10000 };

/* The RDB's file */

static bool fail_file(struct link *link)
{
    return link_fail(link, LINK_FAILED_DISK, "the RDB can't be written to %s: %s", link->settings->dir, strerror(errno));
}

/* A name that is left from a crash, between open and unlink, is taken over. */
static bool open_file(struct link *link)
{
    const struct disk *disk = link->settings->disk;
    struct buffer path = { 0 };

    buffer_append_format(&path, "%s/temp-%d.link.rdb", link->settings->dir, (int)getpid());
    buffer_append_u8(&path, '\0');
    (void)disk->unlink(disk->context, AT_FDCWD, path.data);
    link->rdb_fd = file_open(disk, AT_FDCWD, path.data, O_RDWR | O_CREAT | O_EXCL);
    if (link->rdb_fd >= 0)
        (void)disk->unlink(disk->context, AT_FDCWD, path.data);
    buffer_release(&path);
    return link->rdb_fd >= 0 || fail_file(link);
}

static void close_file(struct link *link)
{
    const struct disk *disk = link->settings->disk;

    if (link->rdb_fd >= 0)
        disk->close(disk->context, link->rdb_fd);
    link->rdb_fd = -1;
}

static void report_progress(struct link *link)
{
    link->rdb_reported_us = clock_mono_us();
    link->host.rdb_progress(link->host.context, link->rdb_received, link->rdb_total);
}

static bool begin_rdb(struct link *link, int64_t total)
{
    link->step = "receiving the RDB";
    link->rdb_received = 0;
    link->rdb_total = total;
    report_progress(link);
    return open_file(link);
}

/* The image's files */

static bool begin_image(struct link *link, int64_t total)
{
    link->step = "receiving the image";
    if (link->settings->image_offer[0] == '\0')
        return link_fail(link, LINK_FAILED_PROTOCOL, "none was asked for");
    link->rdb_received = 0;
    link->rdb_total = total;
    report_progress(link);
    tree_remove(link->settings->image_dir);
    link->image = archive_receiver_create(link->settings->disk, link->settings->image_dir);
    return true;
}

static bool write_image(struct link *link, struct bytes bytes)
{
    struct message problem = { "" };

    switch (archive_receive(link->image, bytes, &problem)) {
    case STATUS_OK: return true;
    case STATUS_NO_SPACE:           /* an RDB takes less */
    case STATUS_CORRUPT:
    case STATUS_VERSION: return link_fail(link, LINK_FAILED_IMAGE, "%s", problem.text);
    default: return link_fail(link, LINK_FAILED_DISK, "%s", problem.text);
    }
}

static bool end_image(struct link *link)
{
    if (!archive_receiver_is_complete(link->image))
        return link_fail(link, LINK_FAILED_IMAGE, "the image ends early");
    archive_receiver_destroy(link->image);
    link->image = NULL;
    link->host.image_received(link->host.context, link->rdb_received);
    return true;
}

/* Removes the received part of an image that is not complete. */
static void drop_image(struct link *link)
{
    if (link->image == NULL)
        return;
    archive_receiver_destroy(link->image);
    link->image = NULL;
    tree_remove(link->settings->image_dir);
}

/* Either */

static bool write_file(struct link *link, struct bytes bytes)
{
    return file_write_all(link->settings->disk, link->rdb_fd, bytes) == STATUS_OK || fail_file(link);
}

static bool write_rdb(struct link *link, struct bytes bytes)
{
    if (!(link->image != NULL ? write_image(link, bytes) : write_file(link, bytes)))
        return false;
    link->rdb_received += bytes.size;
    if (link->active_us - link->rdb_reported_us >= PROGRESS_US)
        report_progress(link);
    return true;
}

static void begin_stream(struct link *link)
{
    link->step = "receiving the stream";
    link->ack_us = link->active_us;
    link_set_state(link, LINK_CONNECTED);
}

static bool end_file(struct link *link)
{
    int fd = link->rdb_fd;

    if (lseek(fd, 0, SEEK_SET) != 0)
        return fail_file(link);
    link->rdb_fd = -1;
    link->host.rdb_received(link->host.context, fd, link->rdb_received);
    return true;
}

static bool end_rdb(struct link *link)
{
    report_progress(link);
    if (!(link->image != NULL ? end_image(link) : end_file(link)))
        return false;
    begin_stream(link);
    return true;
}

/* ACKs */

static void add_number(struct buffer *request, const char *word, int64_t number)
{
    char digits[TEXT_INT_SIZE];
    size_t size = text_of_int(number, digits);

    buffer_append_format(request, "$%zu\r\n%s\r\n$%zu\r\n%.*s\r\n", strlen(word), word, size, (int)size, digits);
}

static enum wire_result write_ack(struct link *link)
{
    struct buffer request = { 0 };
    struct link_progress progress = { .synced = -1 };
    enum wire_result result;

    link->host.progress(link->host.context, &progress);
    buffer_append_format(&request, "*%d\r\n$8\r\nREPLCONF\r\n", progress.synced >= 0 ? 5 : 3);
    add_number(&request, "ACK", progress.applied);
    if (progress.synced >= 0)
        add_number(&request, "FACK", progress.synced);
    result = wire_write(&link->wire, buffer_bytes(&request));
    buffer_release(&request);
    return result;
}

/* While the primary does not read, one is enough: the next one says more. */
static bool send_ack(struct link *link)
{
    enum wire_result result = wire_flush(&link->wire);

    if (result == WIRE_OK && !wire_has_output(&link->wire)) {
        result = write_ack(link);
        if (result == WIRE_OK)
            result = wire_flush(&link->wire);
    }
    return result == WIRE_OK || link_fail_wire(link, result);
}

static bool send_due_ack(struct link *link)
{
    int64_t now_us;

    if (link->ack_us == INT64_MAX)
        return true;
    now_us = clock_mono_us();
    if (atomic_exchange(&link->ack_now, false))
        link->asked_us = now_us;
    else if (now_us < link->ack_us)
        return true;
    link->ack_us = now_us + ACK_US;
    return send_ack(link);
}

/* The stream */

/* Offers the bytes until the host takes them. Meanwhile the primary may be silent: it is this side that does not read. */
static bool deliver_stream(struct link *link, struct bytes bytes)
{
    while (!link->host.received(link->host.context, bytes)) {
        int64_t now_us = clock_mono_us();

        if (link_wait(link, -1, 0, now_us, now_us + FULL_US) == LINK_WAIT_BROKEN || !send_due_ack(link))
            return false;
        link->active_us = clock_mono_us();
    }
    return true;
}

static bool handle_event(struct link *link, enum link_event_kind kind, const struct link_event *event)
{
    switch (kind) {
    case LINK_EVENT_RDB_BEGIN: return begin_rdb(link, event->total);
    case LINK_EVENT_IMAGE_BEGIN: return begin_image(link, event->total);
    case LINK_EVENT_RDB_BYTES: return write_rdb(link, event->bytes);
    case LINK_EVENT_RDB_END: return end_rdb(link);
    case LINK_EVENT_STREAM: return deliver_stream(link, event->bytes);
    case LINK_EVENT_LINE:
        return link_fail(link, LINK_FAILED_REFUSED, "%.*s", (int)event->bytes.size - 1, event->bytes.data + 1);
    case LINK_EVENT_BAD: return link_fail(link, LINK_FAILED_PROTOCOL, "%s", event->problem);
    case LINK_EVENT_ALIVE:
    case LINK_EVENT_NONE: break;
    }
    return true;
}

static bool handle_unread(struct link *link)
{
    enum link_event_kind kind;

    do {
        struct link_event event;

        kind = link_input_next(&link->input, &link->unread, &event);
        if (!handle_event(link, kind, &event))
            return false;
    } while (kind != LINK_EVENT_NONE);
    return true;
}

static bool receive_more(struct link *link)
{
    switch (link_fill(link, link->active_us, link->ack_us)) {
    case LINK_WAIT_READY:
        link->active_us = clock_mono_us();
        return handle_unread(link);
    case LINK_WAIT_TICK:
        return true;
    case LINK_WAIT_BROKEN:
        break;
    }
    return false;
}

void link_receive(struct link *link)
{
    link->active_us = clock_mono_us();
    if (link->input.mode == LINK_INPUT_STREAM) {
        begin_stream(link);
    } else {
        link->step = "waiting for the RDB";
        link_set_state(link, LINK_SYNC);
    }
    while (send_due_ack(link) && receive_more(link))
        ;
    close_file(link);
    drop_image(link);
}

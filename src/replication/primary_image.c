/* A full synchronization by image: what its replicas are sent. */
#include "replication/primary_private.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "persist/archive.h"

enum { PIECE_SIZE = 256 << 10 };

static enum replica_fill begin_archive(struct replica *replica, struct archive *archive)
{
    replica->image = archive_reader_create(archive);
    replica->has_header = true;
    buffer_append_format(&replica->client->reply.out, "$IMAGE:%" PRIu64 "\r\n", archive_size(archive));
    return REPLICA_FILL_SOME;
}

enum replica_fill image_send(struct replica *replica, struct archive *archive)
{
    struct buffer *out = &replica->client->reply.out;
    ssize_t got;

    if (replica->image == NULL)
        return begin_archive(replica, archive);
    got = archive_read(replica->image, buffer_reserve(out, PIECE_SIZE), PIECE_SIZE);
    if (got < 0)
        return primary_drop(replica, strerror(errno));
    out->size += (size_t)got;
    replica->sent += (uint64_t)got;
    if (replica->sent < archive_size(archive))
        return REPLICA_FILL_SOME;
    archive_reader_destroy(replica->image);
    replica->image = NULL;
    return sync_end(replica);
}

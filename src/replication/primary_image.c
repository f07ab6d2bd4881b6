/* A full synchronization by image: what its replicas are sent. */
#include "replication/primary_private.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "persist/archive.h"

enum { PIECE_SIZE = 256 << 10 };

bool image_is_for(const struct replica *replica)
{
    const struct config *config = replica->primary->engine->config;

    return replica->can_image && !replica->rdb_only && !replica->without_keys && !replica->without_functions && !replica->is_plain &&
           config_number(config, CONFIG_REPL_IMAGE_SYNC) != 0;
}

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
        return feed_fail(replica, strerror(errno));
    out->size += (size_t)got;
    replica->sent += (uint64_t)got;
    if (replica->sent < archive_size(archive))
        return REPLICA_FILL_SOME;
    archive_reader_destroy(replica->image);
    replica->image = NULL;
    return feed_end_sync(replica);
}

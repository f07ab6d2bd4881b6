/* Connection, private: what its files share. All on its loop's thread. */
#ifndef KELVIN_NET_CONNECTION_PRIVATE_H
#define KELVIN_NET_CONNECTION_PRIVATE_H

#include "net/connection.h"

/* connection_input.c */
void connection_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer);
void connection_on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer);
/* About once a second. */
void connection_check_input(struct connection *connection);
/* It has been idle: gives memory back. */
void connection_trim_input(struct connection *connection);

/* connection_output.c */
void connection_check_output(struct connection *connection);        /* client-output-buffer-limit: may close it */
void connection_check_stalled(struct connection *connection);       /* about once a second */
void connection_trim_output(struct connection *connection);
/* Its output waits for the log. */
bool connection_waits_for_log(const struct connection *connection);
/* Bytes of replies that are not sent yet. */
static inline uint64_t connection_output_pending(const struct connection *connection)
{
    return reply_size(&connection->client.reply) + connection->writing_size - connection->written;
}

/* connection.c. After anything that may have changed what it takes: closes clients, perhaps this one, when all of them together take too
 * much (engine/client_memory.h). */
void connection_count_memory(struct connection *connection);
void connection_free_if_done(struct connection *connection);

#endif

/* Server, private: what its files share. */
#ifndef KELVIN_SERVER_SERVER_PRIVATE_H
#define KELVIN_SERVER_SERVER_PRIVATE_H

#include <uv.h>

#include "base/message.h"
#include "engine/engine.h"
#include "net/loop.h"
#include "server/descriptors.h"
#include "server/server.h"

struct server {
    struct engine engine;
    struct loop **loops;
    int loop_count;
    struct listener *listener;
    struct descriptors descriptors;
    uv_signal_t on_term, on_int;
    uv_async_t loaded, ended;
    uv_thread_t loader;
    bool loading;                   /* the replay's thread is to be joined */
    enum status load_status;
    char *image;                    /* path of the log's base, a checkpoint's image; NULL: none */
    char *dump;                     /* path of the dump to load, without a log; NULL: none */
    struct message load_message;
    int64_t load_began_us;
    _Atomic int exit_status;
    _Atomic bool stopping;
};

/* server_open.c. The data is opened, in this order; each returns false after having logged why. */

/* --restore: what a backup holds becomes this directory's data, before anything looks at it. */
bool server_restore_backup(struct server *server, const char *from);
/* Finds image and dump, too. */
bool server_open_aof(struct server *server);
/* Hands out the store's seed. */
bool server_open_tier(struct server *server, struct hash_seed *seed);
/* What the image, if there is one, holds becomes the data, cold; the log's increments follow. The tier has been started. */
bool server_restore_image(struct server *server);

#endif

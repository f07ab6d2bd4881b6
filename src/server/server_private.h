/* Server, private: what its files share. */
#ifndef KELVIN_SERVER_SERVER_PRIVATE_H
#define KELVIN_SERVER_SERVER_PRIVATE_H

#include <uv.h>

#include "base/message.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "lifecycle/import.h"
#include "lifecycle/opening.h"
#include "net/loop.h"
#include "server/descriptors.h"
#include "server/server.h"

struct server {
    struct engine engine;
    struct loop **loops;
    int loop_count;
    struct tls *tls;
    struct listener *listener;
    struct descriptors descriptors;
    uv_signal_t on_term, on_int;
    uv_async_t loaded, ended;
    struct thread loader;           /* of the replay */
    enum status load_status;
    struct opening opening;
    struct message load_message;
    struct import_result imported;      /* of the dump, if that was loaded */
    int64_t load_began_us;
    _Atomic int exit_status;
    _Atomic bool stopping;
};

#endif

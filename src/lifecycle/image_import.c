#include "lifecycle/image_import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "persist/rdb_save.h"

enum { NAME_SIZE = 64 };

struct passing {
    struct engine *engine;
    struct rdb_save_progress progress;
};

static void end_with_server(void *context, uint64_t size)
{
    struct passing *passing = context;

    (void)size;
    if (passing->engine->state == ENGINE_STOPPING)
        passing->progress.cancel = true;
}

/* Returns the descriptor of a file without a name. Below 0: `message` says why there is none. */
static int open_nameless(struct message *message)
{
    char name[NAME_SIZE];
    int fd;

    snprintf(name, sizeof(name), "temp-%d.image", (int)getpid());
    fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && unlink(name) == 0)
        return fd;
    message_set(message, "Can't create '%s': %s", name, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

enum status image_import(struct engine *engine, const char *image, const struct import_rules *rules, struct message *message)
{
    struct passing passing = { .engine = engine };
    struct rdb_save_options options = { .image = image, .without_checksum = true, .with_freq = true, .grown = end_with_server, .context = &passing };
    struct import_result result;
    enum status status;

    options.fd = open_nameless(message);
    if (options.fd < 0)
        return status_of_errno(errno);
    status = rdb_save(&options, &passing.progress, message);
    if (status == STATUS_OK && lseek(options.fd, 0, SEEK_SET) != 0)
        status = status_of_errno(errno);
    if (status == STATUS_OK)
        status = import_rdb(engine, options.fd, rules, NULL, NULL, &result, message);
    close(options.fd);
    return status;
}

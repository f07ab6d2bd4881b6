/* An engine on the caller's thread, without tier, log, sockets and server: one or two workers, in a turn. What a test needs besides (hooks,
 * callbacks of the workers, more parts of the engine) it sets itself after engine_box_open.
 */
#ifndef KELVIN_SUPPORT_ENGINE_BOX_H
#define KELVIN_SUPPORT_ENGINE_BOX_H

#include "call/command.h"
#include "engine/engine.h"

enum { ENGINE_BOX_WORKERS = 2, ENGINE_BOX_WORDS = 64 };

struct engine_box {
    struct engine engine;
    struct worker workers[ENGINE_BOX_WORKERS];
    struct worker *worker_list[ENGINE_BOX_WORKERS];
};

/* `families` ends with NULL. The hooks note events and free values at once; the workers' callbacks do nothing. */
void engine_box_open(struct engine_box *box, const struct command *const *families, int worker_count);
/* After the clients have been removed. Destroys the hub, too, if the caller has given the engine one. */
void engine_box_close(struct engine_box *box);

/* The client's memory is the caller's. */
void engine_box_add(struct engine_box *box, int worker, struct client *client, uint64_t id, uint32_t flags);
void engine_box_remove(struct client *client);

/* Splits at single spaces; the words point into the line. Returns their number. */
int engine_box_split(const char *line, struct bytes words[ENGINE_BOX_WORDS]);

#endif

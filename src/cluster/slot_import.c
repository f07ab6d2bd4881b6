#include "cluster/slot_import.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/random.h"
#include "cluster/cluster.h"
#include "cluster/peer_link.h"
#include "cluster/slot_words.h"

enum {
    TASKS_MAX = 64,
    LINK_MS = 5000,
    REPLY_SIZE = 512,
};

#define NO_SUCH_MIGRATION "-NOSUCHMIGRATION "

struct slot_import {
    struct engine *engine;
    struct cluster *cluster;
    struct mutex lock;              /* guards what follows */
    struct random random;
    struct slot_import_task tasks[TASKS_MAX];   /* the oldest first */
    int count;
};

struct slot_import *slot_import_create(struct engine *engine, struct cluster *cluster)
{
    struct slot_import *import = mem_zalloc(sizeof(*import));
    uint64_t seed;

    import->engine = engine;
    import->cluster = cluster;
    random_system(&seed, sizeof(seed));
    random_init(&import->random, seed);
    mutex_init(&import->lock);
    return import;
}

void slot_import_destroy(struct slot_import *import)
{
    if (import == NULL)
        return;
    mutex_release(&import->lock);
    mem_free(import);
}

/* --- The list --- */

static struct slot_import_task *find_task(struct slot_import *import, const char *name) REQUIRES(import->lock);
static struct slot_import_task *find_task(struct slot_import *import, const char *name)
{
    for (int i = 0; i < import->count; i++) {
        if (strcmp(import->tasks[i].name, name) == 0)
            return &import->tasks[i];
    }
    return NULL;
}

static void set_state(struct slot_import *import, const char *name, enum slot_export_state state, const char *text)
{
    struct slot_import_task *task;

    mutex_lock(&import->lock);
    task = find_task(import, name);
    if (task != NULL && !slot_export_has_ended(task->state)) {
        task->state = state;
        message_set(&task->message, "%s", text);
        if (slot_export_has_ended(state))
            task->ended_ms = clock_wall_ms();
    }
    mutex_unlock(&import->lock);
}

static void remove_at(struct slot_import *import, int at) REQUIRES(import->lock);
static void remove_at(struct slot_import *import, int at)
{
    import->count--;
    memmove(&import->tasks[at], &import->tasks[at + 1], (size_t)(import->count - at) * sizeof(import->tasks[0]));
}

static void forget_task(struct slot_import *import, const char *name)
{
    struct slot_import_task *task;

    mutex_lock(&import->lock);
    task = find_task(import, name);
    if (task != NULL)
        remove_at(import, (int)(task - import->tasks));
    mutex_unlock(&import->lock);
}

/* False: there is no room, as none has ended. */
static bool make_room(struct slot_import *import) REQUIRES(import->lock);
static bool make_room(struct slot_import *import)
{
    for (int i = 0; i < import->count && import->count == TASKS_MAX; i++) {
        if (slot_export_has_ended(import->tasks[i].state))
            remove_at(import, i);
    }
    return import->count < TASKS_MAX;
}

/* The first range that another task, which has not ended, has some of. */
static bool find_overlap(const struct slot_import *import, const struct slots *slots, struct slot_range *range) REQUIRES(import->lock);
static bool find_overlap(const struct slot_import *import, const struct slots *slots, struct slot_range *range)
{
    for (int i = 0; i < import->count; i++) {
        const struct slot_import_task *task = &import->tasks[i];

        if (slot_export_has_ended(task->state) || !slots_overlap(&task->slots, slots))
            continue;
        for (unsigned at = 0; slots_next(slots, at, range); at = range->last + 1U) {
            struct slots one = { { 0 } };

            slots_add_range(&one, *range);
            if (slots_overlap(&one, &task->slots))
                return true;
        }
    }
    return false;
}

static bool add_task(struct slot_import *import, const struct slots *slots, const struct node_id *from, struct slot_import_task *task, struct message *message)
{
    struct slot_range range;
    struct node_id name;

    *task = (struct slot_import_task){ .slots = *slots, .from = *from, .state = EXPORT_QUEUED, .created_ms = clock_wall_ms() };
    mutex_lock(&import->lock);
    if (find_overlap(import, slots, &range))
        message_set(message, "overlapping import exists for slot range: %u-%u", range.first, range.last);
    else if (!make_room(import))
        message_set(message, "too many imports have not ended");
    if (message_is_empty(message)) {
        node_id_make(&import->random, &name);
        snprintf(task->name, sizeof(task->name), "%.40s", name.text);
        import->tasks[import->count++] = *task;
    }
    mutex_unlock(&import->lock);
    return message_is_empty(message);
}

int slot_import_list(struct slot_import *import, struct slot_import_task **tasks)
{
    int count;

    *tasks = mem_alloc(TASKS_MAX * sizeof(**tasks));
    mutex_lock(&import->lock);
    count = import->count;
    for (int i = 0; i < count; i++)
        (*tasks)[i] = import->tasks[count - 1 - i];
    mutex_unlock(&import->lock);
    return count;
}

/* --- Asking the owner --- */

static bool ask_owner(struct slot_import *import, const struct slot_import_task *task, const struct bytes *words, int count, char *reply, struct message *message)
{
    struct peer_link peer;
    bool is_good;

    peer_link_init(&peer, import->engine, import->cluster, &task->from, "the owner of the slots");
    is_good = peer_link_open(&peer, LINK_MS) && peer_link_ask(&peer, words, count, reply, REPLY_SIZE);
    peer_link_close(&peer);
    *message = peer.message;
    return is_good;
}

/* The tasks of one command, and what became of asking their owners. */
struct round {
    struct slot_import_task *tasks;
    int count;
    bool is_silent[TASKS_MAX];      /* its owner has not replied; the task's message says why */
};

static void begin_round(struct slot_import *import, struct round *round)
{
    *round = (struct round){ .count = 0 };
    round->count = slot_import_list(import, &round->tasks);
}

static const struct slot_import_task *find_silent(const struct round *round, const struct node_id *owner)
{
    for (int i = 0; i < round->count; i++) {
        if (round->is_silent[i] && node_id_equal(&round->tasks[i].from, owner))
            return &round->tasks[i];
    }
    return NULL;
}

/* An owner that has not replied in this round is not asked again: each time would take seconds. False: no reply (an empty one), or an error. */
static bool ask_of(struct slot_import *import, struct round *round, int at, struct bytes verb, char *reply, struct message *message)
{
    struct slot_import_task *task = &round->tasks[at];
    const struct slot_import_task *silent = find_silent(round, &task->from);
    struct bytes words[] = { BYTES("CLUSTER"), BYTES("RECEIVESLOTS"), verb, bytes_of_string(task->name) };

    reply[0] = '\0';
    if (silent != NULL) {
        *message = silent->message;
        return false;
    }
    if (ask_owner(import, task, words, 4, reply, message))
        return true;
    round->is_silent[at] = reply[0] == '\0';
    task->message = *message;
    return false;
}

/* Who has the slots, by the topology. OWNER_LOST: the node that was asked has failed, or is not known any more. */
enum whereabouts { AT_OWNER, AT_MYSELF, ELSEWHERE, OWNER_LOST };

static enum whereabouts find_slots(const struct slot_import *import, const struct slot_import_task *task)
{
    struct topology *topology = cluster_topology(import->cluster);
    bool are_mine = true, are_of_owner = true, is_lost = true;
    struct slot_range range;

    for (int i = 0; i < topology->count; i++) {
        if (node_id_equal(&topology->nodes[i].id, &task->from))
            is_lost = topology->nodes[i].flags & NODE_FAIL;
    }
    for (unsigned at = 0; slots_next(&task->slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            int owner = topology->owners[slot];

            are_mine &= owner == topology->myself;
            are_of_owner &= owner >= 0 && node_id_equal(&topology->nodes[owner].id, &task->from);
        }
    }
    topology_release(topology);
    if (are_mine)
        return AT_MYSELF;
    return is_lost ? OWNER_LOST : are_of_owner ? AT_OWNER : ELSEWHERE;
}

/* The reply is "+state message". An error that begins with its code: there is no such job, as after a restart of the owner. */
static void ask_for_state(struct slot_import *import, struct round *round, int at, bool are_of_owner)
{
    const struct slot_import_task *task = &round->tasks[at];
    struct message message = { "" };
    char reply[REPLY_SIZE], *text;
    enum slot_export_state state = task->state;
    bool is_known = ask_of(import, round, at, BYTES("STATE"), reply, &message);

    text = strchr(reply, ' ');
    if (is_known && text != NULL) {
        *text++ = '\0';
        if (slot_export_state_find(reply + 1, &state))
            set_state(import, task->name, state, text);
    } else if (!is_known && (strncmp(reply, NO_SUCH_MIGRATION, strlen(NO_SUCH_MIGRATION)) == 0 || !are_of_owner)) {
        set_state(import, task->name, EXPORT_FAILED, message.text);
    } else if (!is_known) {
        set_state(import, task->name, task->state, message.text);
    }
}

static void refresh_task(struct slot_import *import, struct round *round, int at)
{
    const struct slot_import_task *task = &round->tasks[at];
    enum whereabouts whereabouts = find_slots(import, task);

    if (whereabouts == AT_MYSELF)
        set_state(import, task->name, EXPORT_SUCCESS, "");
    else if (whereabouts == OWNER_LOST)
        set_state(import, task->name, EXPORT_FAILED, "the owner of the slots has failed, or was forgotten");
    else
        ask_for_state(import, round, at, whereabouts == AT_OWNER);
}

/* That of this name, or all if NULL, and only if they have not ended. */
static bool is_wanted(const struct slot_import_task *task, const char *name)
{
    return !slot_export_has_ended(task->state) && (name == NULL || strcmp(name, task->name) == 0);
}

void slot_import_refresh(struct slot_import *import, const char *name)
{
    struct round round;

    begin_round(import, &round);
    for (int i = 0; i < round.count; i++) {
        if (is_wanted(&round.tasks[i], name))
            refresh_task(import, &round, i);
    }
    mem_free(round.tasks);
}

int slot_import_cancel(struct slot_import *import, const char *name, struct message *message)
{
    struct round round;
    char reply[REPLY_SIZE];
    int cancelled = 0;

    begin_round(import, &round);
    for (int i = 0; i < round.count; i++) {
        if (is_wanted(&round.tasks[i], name) && ask_of(import, &round, i, BYTES("CANCEL"), reply, message) && reply[1] == '1')
            cancelled++;
    }
    mem_free(round.tasks);
    return cancelled;
}

/* --- Beginning --- */

static void own_id_of(const struct slot_import *import, char id[NODE_ID_SIZE + 1])
{
    struct topology *topology = cluster_topology(import->cluster);

    snprintf(id, NODE_ID_SIZE + 1, "%.40s", topology->nodes[topology->myself].id.text);
    topology_release(topology);
}

/* The tasks that are in the way may have ended since their owners were asked last. */
static bool add_after_refresh(struct slot_import *import, const struct slots *slots, const struct node_id *from, struct slot_import_task *task,
                              struct message *message)
{
    struct round round;
    bool is_full;

    begin_round(import, &round);
    is_full = round.count == TASKS_MAX;
    for (int i = 0; i < round.count; i++) {
        if (is_wanted(&round.tasks[i], NULL) && (is_full || slots_overlap(&round.tasks[i].slots, slots)))
            refresh_task(import, &round, i);
    }
    mem_free(round.tasks);
    *message = (struct message){ "" };
    return add_task(import, slots, from, task, message);
}

bool slot_import_begin(struct slot_import *import, const struct slots *slots, const struct node_id *from, char *name, struct message *message)
{
    struct slot_import_task task;
    struct slot_words words;
    char own_id[NODE_ID_SIZE + 1], reply[REPLY_SIZE];
    bool is_good;

    if (!add_task(import, slots, from, &task, message) && !add_after_refresh(import, slots, from, &task, message))
        return false;
    own_id_of(import, own_id);
    slot_words_init(&words);
    slot_words_add(&words, BYTES("CLUSTER"));
    slot_words_add(&words, BYTES("RECEIVESLOTS"));
    slot_words_add(&words, BYTES("REQUEST"));
    slot_words_add(&words, bytes_of_string(task.name));
    slot_words_add(&words, bytes_of_string(own_id));
    slot_words_add_slots(&words, slots);
    is_good = ask_owner(import, &task, words.words, words.count, reply, message);
    slot_words_release(&words);
    if (is_good)
        memcpy(name, task.name, sizeof(task.name));
    else
        forget_task(import, task.name);
    return is_good;
}

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

static bool ask_of(struct slot_import *import, const struct slot_import_task *task, struct bytes verb, char *reply, struct message *message)
{
    struct bytes words[] = { BYTES("CLUSTER"), BYTES("RECEIVESLOTS"), verb, bytes_of_string(task->name) };

    return ask_owner(import, task, words, 4, reply, message);
}

static void own_id_of(const struct slot_import *import, char id[NODE_ID_SIZE + 1])
{
    struct topology *topology = cluster_topology(import->cluster);

    snprintf(id, NODE_ID_SIZE + 1, "%.40s", topology->nodes[topology->myself].id.text);
    topology_release(topology);
}

bool slot_import_begin(struct slot_import *import, const struct slots *slots, const struct node_id *from, char *name, struct message *message)
{
    struct slot_import_task task;
    struct slot_words words;
    char own_id[NODE_ID_SIZE + 1], reply[REPLY_SIZE];
    bool is_good;

    slot_import_refresh(import);
    if (!add_task(import, slots, from, &task, message))
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
static void ask_for_state(struct slot_import *import, const struct slot_import_task *task, bool are_of_owner)
{
    struct message message = { "" };
    char reply[REPLY_SIZE] = "", *text;
    enum slot_export_state state = task->state;
    bool is_known = ask_of(import, task, BYTES("STATE"), reply, &message);

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

static void refresh_task(struct slot_import *import, const struct slot_import_task *task)
{
    enum whereabouts whereabouts = find_slots(import, task);

    if (whereabouts == AT_MYSELF)
        set_state(import, task->name, EXPORT_SUCCESS, "");
    else if (whereabouts == OWNER_LOST)
        set_state(import, task->name, EXPORT_FAILED, "the owner of the slots has failed, or was forgotten");
    else
        ask_for_state(import, task, whereabouts == AT_OWNER);
}

void slot_import_refresh(struct slot_import *import)
{
    struct slot_import_task *tasks;
    int count = slot_import_list(import, &tasks);

    for (int i = 0; i < count; i++) {
        if (!slot_export_has_ended(tasks[i].state))
            refresh_task(import, &tasks[i]);
    }
    mem_free(tasks);
}

int slot_import_cancel(struct slot_import *import, const char *name, struct message *message)
{
    struct slot_import_task *tasks;
    int count = slot_import_list(import, &tasks), cancelled = 0;
    char reply[REPLY_SIZE];

    for (int i = 0; i < count; i++) {
        if (slot_export_has_ended(tasks[i].state) || (name != NULL && strcmp(name, tasks[i].name) != 0))
            continue;
        if (ask_of(import, &tasks[i], BYTES("CANCEL"), reply, message) && reply[1] == '1')
            cancelled++;
    }
    mem_free(tasks);
    return cancelled;
}

/* Command: one row of the command table. Everything about a command derives from its row: arity, flags, ACL categories, which
 * arguments are keys and what is done to them (and from that locking, residency and propagation), COMMAND and COMMAND DOCS.
 *
 * Rows are written in .def files; commands/README.md describes them, and the language of their last field, the arguments:
 *
 *   COMMAND("get", get_command, 2, COMMAND_READONLY | COMMAND_FAST, CAT_STRING,
 *       KEYS(KEY_AT(1, KEY_RO | KEY_ACCESS)),
 *       "string", "1.0.0", "O(1)", "Returns the value of a string.", "key:key")
 *
 *   CONTAINER("client", "connection", "2.4.0", "Commands about clients.")
 */
#ifndef KELVIN_CALL_COMMAND_H
#define KELVIN_CALL_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct call;

enum command_flag {
    COMMAND_WRITE = 1 << 0,
    COMMAND_READONLY = 1 << 1,
    COMMAND_DENYOOM = 1 << 2,           /* refused or delayed when memory is over the limit */
    COMMAND_ADMIN = 1 << 3,
    COMMAND_PUBSUB = 1 << 4,
    COMMAND_NOSCRIPT = 1 << 5,
    COMMAND_BLOCKING = 1 << 6,
    COMMAND_LOADING = 1 << 7,           /* allowed while the data is being loaded */
    COMMAND_STALE = 1 << 8,
    COMMAND_SKIP_MONITOR = 1 << 9,
    COMMAND_SKIP_SLOWLOG = 1 << 10,
    COMMAND_ASKING = 1 << 11,
    COMMAND_FAST = 1 << 12,
    COMMAND_NO_AUTH = 1 << 13,          /* allowed before AUTH */
    COMMAND_MOVABLE_KEYS = 1 << 14,
    COMMAND_NO_MULTI = 1 << 15,
    COMMAND_ALLOW_BUSY = 1 << 16,
    COMMAND_NO_MANDATORY_KEYS = 1 << 17,
    COMMAND_NO_ASYNC_LOADING = 1 << 18,
    /* Kelvin's own, not shown to clients. */
    COMMAND_SCRIPT_TESTS = 1 << 19,     /* beside NOSCRIPT: scripts may call it after DEBUG SET-DISABLE-DENY-SCRIPTS 1, as it needs no connection */
    COMMAND_SYNCING = 1 << 20,          /* allowed while a replica loads a full synchronization: CLUSTER's that show */
    COMMAND_EXCLUSIVE = 1 << 24,        /* runs with all partitions locked */
    COMMAND_MAY_REPLICATE = 1 << 26,    /* delayed by CLIENT PAUSE WRITE, like writes, because Redis may send it to replicas */
    COMMAND_UNIT = 1 << 27,             /* runs other commands, as one unit (engine/unit.h): EXEC, EVAL ... */
    COMMAND_RUNS_QUEUE = 1 << 28,       /* EXEC */
    COMMAND_NOT_QUEUED = 1 << 29,       /* runs at once after MULTI */
    COMMAND_WHOLE = 1 << 30,            /* shows or needs keys that it does not name: in a unit it needs all partitions */
    COMMAND_NO_TOUCH = 1 << 25,         /* adds no heat: TTL, TYPE, OBJECT ... */
    COMMAND_OWNS_KEYS = 1 << 22,        /* runs as a unit that owns the partitions of its keys while its jobs run (MIGRATE) */
    COMMAND_TOUCHES = 1 << 21,          /* adds heat even for a client with CLIENT NO-TOUCH: TOUCH */
    COMMAND_SUBSCRIBED = 1 << 23,       /* allowed to clients that speak RESP2 and have a subscription */
};

enum command_category {     /* read, write, fast, slow, admin, dangerous, blocking, pubsub follow from the flags */
    CAT_KEYSPACE = 1 << 0,
    CAT_READ = 1 << 1,
    CAT_WRITE = 1 << 2,
    CAT_SET = 1 << 3,
    CAT_SORTEDSET = 1 << 4,
    CAT_LIST = 1 << 5,
    CAT_HASH = 1 << 6,
    CAT_STRING = 1 << 7,
    CAT_BITMAP = 1 << 8,
    CAT_HYPERLOGLOG = 1 << 9,
    CAT_GEO = 1 << 10,
    CAT_STREAM = 1 << 11,
    CAT_PUBSUB = 1 << 12,
    CAT_ADMIN = 1 << 13,
    CAT_FAST = 1 << 14,
    CAT_SLOW = 1 << 15,
    CAT_BLOCKING = 1 << 16,
    CAT_DANGEROUS = 1 << 17,
    CAT_CONNECTION = 1 << 18,
    CAT_TRANSACTION = 1 << 19,
    CAT_SCRIPTING = 1 << 20,
};

/* Which arguments are names of channels that the user has to be allowed (acl/rules.h). */
enum command_channels { CHANNELS_NONE, CHANNELS_FIRST, CHANNELS_ALL, CHANNELS_ALL_PATTERNS };

/* The uses of a key by a command, as COMMAND INFO shows them. The first four decide what the executor does: RO and RW keys are made
 * resident first; OW keys need no load unless they are RESIDENT; RM keys are made resident (DEL has to count them). */
enum key_flag {
    KEY_RO = 1 << 0, KEY_RW = 1 << 1, KEY_OW = 1 << 2, KEY_RM = 1 << 3,
    KEY_ACCESS = 1 << 4, KEY_UPDATE = 1 << 5, KEY_INSERT = 1 << 6, KEY_DELETE = 1 << 7,
    KEY_NOT_KEY = 1 << 8, KEY_INCOMPLETE = 1 << 9, KEY_VARIABLE_FLAGS = 1 << 10,
    /* Kelvin's own, not shown to clients: made resident although it is OW, because the command depends on whether the key exists
     * (SETNX, RENAMENX). */
    KEY_RESIDENT = 1 << 24,
    KEY_CHANGED = 1 << 25,      /* changed although it is RO (XREADGROUP) */
    KEY_BY_OPTIONS = 1 << 26,   /* the flags of a call depend on its options, and clients are not shown that (MSETEX) */
};

/* step 0: this language cannot express where the keys are (SORT's STORE); call/command_keys.c knows, and clients see "unknown". */
struct key_spec {
    uint32_t flags;
    const char *keyword;    /* the keys begin after this word, searched from `index`; NULL: they begin at `index` */
    int index;              /* negative: from the end */
    bool numbered;          /* the argument at `index` is the number of keys; the keys follow */
    int last, step, limit;  /* range: last key relative to the first (-1: the last argument), every step-th, 1/limit of them */
};

/* Says what the command needs of the elements of values, so that they are made resident before it runs if they are in pages (value/paged.h). It holds for all of its keys.
 * A hint: what is not there all the same is read under the lock. */
enum need_kind {
    NEEDS_BY_GROUP,         /* all, if the row's group is that of the value's type (for sets also sorted-set, for sorted sets also geo), else nothing. Of a sorted set also by member */
    NEEDS_ALL,              /* as a walk over them meets them */
    NEEDS_NOTHING,          /* what the root has: counts */
    NEEDS_ELEMENTS,         /* those that the arguments from the first to the last (negative: from the end), every step-th, name */
    NEEDS_ASKED,            /* the handler asks (key_ask); a replay looks ahead for those that arguments name, if step is not 0 */
};
struct command_need {
    int8_t kind, first, last, step;
};
/* If arguments name elements: the last one. */
static inline int command_need_last(const struct command_need *need, int arg_count)
{
    return need->last < 0 ? arg_count + need->last : need->last < arg_count ? need->last : arg_count - 1;
}
#define NEED_ALL { NEEDS_ALL, 0, 0, 0 }
#define NEED_NOTHING { NEEDS_NOTHING, 0, 0, 0 }
#define NEED_ASKED { NEEDS_ASKED, 0, 0, 0 }
#define NEED_ASKED_FOR(first, last, step) { NEEDS_ASKED, (first), (last), (step) }
#define NEED_ELEMENT(at) { NEEDS_ELEMENTS, (at), (at), 1 }
#define NEED_ELEMENTS(first, last, step) { NEEDS_ELEMENTS, (first), (last), (step) }

typedef void command_run(struct call *call);
/* Called before a command that is exclusive claims anything, so that work that takes long is done meanwhile. False: the call is parked (for a
 * job), or an error was replied. It is called again whenever the request starts again; not in a transaction, and not at the replay. */
typedef bool command_prepare(struct call *call);

struct command {
    const char *name;
    command_run *run;
    command_prepare *prepare;   /* or NULL */
    int arity;              /* number of arguments, the command's name included; negative: at least that many */
    uint32_t flags;         /* enum command_flag */
    uint32_t categories;    /* enum command_category; only those that do not follow from flags */
    const struct key_spec *keys;    /* ends with flags 0; NULL: no keys */
    const char *group, *since, *complexity, *summary, *arguments;
    const char *tips;                               /* hints for clients and proxies, separated by spaces; or NULL */
    const char *deprecated_since, *replaced_by;     /* or NULL */
    enum command_channels channels;
    struct command_need need;
    bool for_developers;    /* for developers of the server; clients see "syscmd" */
    uint32_t id;            /* assigned by the table: index of its statistics */
    int only_key;           /* derived by the table: the argument that is its one key, whatever the others are; 0: see command_keys */
    bool renamed;           /* by rename-command, or its container was: its name is not the one that clients use */
    struct command *parent;     /* container, or NULL */
    struct command **children;  /* subcommands, NULL-terminated; or NULL */
};

/* Whether a call of the command may have this number of arguments, its name included. */
static inline bool command_takes(const struct command *command, int arg_count)
{
    return command->arity > 0 ? command->arity == arg_count : arg_count >= -command->arity;
}

/* One key, at an argument; or keys from the first to the last (-1: the last argument), every step-th. */
#define KEY_AT(first, flags_) { .flags = (flags_), .index = (first), .step = 1 }
#define KEY_RANGE(first, last_, step_, flags_) { .flags = (flags_), .index = (first), .last = (last_), .step = (step_) }
#define KEY_NUMBERED(at, step_, flags_) { .flags = (flags_), .index = (at), .numbered = true, .step = (step_) }
#define KEY_AFTER(word, from, last_, step_, limit_, flags_) \
    { .flags = (flags_), .keyword = (word), .index = (from), .last = (last_), .step = (step_), .limit = (limit_) }
#define KEY_UNKNOWN(flags_) { .flags = (flags_) }
#define NO_KEYS NULL
/* A row's keys: one to three specifications. The last one here ends the list. */
#define KEYS(...) ((const struct key_spec[]){ __VA_ARGS__, { .flags = 0 } })

/* Forms of a row of a .def: define COMMAND and CONTAINER as one of these, then include it. commands/rows.c makes the tables,
 * commands/handlers.h the prototypes. */
#define COMMAND_ROW(name_, run_, arity_, flags_, categories_, keys_, group_, since_, complexity_, summary_, arguments_, ...) \
    { .name = (name_), .run = (run_), .arity = (arity_), .flags = (flags_), .categories = (categories_), .keys = keys_, \
      .group = (group_), .since = (since_), .complexity = (complexity_), .summary = (summary_), .arguments = (arguments_), \
      __VA_ARGS__ },
#define CONTAINER_ROW(name_, group_, since_, summary_) \
    { .name = (name_), .arity = -2, .group = (group_), .since = (since_), .complexity = "Depends on the subcommand", \
      .summary = (summary_), .arguments = "" },
#define COMMAND_PROTOTYPE(name_, run_, ...) command_run run_;

#endif

/* Shared by config.c, config_load.c and config_rewrite.c; private to them. */
#ifndef KELVIN_CONFIG_CONFIG_PRIVATE_H
#define KELVIN_CONFIG_CONFIG_PRIVATE_H

#include "base/message.h"
#include "base/mutex.h"
#include "config/config_value.h"

struct config_watcher {
    config_changed *changed;
    void *context;
};

/* Where a line of a directive of kind LINES was. */
struct config_place {
    enum config_id id;
    char *file;
    int line;
};

/* Lock order: `changing`, then `reading`. */
struct config_private {
    struct mutex changing;                       /* one load, set or rewrite at a time; held during callbacks */
    struct mutex reading;                        /* leaf: guards `values` while one is copied or replaced */
    struct config_value values[CONFIG_COUNT];       /* written with both locks, read with either */
    struct config_value initial[CONFIG_COUNT];      /* the defaults; immutable */
    bool given[CONFIG_COUNT];                       /* set by file, option or CONFIG SET; guarded by `changing` */
    struct config_watcher watchers[CONFIG_COUNT];   /* guarded by `changing` */
    struct config_place *places;                    /* in the order of loading; guarded by `changing` */
    int place_count;
    config_problem *problem;                        /* NULL: the first problem ends a load. Set before one begins */
    void *problem_context;
    const char *loading_file;                       /* while one is loaded; guarded by `changing` */
    int loading_line;
    char *home;                                     /* working directory at startup; immutable */
    char *file;                                     /* set while loading at startup, immutable afterwards */
};

/* Creates a configuration with all defaults; its relative paths start from `home`. */
struct config *config_create_at(const char *home);

/* Requires `changing`. Swaps the current value with `*value`, of which it takes ownership; `*value` is then the old one. */
void config_exchange(struct config *config, enum config_id id, struct config_value *value);

/* Requires `changing`. Loads the lines of a file or of a text, see config_load; `depth` is the number of enclosing includes. */
bool config_load_lines(struct config *config, const char *name, struct bytes text, int depth, struct message *message);

/* Has a problem counted, if the configuration is only checked, and returns true: go on. False: the message is the reason to fail. */
bool config_go_on(struct config *config, const struct message *message);

/* Reads the whole file; the text is freed with buffer_release. False, with errno, if it can't be read. */
bool config_file_read(const char *path, struct buffer *text);

#endif

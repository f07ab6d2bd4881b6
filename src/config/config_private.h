/* What config.c, config_load.c and config_rewrite.c share; nobody else looks inside. */
#ifndef KELVIN_CONFIG_CONFIG_PRIVATE_H
#define KELVIN_CONFIG_CONFIG_PRIVATE_H


#include "base/message.h"
#include "base/mutex.h"
#include "config/config_value.h"

struct config_watcher {
    config_changed *changed;
    void *context;
};

/* Lock order: `changing`, then `reading`. */
struct config_private {
    struct mutex changing;                       /* one load, set or rewrite at a time; held during callbacks */
    struct mutex reading;                        /* leaf: guards `values` for a copy, no more */
    struct config_value values[CONFIG_COUNT];       /* written with both locks, read with either */
    struct config_value initial[CONFIG_COUNT];      /* the defaults; immutable */
    bool given[CONFIG_COUNT];                       /* by file, option or CONFIG SET; `changing` */
    struct config_watcher watchers[CONFIG_COUNT];   /* `changing` */
    char *home;                                     /* working directory at the start; immutable */
    char *file;                                     /* set while loading at start, immutable afterwards */
};

/* A configuration at its defaults whose relative paths start from `home`. */
struct config *config_create_at(const char *home);

/* With `changing` held: puts the value into place and takes it over; `value` then holds what was there before. */
void config_exchange(struct config *config, enum config_id id, struct config_value *value);

/* With `changing` held: one directive, see config_load; `depth` counts the includes around it. */
bool config_load_words(struct config *config, const struct bytes *words, int count, int depth, struct message *message);
bool config_load_lines(struct config *config, const char *name, struct bytes text, int depth, struct message *message);

/* The whole file, freed with buffer_release. False, with errno, when it can't be read. */
bool config_file_read(const char *path, struct buffer *text);

#endif

#include "engine/scripts.h"

#include "base/mem.h"

/* LOAD_CACHED_SCRIPTS: for the interpreter of a load, which does not run scripts. */
enum { LOAD_CACHED_SCRIPTS = 1, CACHED_SCRIPTS = 500 };
/* A worker loads what was accepted before, but its code need not do the same again. */
enum { LOAD_MS_MAX = 500, WORKER_LOAD_MS_MAX = 10 * LOAD_MS_MAX };

static struct interpreter_options options_of(const struct worker *worker)
{
    return (struct interpreter_options){
        .heap_size_max = (size_t)config_number(worker->engine->config, CONFIG_SCRIPT_HEAP_MAX),
        .cached_scripts_max = CACHED_SCRIPTS,
        .load_ms_max = WORKER_LOAD_MS_MAX,
    };
}

struct registry_view *scripts_of(struct worker *worker)
{
    if (worker->scripts.view == NULL) {
        struct interpreter_options options = options_of(worker);

        worker->scripts.view = mem_alloc(sizeof(*worker->scripts.view));
        registry_view_init(worker->scripts.view, worker->engine->scripts, interpreter_create(&options));
        scripts_measure(worker);
    }
    registry_view_refresh(worker->scripts.view);
    return worker->scripts.view;
}

void scripts_measure(struct worker *worker)
{
    worker->scripts.memory = interpreter_memory(worker->scripts.view->interpreter);
}

uint64_t scripts_memory(const struct engine *engine)
{
    uint64_t sum = 0;

    for (int i = 0; i < engine->worker_count; i++)
        sum += engine->workers[i]->scripts.memory;
    return sum;
}

void scripts_refresh(struct worker *worker)
{
    struct interpreter_options options;

    if (worker->scripts.view == NULL)
        return;
    options = options_of(worker);
    interpreter_set_options(worker->scripts.view->interpreter, &options);
    registry_view_refresh(worker->scripts.view);
    scripts_measure(worker);
}

void scripts_release(struct worker *worker)
{
    if (worker->scripts.view == NULL)
        return;
    registry_view_release(worker->scripts.view);
    interpreter_destroy(worker->scripts.view->interpreter);
    mem_free(worker->scripts.view);
    worker->scripts.view = NULL;
}

static void write_log(void *context, enum script_log_level level, struct bytes text)
{
    static const enum log_level levels[] = {
        [SCRIPT_LOG_DEBUG] = LOG_LEVEL_DEBUG,
        [SCRIPT_LOG_VERBOSE] = LOG_LEVEL_VERBOSE,
        [SCRIPT_LOG_NOTICE] = LOG_LEVEL_NOTICE,
        [SCRIPT_LOG_WARNING] = LOG_LEVEL_WARNING,
    };
    struct engine *engine = context;

    log_write(engine->log, levels[level], "%.*s", (int)(text.size < 1024 ? text.size : 1024), text.data);
}

void scripts_load_init(struct scripts_load *load, struct engine *engine, enum scripts_trust trust)
{
    struct interpreter_options options = { .cached_scripts_max = LOAD_CACHED_SCRIPTS, .load_ms_max = trust == SCRIPTS_OF_CLIENT ? LOAD_MS_MAX : 0 };

    load->interpreter = interpreter_create(&options);
    load->host = (struct script_host){ .context = engine, .log = write_log };
    registry_load_init(&load->load, engine->scripts, load->interpreter, &load->host);
}

void scripts_load_end(struct scripts_load *load)
{
    interpreter_destroy(load->interpreter);
    load->interpreter = load->load.interpreter = NULL;
}

void scripts_load_release(struct scripts_load *load)
{
    registry_load_release(&load->load);
    interpreter_destroy(load->interpreter);
}

/* Ready: whether the server would serve reads and writes as its role and its configuration say. Any thread; takes leaf locks. */
#ifndef KELVIN_METRICS_READY_H
#define KELVIN_METRICS_READY_H

struct engine;

/* A sentence about what is wrong, and one about what to do. Constants. */
struct reason {
    const char *what, *remedy;
};

/* NULL: it is ready. */
const struct reason *ready_look(struct engine *engine);

#endif

/* Cron: regular work, `hz` times a second. */
#ifndef KELVIN_ENGINE_CRON_H
#define KELVIN_ENGINE_CRON_H

struct worker;

/* Lets clients that wait for memory try again. The first worker's expires keys and measures rates and memory, too. On the worker. */
void cron_tick(struct worker *worker);

#endif

/* Memory queue: a worker's clients that are parked until there is memory, in order of arrival. All on the worker. */
#ifndef KELVIN_ENGINE_MEMORY_QUEUE_H
#define KELVIN_ENGINE_MEMORY_QUEUE_H

#include <stdbool.h>

struct client;
struct worker;

/* The client waits until there is memory; it is resumed when its turn comes. */
void memory_queue_add(struct worker *worker, struct client *client);
/* Of a client that may be in the queue. */
void memory_queue_remove(struct worker *worker, struct client *client);

/* Memory was freed: each client tries once, in order, up to the first that the pace holds back. */
void memory_queue_resume(struct worker *worker);
/* The same when time has passed. Returns whether the pace still holds clients back. */
bool memory_queue_resume_paced(struct worker *worker);

#endif

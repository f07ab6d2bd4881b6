/* Job: work of a call that takes long or reads the disk, done on a thread of the job pool while its client is parked.
 *
 *   struct my_job { struct job job; ... };
 *   struct my_job *done = call_job(call);            the call runs again from the top when the job is done
 *   if (done == NULL) {
 *       struct my_job *job = mem_zalloc(sizeof(*job));
 *       job->job = (struct job){ .run = my_run };
 *       ... copies of what it needs: arguments and keys do not outlive this call ...
 *       call_start_job(call, &job->job);
 *       return;                                      without a reply
 *   }
 *   ... reply from `done`; the engine releases it afterwards ...
 *
 * `run` gets no locks and may take partitions' locks itself. A client that is closed does not stop its job.
 */
#ifndef KELVIN_ENGINE_JOB_H
#define KELVIN_ENGINE_JOB_H

#include <stdatomic.h>
#include <stdbool.h>

#include "call/call.h"

/* Where a job runs. */
enum job_lane {
    JOB_PLAIN,      /* on one of a few threads. It may wait for owners of partitions */
    JOB_OF_OWNER,   /* of a unit, which may own partitions meanwhile: must not queue after jobs that wait for owners. Threads are added as
                     * they are needed. It has to end soon when job_must_end */
    JOB_OF_NETWORK, /* asks other nodes, which may be hung, or may be asking this one: no other job queues after it. Threads are added as they are
                     * needed. It may wait for owners, and has to end soon when job_must_end */
    JOB_LANE_COUNT,
};

struct job {
    void (*run)(struct job *job, struct engine *engine);
    void (*release)(struct job *job);       /* frees it; on any thread. NULL: mem_free does */
    enum job_lane lane;                     /* where it runs, unless its call belongs to a unit */
    bool has_only_reply_left;               /* when it is done: a synchronization that it has begun itself does not refuse the call */
    struct job *next;                       /* private from here on */
    struct client *client;                  /* NULL: gone */
    _Atomic bool done;
};

struct job_pool;

struct job_pool *job_pool_create(struct engine *engine, int thread_count);
/* Starts the threads. Returns 0, or the error number: then no job may be started. */
int job_pool_start(struct job_pool *pool);
void job_pool_destroy(struct job_pool *pool);       /* waits for the jobs that run; the others are released */

/* No job is queued or runs; more may come. Any thread. */
bool job_pool_is_idle(struct job_pool *pool);

void *call_job(struct call *call);                  /* the finished job, or NULL */
/* The same, and it is the call's from now on: to start it again, or to release it. */
void *call_take_job(struct call *call);
/* In the job's lane, or in that of owners if the call belongs to a unit. */
void call_start_job(struct call *call, struct job *job);
/* The server ends, or is about to. Any thread. */
bool job_must_end(const struct engine *engine);
/* For work that other threads than the pool's do (each worker its part): parks the call as call_start_job does; the last of those threads
 * calls job_finish. `run` is not called. */
void call_wait_job(struct call *call, struct job *job);
void job_finish(struct job_pool *pool, struct job *job);
/* Undoes call_wait_job when the work could not be handed out: the job is released, and the call replies now. */
void call_end_wait(struct call *call);
/* At the end of a call, and of a client. */
void job_forget(struct job_pool *pool, struct client *client);

#endif

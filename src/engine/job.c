#include "engine/job.h"

#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "engine/engine.h"

enum { ADDED_THREADS_MAX = 64 };        /* of each lane to which threads are added */

struct lane {
    struct job_pool *pool;
    struct condition filled;
    struct job *first, *last;
    int queued_count, running_count;
    int idle_count;                 /* threads that wait for a job */
    struct thread *threads;
    int thread_count, thread_max;
};

struct job_pool {
    struct engine *engine;
    struct mutex lock;              /* leaf; of all that is in the lanes */
    struct lane lanes[JOB_LANE_COUNT];
    bool stopping;
};

static void release_job(struct job *job)
{
    if (job->release != NULL)
        job->release(job);
    else
        mem_free(job);
}

void job_finish(struct job_pool *pool, struct job *job)
{
    struct client *client;

    mutex_lock(&pool->lock);
    job->done = true;
    client = job->client;
    if (client != NULL)
        client_wake(client);    /* under the lock, so that the client can't be freed meanwhile */
    mutex_unlock(&pool->lock);
    if (client == NULL)
        release_job(job);
}

/* NULL: the pool is stopping. */
static struct job *take_job(struct job_pool *pool, struct lane *lane) REQUIRES(pool->lock);
static struct job *take_job(struct job_pool *pool, struct lane *lane)
{
    struct job *job;

    while (lane->first == NULL && !pool->stopping) {
        lane->idle_count++;
        condition_wait(&lane->filled, &pool->lock);
        lane->idle_count--;
    }
    if (pool->stopping)
        return NULL;
    job = lane->first;
    lane->first = job->next;
    if (lane->first == NULL)
        lane->last = NULL;
    lane->queued_count--;
    lane->running_count++;
    return job;
}

static void job_main(void *context)
{
    struct lane *lane = context;
    struct job_pool *pool = lane->pool;
    struct job *job;

    mutex_lock(&pool->lock);
    while ((job = take_job(pool, lane)) != NULL) {
        mutex_unlock(&pool->lock);
        job->run(job, pool->engine);
        job_finish(pool, job);
        mutex_lock(&pool->lock);
        lane->running_count--;
        waiting_bump(&pool->engine->waiting);
    }
    mutex_unlock(&pool->lock);
}

/* Returns 0, or the error number. */
static int add_thread(struct lane *lane)
{
    int error = thread_start(&lane->threads[lane->thread_count], "kelvin-job", lane->pool->engine->meter, job_main, lane);

    lane->thread_count += error == 0;
    return error;
}

static void init_lane(struct job_pool *pool, enum job_lane which, int thread_max)
{
    struct lane *lane = &pool->lanes[which];

    lane->pool = pool;
    condition_init(&lane->filled);
    lane->threads = mem_zalloc((size_t)thread_max * sizeof(lane->threads[0]));
    lane->thread_max = thread_max;
}

struct job_pool *job_pool_create(struct engine *engine, int thread_count)
{
    struct job_pool *pool = mem_zalloc(sizeof(*pool));

    pool->engine = engine;
    mutex_init(&pool->lock);
    init_lane(pool, JOB_PLAIN, thread_count);
    init_lane(pool, JOB_OF_OWNER, ADDED_THREADS_MAX);
    init_lane(pool, JOB_OF_NETWORK, ADDED_THREADS_MAX);
    return pool;
}

int job_pool_start(struct job_pool *pool)
{
    struct lane *plain = &pool->lanes[JOB_PLAIN];
    int error = add_thread(&pool->lanes[JOB_OF_OWNER]);

    if (error == 0)
        error = add_thread(&pool->lanes[JOB_OF_NETWORK]);
    while (error == 0 && plain->thread_count < plain->thread_max)
        error = add_thread(plain);
    return error;
}

static void release_lane(struct lane *lane)
{
    while (lane->first != NULL) {
        struct job *job = lane->first;

        lane->first = job->next;
        if (job->client != NULL)
            job->client->job = NULL;
        release_job(job);
    }
    condition_release(&lane->filled);
    mem_free(lane->threads);
}

void job_pool_destroy(struct job_pool *pool)
{
    if (pool == NULL)
        return;
    mutex_lock(&pool->lock);
    pool->stopping = true;
    for (int i = 0; i < JOB_LANE_COUNT; i++)
        condition_broadcast(&pool->lanes[i].filled);
    mutex_unlock(&pool->lock);
    /* The workers have ended, so no thread is added. */
    for (int i = 0; i < JOB_LANE_COUNT; i++) {
        for (int n = 0; n < pool->lanes[i].thread_count; n++)
            thread_join(&pool->lanes[i].threads[n]);
        release_lane(&pool->lanes[i]);
    }
    mutex_release(&pool->lock);
    mem_free(pool);
}

bool job_pool_is_idle(struct job_pool *pool)
{
    bool is_idle = true;

    mutex_lock(&pool->lock);
    for (int i = 0; i < JOB_LANE_COUNT; i++)
        is_idle = is_idle && pool->lanes[i].first == NULL && pool->lanes[i].running_count == 0;
    mutex_unlock(&pool->lock);
    return is_idle;
}

void *call_job(struct call *call)
{
    struct job *job = call->requester->job;

    return job != NULL && job->done ? job : NULL;
}

void *call_take_job(struct call *call)
{
    struct job_pool *pool = call->engine->jobs;
    struct job *job = call_job(call);

    if (job == NULL)
        return NULL;
    mutex_lock(&pool->lock);            /* its thread may be about to leave job_finish */
    call->requester->job = NULL;
    mutex_unlock(&pool->lock);
    return job;
}

void call_wait_job(struct call *call, struct job *job)
{
    bool in_place = call->requester->caller & TRAIT_WAITS_IN_PLACE && call->unit == NULL;       /* a script in a stream or a log waits like any other */

    CHECK(call->requester->job == NULL && !in_place);
    job->client = call->requester;
    job->done = false;
    job->next = NULL;
    call->requester->job = job;
    call->parked = true;
}

void call_end_wait(struct call *call)
{
    struct job *job = call->requester->job;

    call->requester->job = NULL;
    call->parked = false;
    release_job(job);
}

static void add_thread_if_needed(struct job_pool *pool, struct lane *lane) REQUIRES(pool->lock);
static void add_thread_if_needed(struct job_pool *pool, struct lane *lane)
{
    (void)pool;
    if (lane->queued_count >= lane->idle_count && lane->thread_count < lane->thread_max)
        (void)add_thread(lane);         /* else the job waits for one of the others */
}

void call_start_job(struct call *call, struct job *job)
{
    struct job_pool *pool = call->engine->jobs;
    struct lane *lane = &pool->lanes[call->unit != NULL ? JOB_OF_OWNER : job->lane];

    call_wait_job(call, job);
    mutex_lock(&pool->lock);
    add_thread_if_needed(pool, lane);
    if (lane->last != NULL)
        lane->last->next = job;
    else
        lane->first = job;
    lane->last = job;
    lane->queued_count++;
    condition_signal(&lane->filled);
    mutex_unlock(&pool->lock);
}

bool job_must_end(const struct engine *engine)
{
    return engine->state == ENGINE_STOPPING || engine->frozen;
}

void job_forget(struct job_pool *pool, struct client *client)
{
    struct job *job = client->job;
    bool done;

    if (job == NULL)
        return;
    mutex_lock(&pool->lock);
    done = job->done;
    job->client = NULL;
    mutex_unlock(&pool->lock);
    client->job = NULL;
    if (done)
        release_job(job);
}

#include "engine/job.h"

#include <pthread.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "engine/engine.h"

struct job_pool {
    struct engine *engine;
    struct mutex lock;           /* leaf */
    struct condition filled;
    struct job *first, *last;
    bool stopping;
    pthread_t *threads;
    int thread_count;
};

void job_finish(struct job_pool *pool, struct job *job)
{
    struct client *client;

    mutex_lock(&pool->lock);
    job->done = true;
    client = job->client;
    if (client != NULL)
        mailbox_wake(&client->worker->mailbox, client);    /* under the lock, so that the client can't be freed meanwhile */
    mutex_unlock(&pool->lock);
    if (client == NULL)
        job->release(job);
}

static void *job_main(void *context)
{
    struct job_pool *pool = context;

    pthread_setname_np(pthread_self(), "kelvin-job");
    meter_join(pool->engine->meter);
    mutex_lock(&pool->lock);
    for (;;) {
        struct job *job;

        while (pool->first == NULL && !pool->stopping)
            condition_wait(&pool->filled, &pool->lock);
        job = pool->first;
        if (job == NULL || pool->stopping)
            break;
        pool->first = job->next;
        if (pool->first == NULL)
            pool->last = NULL;
        mutex_unlock(&pool->lock);
        job->run(job, pool->engine);
        job_finish(pool, job);
        mutex_lock(&pool->lock);
    }
    mutex_unlock(&pool->lock);
    meter_leave(pool->engine->meter);
    return NULL;
}

struct job_pool *job_pool_create(struct engine *engine, int thread_count)
{
    struct job_pool *pool = mem_zalloc(sizeof(*pool));

    pool->engine = engine;
    mutex_init(&pool->lock);
    condition_init(&pool->filled);
    pool->threads = mem_zalloc((size_t)thread_count * sizeof(pthread_t));
    pool->thread_count = thread_count;
    for (int i = 0; i < thread_count; i++)
        CHECK(pthread_create(&pool->threads[i], NULL, job_main, pool) == 0);
    return pool;
}

void job_pool_destroy(struct job_pool *pool)
{
    if (pool == NULL)
        return;
    mutex_lock(&pool->lock);
    pool->stopping = true;
    condition_broadcast(&pool->filled);
    mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i], NULL);
    while (pool->first != NULL) {
        struct job *job = pool->first;

        pool->first = job->next;
        if (job->client != NULL)
            job->client->job = NULL;
        job->release(job);
    }
    mutex_release(&pool->lock);
    condition_release(&pool->filled);
    mem_free(pool->threads);
    mem_free(pool);
}

void *call_job(struct call *call)
{
    struct job *job = call->requester->job;

    return job != NULL && job->done ? job : NULL;
}

void call_wait_job(struct call *call, struct job *job)
{
    bool in_place = call->requester->flags & CLIENT_REPLAY;

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
    job->release(job);
}

void call_start_job(struct call *call, struct job *job)
{
    struct job_pool *pool = call->engine->jobs;

    call_wait_job(call, job);
    mutex_lock(&pool->lock);
    if (pool->last != NULL)
        pool->last->next = job;
    else
        pool->first = job;
    pool->last = job;
    condition_signal(&pool->filled);
    mutex_unlock(&pool->lock);
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
        job->release(job);
}

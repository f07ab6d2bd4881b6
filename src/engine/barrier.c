#include "engine/barrier.h"

#include <time.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "engine/engine.h"

enum { STANDSTILL_NS = 10000000 };      /* between two looks whether the thread gives up */

struct barrier_mail {
    struct mail mail;
    struct barrier *barrier;
};

static void pass_barrier(struct mail *mail, struct worker *worker)
{
    struct barrier *barrier = ((struct barrier_mail *)mail)->barrier;

    mem_free(mail);
    if (barrier->visit != NULL)
        barrier->visit(barrier, worker);
    if (atomic_fetch_sub(&barrier->left, 1) == 1)
        job_finish(worker->engine->jobs, &barrier->job);
}

void barrier_post(struct engine *engine, struct barrier *barrier)
{
    barrier->left = engine->worker_count;
    for (int i = 0; i < engine->worker_count; i++) {
        struct barrier_mail *mail = mem_zalloc(sizeof(*mail));

        mail->mail.run = pass_barrier;
        mail->barrier = barrier;
        mailbox_post(&engine->workers[i]->mailbox, &mail->mail);
    }
}

/* Workers that wait for what one thread does. */
struct standstill {
    struct barrier barrier;
    struct mutex lock;
    struct condition changed;
    int arrived;                    /* lock */
    bool is_over;                   /* lock */
    _Atomic int references;         /* the workers' barrier, and the thread */
};

static void drop_standstill(struct standstill *still)
{
    if (atomic_fetch_sub(&still->references, 1) > 1)
        return;
    condition_release(&still->changed);
    mutex_release(&still->lock);
    mem_free(still);
}

static void release_standstill(struct job *job)
{
    drop_standstill((struct standstill *)job);
}

static void stand_still(struct barrier *barrier, struct worker *worker)
{
    struct standstill *still = (struct standstill *)barrier;

    (void)worker;
    mutex_lock(&still->lock);
    still->arrived++;
    condition_broadcast(&still->changed);
    while (!still->is_over)
        condition_wait(&still->changed, &still->lock);
    mutex_unlock(&still->lock);
}

static bool await_all(struct standstill *still, int count, bool (*gives_up)(void *context), void *context) REQUIRES(still->lock);
static bool await_all(struct standstill *still, int count, bool (*gives_up)(void *context), void *context)
{
    while (still->arrived < count) {
        struct timespec until;

        if (gives_up(context))
            return false;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += STANDSTILL_NS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        (void)condition_wait_until(&still->changed, &still->lock, &until);
    }
    return true;
}

bool barrier_run(struct engine *engine, void (*run)(void *context), bool (*gives_up)(void *context), void *context)
{
    struct standstill *still = mem_zalloc(sizeof(*still));
    bool all_wait;

    mutex_init(&still->lock);
    condition_init(&still->changed);
    still->references = 2;
    still->barrier.visit = stand_still;
    still->barrier.job.release = release_standstill;
    barrier_post(engine, &still->barrier);
    mutex_lock(&still->lock);
    all_wait = await_all(still, engine->worker_count, gives_up, context);
    if (all_wait)
        run(context);
    still->is_over = true;
    condition_broadcast(&still->changed);
    mutex_unlock(&still->lock);
    drop_standstill(still);
    return all_wait;
}

static void release(struct job *job)
{
    mem_free(job);
}

bool barrier_is_passed(struct call *call)
{
    const struct job *job = call_job(call);

    return job != NULL && job->release == release;
}

void barrier_wait(struct call *call)
{
    struct barrier *barrier = mem_zalloc(sizeof(*barrier));

    barrier->job.release = release;
    call_wait_job(call, &barrier->job);
    barrier_post(call->engine, barrier);
}

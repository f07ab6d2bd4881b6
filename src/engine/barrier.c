#include "engine/barrier.h"

#include "base/mem.h"
#include "engine/engine.h"

struct barrier {
    struct job job;
    struct job_pool *jobs;
    _Atomic int left;               /* workers that have not passed a call boundary */
};

struct barrier_mail {
    struct mail mail;
    struct barrier *barrier;
};

static void release(struct job *job)
{
    mem_free(job);
}

static void pass(struct mail *mail, struct worker *worker)
{
    struct barrier *barrier = ((struct barrier_mail *)mail)->barrier;

    (void)worker;
    mem_free(mail);
    if (atomic_fetch_sub(&barrier->left, 1) == 1)
        job_finish(barrier->jobs, &barrier->job);
}

bool barrier_is_passed(struct call *call)
{
    const struct job *job = call_job(call);

    return job != NULL && job->release == release;
}

void barrier_wait(struct call *call)
{
    struct engine *engine = call->engine;
    struct barrier *barrier = mem_zalloc(sizeof(*barrier));

    barrier->job.release = release;
    barrier->jobs = engine->jobs;
    barrier->left = engine->worker_count;
    call_wait_job(call, &barrier->job);
    for (int i = 0; i < engine->worker_count; i++) {
        struct barrier_mail *mail = mem_zalloc(sizeof(*mail));

        mail->mail.run = pass;
        mail->barrier = barrier;
        mailbox_post(&engine->workers[i]->mailbox, &mail->mail);
    }
}

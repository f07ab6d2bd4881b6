#include "engine/barrier.h"

#include "base/mem.h"
#include "engine/engine.h"

struct barrier_mail {
    struct mail mail;
    struct barrier *barrier;
};

static void pass(struct mail *mail, struct worker *worker)
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

        mail->mail.run = pass;
        mail->barrier = barrier;
        mailbox_post(&engine->workers[i]->mailbox, &mail->mail);
    }
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

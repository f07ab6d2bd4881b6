/* Thread: starts threads and joins them. All threads of the server are started here; lint checks it.
 *
 *     error = thread_start(&writer->thread, "kelvin-writer", meter, writer_main, writer);
 *     if (error != 0)
 *         ... strerror(error): the system gives no thread ...
 *     thread_join(&writer->thread);
 *
 * A thread has the same stack, whatever the limit of the shell that started the server. Signals are blocked in it, so that the main thread gets
 * them. The meter counts its memory from its first to its last line.
 *
 * Owner: a struct thread belongs to the thread that starts and joins it, or to the lock that its struct names.
 */
#ifndef KELVIN_BASE_THREAD_H
#define KELVIN_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

struct meter;

enum { THREAD_STACK_SIZE = 8 << 20, THREAD_NAME_MAX = 15 };

struct thread {
    pthread_t id;                   /* valid while it has_started */
    bool has_started;               /* and was not joined yet */
};

typedef void thread_main(void *context);

/* `name`: a constant of THREAD_NAME_MAX characters at most, which ps and top show. `meter` NULL: its memory is not counted. Returns 0, or the error
 * number: nothing was started. */
int thread_start(struct thread *thread, const char *name, struct meter *meter, thread_main *run, void *context) __attribute__((warn_unused_result));
/* Waits for its end. Nothing, if it was not started or was joined already. */
void thread_join(struct thread *thread);
/* The same for a thread that is not joined: it may still run when the process ends. */
int thread_start_detached(const char *name, struct meter *meter, thread_main *run, void *context) __attribute__((warn_unused_result));

/* CPUs that the calling thread may run on; it may change while the process runs. */
int thread_cpus(void);

#endif

#include "fetcher.h"

#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "options.h"
#include "remote.h"

enum { ADVICE_EVERY_S = 10 };

struct fetcher {
    struct remote *remote;          /* the thread's */
    int timer, event;
    int64_t advice_us;              /* when it was asked for; 0: never */
    struct advice advice;

    struct mutex lock;
    bool is_new;                    /* lock */
    struct fetched last;            /* lock */
};

static void post(struct fetcher *fetcher, const struct fetched *fetched)
{
    const uint64_t one = 1;

    mutex_lock(&fetcher->lock);
    if (fetcher->is_new)
        reading_destroy(fetcher->last.reading);
    fetcher->last = *fetched;
    fetcher->is_new = true;
    mutex_unlock(&fetcher->lock);
    CHECK(write(fetcher->event, &one, sizeof(one)) == sizeof(one));
}

bool fetcher_take(struct fetcher *fetcher, struct fetched *fetched)
{
    uint64_t count;
    bool is_new;

    if (read(fetcher->event, &count, sizeof(count)) != sizeof(count))
        return false;
    mutex_lock(&fetcher->lock);
    is_new = fetcher->is_new;
    *fetched = fetcher->last;
    fetcher->is_new = false;
    mutex_unlock(&fetcher->lock);
    return is_new;
}

/* A server without a tier returns an error for the command, and is not asked. */
static bool ask_advice(struct fetcher *fetcher, const struct reading *reading, struct message *failure)
{
    const struct bytes words[] = { BYTES("TIER"), BYTES("ADVISE") };
    struct buffer reply = { 0 };
    struct bytes status;
    int64_t now_us = clock_mono_us();
    bool good;

    if (!reading_text(reading, "tier_status", &status)) {
        fetcher->advice = (struct advice){ .present = { 0 } };
        return true;
    }
    if (fetcher->advice_us != 0 && now_us - fetcher->advice_us < (int64_t)ADVICE_EVERY_S * 1000000)
        return true;
    fetcher->advice_us = now_us;
    good = remote_ask(fetcher->remote, words, 2, &reply, failure);
    if (good)
        advice_read(buffer_bytes(&reply), &fetcher->advice);
    buffer_release(&reply);
    return good;
}

static void fetch(struct fetcher *fetcher)
{
    const struct bytes words[] = { BYTES("INFO"), BYTES("all") };
    struct fetched fetched = { .reading = NULL };
    struct buffer reply = { 0 };
    int64_t begin_us;

    if (remote_connect(fetcher->remote, &fetched.failure)) {
        begin_us = clock_mono_us();
        if (remote_ask(fetcher->remote, words, 2, &reply, &fetched.failure)) {
            int64_t end_us = clock_mono_us();

            fetched.reading = reading_create(buffer_bytes(&reply), end_us, (double)(end_us - begin_us) / 1e6, &fetched.failure);
        }
    }
    if (fetched.reading != NULL && !ask_advice(fetcher, fetched.reading, &fetched.failure)) {
        reading_destroy(fetched.reading);
        fetched.reading = NULL;
    }
    reading_make_printable(fetched.failure.text, strlen(fetched.failure.text));     /* an error may have the server's own bytes */
    fetched.advice = fetcher->advice;
    buffer_release(&reply);
    post(fetcher, &fetched);
}

static void fetcher_main(void *context)
{
    struct fetcher *fetcher = context;
    uint64_t ticks;

    for (;;) {
        fetch(fetcher);
        CHECK(read(fetcher->timer, &ticks, sizeof(ticks)) == sizeof(ticks));
    }
}

struct fetcher *fetcher_start(const struct options *options, struct message *message)
{
    struct fetcher *fetcher = mem_zalloc(sizeof(*fetcher));
    int64_t interval_ns = (int64_t)(options->interval_s * 1e9);
    struct timespec interval = { .tv_sec = interval_ns / 1000000000, .tv_nsec = interval_ns % 1000000000 };
    int error;

    fetcher->remote = remote_create(options, message);
    if (fetcher->remote == NULL) {
        mem_free(fetcher);
        return NULL;
    }
    fetcher->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    fetcher->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(fetcher->timer >= 0 && fetcher->event >= 0);
    CHECK(timerfd_settime(fetcher->timer, 0, &(struct itimerspec){ interval, interval }, NULL) == 0);
    mutex_init(&fetcher->lock);
    error = thread_start_detached("top-fetch", NULL, fetcher_main, fetcher);
    if (error == 0)
        return fetcher;
    message_set(message, "no thread: %s", strerror(error));
    remote_destroy(fetcher->remote);
    mutex_release(&fetcher->lock);
    close(fetcher->timer);
    close(fetcher->event);
    mem_free(fetcher);
    return NULL;
}

int fetcher_fd(const struct fetcher *fetcher)
{
    return fetcher->event;
}

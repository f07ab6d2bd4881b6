#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/mem.h"
#include "replies.h"
#include "result.h"
#include "workload.h"

enum { EVENTS = 64, READ_SIZE = 16 * 1024 };

/* How long to wait for outstanding replies after the run was stopped, and after its time is over. */
static const int64_t drain_stop_ns = 3000000000, drain_end_ns = 30000000000;

struct connection {
    int fd;
    bool wants_write;           /* epoll reports when the socket is writable */
    struct buffer in, out;
    size_t out_sent;
    struct reply_scan scan;     /* of the reply at the beginning of `in` */
    size_t sent, replied;       /* requests of the batch */
    int64_t latency_ns_max;     /* of the replies of the last read */
    int64_t start_ns;           /* of the batch */
    uint64_t *drawn;            /* keys_max for each request */
    uint8_t *classes;           /* enum request_class of each */
};

/* Used only by the worker's thread while it runs, except for `replies`. */
struct worker {
    struct worker_plan *plan;
    struct random random;
    size_t keys_max;
    struct connection *connections;
    size_t count;
    size_t *idle;               /* ring of the connections without an outstanding batch */
    size_t idle_first, idle_count;
    bool over;                  /* no more batches are sent */
    int64_t give_up_ns;         /* when to end even if replies are outstanding; 0: never */
    double due_ns;              /* rate limit: when the next batch is due */
    int epoll, timer;
    pthread_t thread;
    struct result result;
    int64_t end_ns;
    char failure[160];
    _Alignas(64) _Atomic uint64_t replies;
};

struct worker *worker_create(struct worker_plan *plan, size_t index, const int *fds, size_t count)
{
    struct worker *worker = mem_alloc_aligned(64, sizeof(*worker));

    memset(worker, 0, sizeof(*worker));
    worker->plan = plan;
    worker->keys_max = workload_keys_max(plan->workload);
    random_init(&worker->random, plan->seed + index * 0x9e3779b97f4a7c15u);
    worker->count = count;
    worker->connections = mem_zalloc(count * sizeof(*worker->connections));
    worker->idle = mem_alloc(count * sizeof(*worker->idle));
    for (size_t i = 0; i < count; i++) {
        struct connection *connection = &worker->connections[i];

        connection->fd = fds[i];
        CHECK(fcntl(fds[i], F_SETFL, O_NONBLOCK) == 0);
        connection->drawn = mem_zalloc(plan->pipeline * worker->keys_max * sizeof(*connection->drawn));
        connection->classes = mem_zalloc(plan->pipeline);
    }
    result_init(&worker->result);
    return worker;
}

void worker_destroy(struct worker *worker)
{
    for (size_t i = 0; i < worker->count; i++) {
        buffer_release(&worker->connections[i].in);
        buffer_release(&worker->connections[i].out);
        mem_free(worker->connections[i].drawn);
        mem_free(worker->connections[i].classes);
    }
    result_release(&worker->result);
    mem_free(worker->connections);
    mem_free(worker->idle);
    mem_free(worker);
}

static void stop_all(struct worker *worker)
{
    ssize_t written = write(worker->plan->stop_event, &(uint64_t){ 1 }, sizeof(uint64_t));

    CHECK(written == sizeof(uint64_t));
}

/* Only the first failure is kept. */
static void fail(struct worker *worker, const char *message)
{
    if (worker->failure[0] != 0)
        return;
    snprintf(worker->failure, sizeof(worker->failure), "%s", message);
    stop_all(worker);
}

/* ---- sending */

static void watch(struct worker *worker, size_t index, int operation)
{
    struct connection *connection = &worker->connections[index];
    struct epoll_event event = { .events = EPOLLIN | (connection->wants_write ? EPOLLOUT : 0), .data.u64 = index };

    CHECK(epoll_ctl(worker->epoll, operation, connection->fd, &event) == 0);
}

static void output_flush(struct worker *worker, size_t index)
{
    struct connection *connection = &worker->connections[index];
    bool was_waiting = connection->wants_write;

    while (connection->out_sent < connection->out.size) {
        ssize_t sent = send(connection->fd, connection->out.data + connection->out_sent,
            connection->out.size - connection->out_sent, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN) {
            fail(worker, errno == EPIPE || errno == ECONNRESET ? "the server closed the connection" : strerror(errno));
            return;
        }
        if (sent < 0)
            break;
        connection->out_sent += (size_t)sent;
    }
    connection->wants_write = connection->out_sent < connection->out.size;
    if (connection->wants_write != was_waiting)
        watch(worker, index, EPOLL_CTL_MOD);
}

/* False if there are no requests left to send. */
static bool batch_build(struct worker *worker, struct connection *connection)
{
    struct worker_plan *plan = worker->plan;
    uint64_t first = atomic_fetch_add_explicit(&plan->ticket, plan->pipeline, memory_order_relaxed);

    if (first >= plan->requests)
        return false;
    connection->sent = plan->requests - first < plan->pipeline ? (size_t)(plan->requests - first) : plan->pipeline;
    connection->replied = 0;
    connection->out.size = 0;
    connection->out_sent = 0;
    for (size_t i = 0; i < connection->sent; i++)
        connection->classes[i] = (uint8_t)workload_request(plan->workload, &worker->random, first + i,
            connection->drawn + i * worker->keys_max, &connection->out);
    return true;
}

/* Sends batches while there are idle connections, requests are left, and a batch is due. */
static void batches_send(struct worker *worker)
{
    struct worker_plan *plan = worker->plan;

    while (worker->idle_count > 0 && !worker->over) {
        size_t index = worker->idle[worker->idle_first];
        struct connection *connection = &worker->connections[index];
        int64_t now = clock_mono_ns();

        if (now >= plan->end_ns) {
            worker->over = true;
            worker->give_up_ns = now + drain_end_ns;
            return;
        }
        if (plan->interval_ns > 0 && worker->due_ns > (double)now)
            return;
        if (!batch_build(worker, connection)) {
            worker->over = true;
            return;
        }
        connection->start_ns = clock_mono_ns();
        if (plan->interval_ns > 0) {
            connection->start_ns = (int64_t)worker->due_ns;
            worker->due_ns += plan->interval_ns * (double)connection->sent;
        }
        worker->idle_first = (worker->idle_first + 1) % worker->count;
        worker->idle_count--;
        output_flush(worker, index);
    }
}

/* ---- receiving */

/* Copies the line without its line end and its type byte, unless `out` has one already. */
static void line_keep(char *out, size_t size, struct bytes reply)
{
    if (out[0] == 0)
        snprintf(out, size, "%.*s", (int)strcspn(reply.data + 1, "\r"), reply.data + 1);
}

static void reply_take(struct worker *worker, struct connection *connection, struct bytes reply, int64_t now)
{
    struct result *result = &worker->result;
    enum request_class class = connection->classes[connection->replied];
    const uint64_t *drawn = connection->drawn + connection->replied * worker->keys_max;
    struct tally *tally = &result->tallies[class];
    char reason[160];
    struct verdict verdict = workload_judge(worker->plan->workload, class, drawn, reply, reason, sizeof(reason));

    connection->replied++;
    tally->replies++;
    histogram_record(tally->latency, now - connection->start_ns);
    if (now - connection->start_ns > connection->latency_ns_max)
        connection->latency_ns_max = now - connection->start_ns;
    tally->found += verdict.found;
    tally->missing += verdict.missing;
    if (verdict.error) {
        tally->errors++;
        line_keep(result->error_first, sizeof(result->error_first), reply);
    }
    if (verdict.wrong) {
        tally->wrong++;
        if (result->wrong_first[0] == 0)
            memcpy(result->wrong_first, reason, sizeof(result->wrong_first));
    }
    if (verdict.missing > 0 && result->missing_first[0] == 0)
        snprintf(result->missing_first, sizeof(result->missing_first), "key number %llu", (unsigned long long)drawn[0]);
}

/* Handles all complete replies. */
static void replies_take(struct worker *worker, struct connection *connection, int64_t now)
{
    const char *at = connection->in.data, *end = at + connection->in.size;
    enum status status = STATUS_TRUNCATED;

    while (at < end && (status = reply_scan(&connection->scan, at, (size_t)(end - at))) == STATUS_OK) {
        struct bytes reply = bytes_of(at, connection->scan.size);

        if (*at != '>') {           /* a push is not a reply to a request */
            if (connection->replied == connection->sent) {
                fail(worker, "the server sent a reply without a request");
                return;
            }
            reply_take(worker, connection, reply, now);
        }
        at += reply.size;
        connection->scan = (struct reply_scan){ 0 };
    }
    if (status == STATUS_CORRUPT) {
        fail(worker, "the server sent an invalid reply");
        return;
    }
    connection->in.size = (size_t)(end - at);
    if (connection->in.size > 0 && at > connection->in.data)
        memmove(connection->in.data, at, connection->in.size);
}

static void input_read(struct worker *worker, size_t index)
{
    struct connection *connection = &worker->connections[index];
    size_t room, before = connection->replied;
    ssize_t got;

    connection->latency_ns_max = 0;
    do {
        char *to = buffer_reserve(&connection->in, READ_SIZE);

        room = connection->in.capacity - connection->in.size;
        got = recv(connection->fd, to, room, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (got <= 0) {
            fail(worker, got == 0 || errno == ECONNRESET ? "the server closed the connection" : strerror(errno));
            return;
        }
        connection->in.size += (size_t)got;
        replies_take(worker, connection, clock_mono_ns());
    } while ((size_t)got == room && worker->failure[0] == 0);

    if (connection->replied == before)
        return;
    atomic_fetch_add_explicit(&worker->replies, connection->replied - before, memory_order_relaxed);
    if (worker->plan->period_ns > 0)
        result_note(&worker->result, (size_t)((clock_mono_ns() - worker->plan->start_ns) / worker->plan->period_ns),
            (struct period){ connection->replied - before, connection->latency_ns_max });
    if (connection->replied == connection->sent) {
        worker->idle[(worker->idle_first + worker->idle_count) % worker->count] = index;
        worker->idle_count++;
    }
}

/* ---- the loop */

static const uint64_t stop_mark = UINT64_MAX, timer_mark = UINT64_MAX - 1;

static void watch_other(struct worker *worker, int fd, uint64_t mark)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = mark };

    CHECK(epoll_ctl(worker->epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

static void worker_open(struct worker *worker)
{
    worker->epoll = epoll_create1(EPOLL_CLOEXEC);
    worker->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    CHECK(worker->epoll >= 0 && worker->timer >= 0);
    watch_other(worker, worker->plan->stop_event, stop_mark);
    watch_other(worker, worker->timer, timer_mark);
    for (size_t i = 0; i < worker->count; i++) {
        watch(worker, i, EPOLL_CTL_ADD);
        worker->idle[i] = i;
    }
    worker->idle_count = worker->count;
    worker->due_ns = (double)clock_mono_ns();
}

/* If a connection is idle and requests are left, the next event is that a batch is due or the time is over. The milliseconds
 * of epoll are too coarse for that.
 */
static void timer_arm(struct worker *worker)
{
    int64_t due = (int64_t)worker->due_ns < worker->plan->end_ns ? (int64_t)worker->due_ns : worker->plan->end_ns;
    struct itimerspec at = { .it_value = { .tv_sec = due / 1000000000, .tv_nsec = due % 1000000000 } };

    if (worker->over || worker->idle_count == 0)
        return;
    CHECK(timerfd_settime(worker->timer, TFD_TIMER_ABSTIME, &at, NULL) == 0);
}

static void worker_event(struct worker *worker, const struct epoll_event *event)
{
    if (event->data.u64 == stop_mark) {
        worker->over = true;
        worker->give_up_ns = clock_mono_ns() + drain_stop_ns;
        CHECK(epoll_ctl(worker->epoll, EPOLL_CTL_DEL, worker->plan->stop_event, NULL) == 0);
    } else if (event->data.u64 == timer_mark) {
        uint64_t times;

        (void)!read(worker->timer, &times, sizeof(times));
    } else {
        if (event->events & EPOLLOUT)
            output_flush(worker, (size_t)event->data.u64);
        if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            input_read(worker, (size_t)event->data.u64);
    }
}

static void worker_loop(struct worker *worker)
{
    batches_send(worker);
    while (worker->failure[0] == 0 && (!worker->over || worker->idle_count < worker->count)) {
        struct epoll_event events[EVENTS];
        int count;

        timer_arm(worker);
        count = epoll_wait(worker->epoll, events, EVENTS, worker->give_up_ns ? 100 : -1);
        for (int i = 0; i < count && worker->failure[0] == 0; i++) {
            worker_event(worker, &events[i]);
            batches_send(worker);       /* now, so that the server has work while the other events are handled */
        }
        if (worker->give_up_ns && clock_mono_ns() > worker->give_up_ns)
            fail(worker, "the server did not reply to all requests");
    }
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    ssize_t written;

    worker_open(worker);
    worker_loop(worker);
    worker->end_ns = clock_mono_ns();
    close(worker->epoll);
    close(worker->timer);
    written = write(worker->plan->done_event, &(uint64_t){ 1 }, sizeof(uint64_t));
    CHECK(written == sizeof(uint64_t));
    return NULL;
}

void worker_start(struct worker *worker)
{
    CHECK(pthread_create(&worker->thread, NULL, worker_main, worker) == 0);
}

void worker_stop(struct worker *worker)
{
    CHECK(pthread_join(worker->thread, NULL) == 0);
}

uint64_t worker_replies(const struct worker *worker)
{
    return atomic_load_explicit(&worker->replies, memory_order_relaxed);
}

const struct result *worker_result(const struct worker *worker)
{
    return &worker->result;
}

int64_t worker_end_ns(const struct worker *worker)
{
    return worker->end_ns;
}

const char *worker_failure(const struct worker *worker)
{
    return worker->failure[0] ? worker->failure : NULL;
}

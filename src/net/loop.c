#include "net/loop.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/blocking.h"
#include "engine/internal.h"
#include "net/connection.h"

static void end_turn(struct loop *loop)
{
    struct connection *dirty;
    struct turn *turn = &loop->worker.turn;
    struct aof *aof = loop->engine->aof;
    bool was_in_turn = loop->in_turn;
    uint64_t covered;
    bool log_failing;

    blocking_bring_home(&loop->worker);
    dirty = loop->dirty;
    if (!was_in_turn && dirty == NULL)
        return;
    covered = worker_end_turn(&loop->worker);
    log_failing = aof != NULL && aof_error(aof) != STATUS_OK;
    loop->in_turn = false;
    loop->dirty = NULL;
    while (dirty != NULL) {
        struct connection *connection = dirty;

        dirty = connection->next_dirty;
        connection->in_dirty = false;
        if (!connection_flush(connection, covered, log_failing))
            connection_mark_dirty(connection);
    }
    if (was_in_turn) {
        turn_count(turn, STAT_TURNS, 1);
        turn_count(turn, STAT_TURN_US, (uint64_t)(clock_mono_us() - turn->now_us));
    }
}

void loop_enter_turn(struct loop *loop)
{
    if (loop->in_turn)
        return;
    loop->in_turn = true;
    worker_begin_turn(&loop->worker);
}

static void on_prepare(uv_prepare_t *handle) { end_turn(handle->data); }
static void on_check(uv_check_t *handle) { end_turn(handle->data); }

static void close_all(struct loop *loop)
{
    struct client *client = loop->worker.clients;

    while (client != NULL) {
        struct client *next = client->next;

        connection_close((struct connection *)client);
        client = next;
    }
    uv_close((uv_handle_t *)&loop->bell, NULL);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->check, NULL);
    uv_close((uv_handle_t *)&loop->cron, NULL);
    uv_close((uv_handle_t *)&loop->alarm, NULL);
}

static void on_bell(uv_poll_t *handle, int status, int events)
{
    struct loop *loop = handle->data;
    uint64_t rings;

    (void)status, (void)events;
    if (read(loop->bell_fd, &rings, sizeof(rings)) < 0)
        CHECK(errno == EAGAIN || errno == EINTR);
    atomic_exchange(&loop->bell_rung, false);       /* before the mail is read: who posts some later rings again */
    loop_enter_turn(loop);
    worker_read_mail(&loop->worker);
    if (loop->stopping && !uv_is_closing((uv_handle_t *)&loop->bell)) {
        end_turn(loop);
        close_all(loop);
    }
}

static void check_clients(struct loop *loop)
{
    int64_t now_ms = loop->worker.turn.now_ms;
    struct client *client = loop->worker.clients;

    if (now_ms < loop->next_client_check_ms)
        return;
    loop->next_client_check_ms = now_ms + 1000;
    while (client != NULL) {
        struct client *next = client->next;

        connection_check((struct connection *)client, now_ms);
        client = next;
    }
    worker_measure_clients(&loop->worker);
}

static void on_cron(uv_timer_t *handle)
{
    struct loop *loop = handle->data;
    uint64_t period_ms = 1000 / (uint64_t)config_number(loop->engine->config, CONFIG_HZ);

    loop_enter_turn(loop);
    engine_cron(&loop->worker);
    check_clients(loop);
    if (loop->on_cron != NULL)
        loop->on_cron(loop, loop->cron_context);
    if (!uv_is_closing((uv_handle_t *)handle))
        uv_timer_start(handle, on_cron, period_ms > 0 ? period_ms : 1, 0);
}

static void ring(void *context)
{
    struct loop *loop = context;

    uint64_t one = 1;

    if (!atomic_exchange(&loop->bell_rung, true))
        CHECK(write(loop->bell_fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
}

static void on_alarm(uv_timer_t *handle)
{
    struct loop *loop = handle->data;

    loop_enter_turn(loop);
    blocking_alarm(&loop->worker);
}

static void set_alarm(void *context, int64_t at_us)
{
    struct loop *loop = context;
    int64_t wait_us = at_us - clock_mono_us();

    if (uv_is_closing((uv_handle_t *)&loop->alarm))
        return;
    uv_update_time(&loop->uv);          /* a timer counts from when the turn began otherwise */
    uv_timer_start(&loop->alarm, on_alarm, wait_us > 0 ? (uint64_t)(wait_us + 999) / 1000 : 0, 0);
}

static void resume(struct client *client)
{
    struct connection *connection = (struct connection *)client;

    if (connection->closing || !client->parked)
        return;
    connection_process(connection);
    connection_mark_dirty(connection);
}

static void close_client(struct client *client)
{
    connection_close((struct connection *)client);
}

static void output_came(struct client *client)
{
    struct connection *connection = (struct connection *)client;

    if (!connection->closing)
        connection_mark_dirty(connection);
}

struct loop *loop_create(struct engine *engine, int index)
{
    struct loop *loop = mem_zalloc(sizeof(*loop));

    loop->engine = engine;
    worker_init(&loop->worker, engine, index);
    CHECK(uv_loop_init(&loop->uv) == 0);
    loop->bell_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK(loop->bell_fd >= 0 && uv_poll_init(&loop->uv, &loop->bell, loop->bell_fd) == 0);
    uv_poll_start(&loop->bell, UV_READABLE, on_bell);
    uv_prepare_init(&loop->uv, &loop->prepare);
    uv_check_init(&loop->uv, &loop->check);
    uv_timer_init(&loop->uv, &loop->cron);
    uv_timer_init(&loop->uv, &loop->alarm);
    loop->bell.data = loop->prepare.data = loop->check.data = loop->cron.data = loop->alarm.data = loop;
    uv_prepare_start(&loop->prepare, on_prepare);
    uv_check_start(&loop->check, on_check);
    uv_timer_start(&loop->cron, on_cron, 1, 0);
    loop->worker.ring = ring;
    loop->worker.ring_context = loop;
    loop->worker.set_alarm = set_alarm;
    loop->worker.resume = resume;
    loop->worker.discard = connection_discard;
    loop->worker.close = close_client;
    loop->worker.output_came = output_came;
    return loop;
}

void loop_destroy(struct loop *loop)
{
    CHECK(uv_loop_close(&loop->uv) == 0);
    close(loop->bell_fd);
    worker_release(&loop->worker);
    mem_free(loop);
}

void loop_run(struct loop *loop)
{
    meter_join(loop->engine->meter);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    meter_leave(loop->engine->meter);
}

static void thread_main(void *context) { loop_run(context); }

void loop_start(struct loop *loop)
{
    CHECK(uv_thread_create(&loop->thread, thread_main, loop) == 0);
}

void loop_join(struct loop *loop)
{
    uv_thread_join(&loop->thread);
}

struct stop_message {
    struct message message;
    struct loop *loop;
};

static void run_stop(struct message *message, struct worker *worker)
{
    struct stop_message *stop = (struct stop_message *)message;

    (void)worker;
    stop->loop->stopping = true;
    mem_free(stop);
}

void loop_stop(struct loop *loop)
{
    struct stop_message *stop = mem_zalloc(sizeof(*stop));

    stop->message.run = run_stop;
    stop->loop = loop;
    worker_post(&loop->worker, &stop->message);
}

void loop_sweep(struct loop *loop)
{
    loop_enter_turn(loop);
    worker_read_mail(&loop->worker);
    end_turn(loop);                             /* lets go of clients whose output still waited for the log when they were closed */
    uv_run(&loop->uv, UV_RUN_DEFAULT);          /* closes the sockets that were among the mail */
}

struct accept_message {
    struct message message;
    struct loop *loop;
    struct accepted accepted;
};

static void run_accept(struct message *message, struct worker *worker)
{
    struct accept_message *accept = (struct accept_message *)message;

    (void)worker;
    connection_open(accept->loop, accept->accepted);
    mem_free(accept);
}

void loop_accept(struct loop *loop, struct accepted accepted)
{
    struct accept_message *accept = mem_zalloc(sizeof(*accept));

    accept->message.run = run_accept;
    accept->loop = loop;
    accept->accepted = accepted;
    worker_post(&loop->worker, &accept->message);
}

#include "net/loop.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "base/meter.h"
#include "engine/blocking.h"
#include "engine/cron.h"
#include "engine/deadlines.h"
#include "engine/delivery.h"
#include "engine/engine.h"
#include "engine/expiry.h"
#include "engine/memory.h"
#include "engine/parking.h"
#include "engine/tracking.h"
#include "engine/transaction.h"
#include "engine/unit.h"
#include "net/connection.h"
#include "replication/primary.h"

enum {
    READ_SIZE_MIN = 4 * 1024,
    OUTPUT_MAX_MIN = 16 * 1024,
    HANDSHAKES_US = 1000,           /* of one turn: then clients that are connected have their turn */
};

static void on_visit(uv_idle_t *handle);
static void pace_soon(void *context);

/* Feeds the replicas of this loop, and wakes other loops, when the stream has grown. */
static void feed_replicas(struct loop *loop)
{
    struct engine *engine = loop->engine;

    for (struct client *client = loop->worker.replicas; UNLIKELY(client != NULL); client = client->next_replica)
        connection_mark_dirty((struct connection *)client);
    if (!history_is_on(&engine->history) || loop->stream_told == history_handed(&engine->history))
        return;
    loop->stream_told = history_handed(&engine->history);
    primary_end_turn(&loop->worker);
}

void loop_end_turn(struct loop *loop)
{
    struct connection *dirty;
    struct turn *turn = &loop->worker.turn;
    struct aof *aof = loop->engine->aof;
    uint64_t covered;
    bool log_failing, was_in_turn;

    gather_run(loop);
    was_in_turn = loop->in_turn;
    blocking_deliver(&loop->worker);
    if (was_in_turn) {
        tracking_end_turn(&loop->worker);
        delivery_run(&loop->worker);
    }
    dirty = loop->dirty;
    if (!was_in_turn && dirty == NULL)
        return;
    covered = worker_end_turn(&loop->worker);
    feed_replicas(loop);
    dirty = loop->dirty;
    log_failing = aof != NULL && aof_error(aof) != STATUS_OK;
    loop->in_turn = false;
    loop->turn_output = 0;
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
        turn_count(turn, STAT_TURN_US, (uint64_t)(ticks_now_ns(&loop->worker.clock.ticks) / 1000 - turn->now_us));
    }
}

/* Computes the bytes that each client may have in its buffers before it has to wait: few if the clients are many. */
static void share_memory(struct loop *loop)
{
    struct engine *engine = loop->engine;
    uint64_t clients = (uint64_t)atomic_load_explicit(&engine->clients.count, memory_order_relaxed), share = client_memory_max(engine) / 4;
    uint64_t most = (uint64_t)config_number(engine->config, CONFIG_CLIENT_OUTPUT_PENDING_MAX);

    share = clients > 1 ? share / clients : share;
    loop->read_size = share >= LOOP_READ_SIZE ? LOOP_READ_SIZE : share < READ_SIZE_MIN ? READ_SIZE_MIN : (size_t)share;
    loop->closes_large = client_memory_limit(engine) > 0;
    loop->output_max = most == 0 ? UINT64_MAX : share >= most ? most : share < OUTPUT_MAX_MIN ? OUTPUT_MAX_MIN : share;
}

void loop_enter_turn(struct loop *loop)
{
    if (loop->in_turn)
        return;
    loop->in_turn = true;
    worker_begin_turn(&loop->worker);
    share_memory(loop);
}

static void link_last(struct connection **first, struct connection **last, struct connection *connection)
{
    connection->next_queued = NULL;
    connection->prev_queued = *last;
    if (*last != NULL)
        (*last)->next_queued = connection;
    else
        *first = connection;
    *last = connection;
}

static void unlink_from(struct connection **first, struct connection **last, struct connection *connection)
{
    if (connection->prev_queued != NULL)
        connection->prev_queued->next_queued = connection->next_queued;
    else
        *first = connection->next_queued;
    if (connection->next_queued != NULL)
        connection->next_queued->prev_queued = connection->prev_queued;
    else
        *last = connection->prev_queued;
}

void loop_queue(struct connection *connection)
{
    struct loop *loop = connection->loop;

    if (connection->queued || connection->waits_for_room || connection->closing)
        return;
    connection->queued = true;
    link_last(&loop->backlog, &loop->backlog_last, connection);
    loop->backlog_count++;
    if (!uv_is_closing((uv_handle_t *)&loop->visit))
        uv_idle_start(&loop->visit, on_visit);
}

void loop_unqueue(struct connection *connection)
{
    struct loop *loop = connection->loop;

    if (!connection->queued)
        return;
    connection->queued = false;
    loop->backlog_count--;
    unlink_from(&loop->backlog, &loop->backlog_last, connection);
}

void loop_wait_for_room(struct connection *connection)
{
    loop_unqueue(connection);
    connection->waits_for_room = true;
    link_last(&connection->loop->room, &connection->loop->room_last, connection);
    pace_soon(connection->loop);
}

void loop_leave_room(struct connection *connection)
{
    struct loop *loop = connection->loop;

    if (!connection->waits_for_room)
        return;
    connection->waits_for_room = false;
    unlink_from(&loop->room, &loop->room_last, connection);
    if (loop->room == NULL)
        loop->engine->memory.wanted = 0;
}

void loop_queue_handshake(struct connection *connection)
{
    struct loop *loop = connection->loop;

    if (connection->waits_for_handshake || connection->closing)
        return;
    connection->waits_for_handshake = true;
    link_last(&loop->handshakes, &loop->handshakes_last, connection);
    if (!uv_is_closing((uv_handle_t *)&loop->visit))
        uv_idle_start(&loop->visit, on_visit);
}

void loop_leave_handshakes(struct connection *connection)
{
    if (!connection->waits_for_handshake)
        return;
    connection->waits_for_handshake = false;
    unlink_from(&connection->loop->handshakes, &connection->loop->handshakes_last, connection);
}

static void shake_hands(struct loop *loop)
{
    int64_t began_us = clock_mono_us();

    while (loop->handshakes != NULL && clock_mono_us() - began_us < HANDSHAKES_US) {
        struct connection *connection = loop->handshakes;

        loop_leave_handshakes(connection);
        connection_shake_hands(connection);
    }
}

/* Before the loop looks for new input: one visit to each of those that were in the backlog. */
static void on_visit(uv_idle_t *handle)
{
    struct loop *loop = handle->data;

    loop_enter_turn(loop);
    for (size_t visits = loop->backlog_count; visits > 0 && loop->backlog != NULL; visits--) {
        struct connection *connection = loop->backlog;

        loop_unqueue(connection);
        connection_go_on(connection);
        loop_enter_turn(loop);
    }
    if (loop->handshakes != NULL)
        shake_hands(loop);
    if (loop->backlog == NULL && loop->handshakes == NULL)
        uv_idle_stop(handle);
}

static void on_prepare(uv_prepare_t *handle) { loop_end_turn(handle->data); }
static void on_check(uv_check_t *handle) { loop_end_turn(handle->data); }

static void on_pace(uv_timer_t *handle)
{
    struct loop *loop = handle->data;

    loop_enter_turn(loop);
    while (loop->room != NULL && connection_let_in(loop->room))
        ;
    if (parking_resume(&loop->worker, PARKED_FOR_MEMORY) || loop->room != NULL)
        uv_timer_start(handle, on_pace, 1, 0);
}

static void pace_soon(void *context)
{
    struct loop *loop = context;

    if (!uv_is_active((uv_handle_t *)&loop->pace) && !uv_is_closing((uv_handle_t *)&loop->pace))
        uv_timer_start(&loop->pace, on_pace, 1, 0);
}

static void on_expire(uv_timer_t *handle)
{
    struct loop *loop = handle->data;

    loop_enter_turn(loop);
    expiry_continue(&loop->worker);
}

static void expire_soon(void *context, int64_t pause_ms)
{
    struct loop *loop = context;

    if (uv_is_closing((uv_handle_t *)&loop->expire))
        return;
    uv_update_time(&loop->uv);          /* the pause begins now, not when the turn began */
    uv_timer_start(&loop->expire, on_expire, (uint64_t)pause_ms, 0);
}

static void close_all(struct loop *loop)
{
    struct client *client = loop->worker.clients;

    while (client != NULL) {
        struct client *next = client->next;

        connection_close((struct connection *)client);
        client = next;
    }
    if (loop->has_reads)
        uv_close((uv_handle_t *)&loop->reads, NULL);
    worker_close_reader(&loop->worker);
    uv_close((uv_handle_t *)&loop->bell, NULL);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->check, NULL);
    uv_close((uv_handle_t *)&loop->cron, NULL);
    uv_close((uv_handle_t *)&loop->alarm, NULL);
    uv_close((uv_handle_t *)&loop->visit, NULL);
    uv_close((uv_handle_t *)&loop->pace, NULL);
    uv_close((uv_handle_t *)&loop->expire, NULL);
}

static void on_bell(uv_poll_t *handle, int status, int events)
{
    struct loop *loop = handle->data;
    uint64_t rings;

    (void)status, (void)events;
    if (read(loop->bell_fd, &rings, sizeof(rings)) < 0)
        CHECK(errno == EAGAIN || errno == EINTR);
    atomic_exchange(&loop->bell_rung, false);       /* before the mail is read: a thread that posts mail later rings again */
    loop_enter_turn(loop);
    worker_read_mail(&loop->worker);
    if (loop->stopping && !uv_is_closing((uv_handle_t *)&loop->bell)) {
        worker_abandon_units(&loop->worker);
        loop_end_turn(loop);
        close_all(loop);
    }
}

/* Cold keys were read: their clients go on. */
static void on_reads(uv_poll_t *handle, int status, int events)
{
    struct loop *loop = handle->data;

    (void)status, (void)events;
    loop_enter_turn(loop);
    worker_read_mail(&loop->worker);
}

static void check_clients(struct loop *loop)
{
    int64_t now_us = loop->worker.turn.now_us;
    struct client *client = loop->worker.clients;

    if (now_us < loop->next_client_check_us)
        return;
    loop->next_client_check_us = now_us + 1000000;
    while (client != NULL) {
        struct client *next = client->next;

        connection_check((struct connection *)client, now_us);
        client = next;
    }
    worker_measure_clients(&loop->worker);
}

static void on_cron(uv_timer_t *handle)
{
    struct loop *loop = handle->data;
    uint64_t period_ms = 1000 / (uint64_t)config_number(loop->engine->config, CONFIG_HZ);

    loop_enter_turn(loop);
    cron_tick(&loop->worker);
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
    deadlines_alarm(&loop->worker);
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

void loop_evict(struct connection *connection, const char *why)
{
    struct loop *loop = connection->loop;

    log_write(loop->engine->log, LOG_LEVEL_WARNING, "Evicting client: id=%llu addr=%s: it %s", (unsigned long long)connection->client.id,
        connection->client.address, why);
    turn_count(&loop->worker.turn, STAT_EVICTED_CLIENTS, 1);
    connection_close(connection);
}

static void poll_reads(struct loop *loop)
{
    int descriptor = worker_open_reader(&loop->worker, false);

    if (descriptor < 0)
        return;
    CHECK(uv_poll_init(&loop->uv, &loop->reads, descriptor) == 0);
    loop->reads.data = loop;
    loop->has_reads = true;
    uv_poll_start(&loop->reads, UV_READABLE, on_reads);
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
    uv_timer_init(&loop->uv, &loop->pace);
    uv_timer_init(&loop->uv, &loop->expire);
    uv_idle_init(&loop->uv, &loop->visit);
    loop->bell.data = loop->prepare.data = loop->check.data = loop->cron.data = loop->alarm.data = loop;
    loop->pace.data = loop->expire.data = loop->visit.data = loop;
    loop->read_size = LOOP_READ_SIZE;
    loop->output_max = UINT64_MAX;
    uv_prepare_start(&loop->prepare, on_prepare);
    uv_check_start(&loop->check, on_check);
    uv_timer_start(&loop->cron, on_cron, 1, 0);
    loop->worker.mailbox.ring = ring;
    loop->worker.mailbox.ring_context = loop;
    loop->worker.host.loop = loop;
    loop->worker.host.pace_soon = pace_soon;
    loop->worker.host.expire_soon = expire_soon;
    loop->worker.host.set_alarm = set_alarm;
    loop->worker.host.resume = resume;
    loop->worker.host.discard = connection_discard;
    loop->worker.host.close = close_client;
    loop->worker.host.output_came = output_came;
    poll_reads(loop);
    return loop;
}

void loop_destroy(struct loop *loop)
{
    CHECK(uv_loop_close(&loop->uv) == 0);
    close(loop->bell_fd);
    worker_release(&loop->worker);
    buffer_release(&loop->tls_out);
    mem_free(loop->tls_read_buffer);
    mem_free(loop);
}

void loop_run(struct loop *loop)
{
    loop->worker.allocated = meter_own_allocated();
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    loop->worker.allocated = &meter_nothing_allocated;
}

static void loop_main(void *context)
{
    loop_run(context);
}

int loop_start(struct loop *loop)
{
    return thread_start(&loop->thread, "kelvin-worker", loop->engine->meter, loop_main, loop);
}

void loop_join(struct loop *loop)
{
    if (!loop->thread.has_started)
        loop_run(loop);             /* it has mail from loop_stop */
    thread_join(&loop->thread);
}

struct stop_mail {
    struct mail mail;
    struct loop *loop;
};

static void run_stop(struct mail *mail, struct worker *worker)
{
    struct stop_mail *stop = (struct stop_mail *)mail;

    (void)worker;
    stop->loop->stopping = true;
    mem_free(stop);
}

void loop_stop(struct loop *loop)
{
    struct stop_mail *stop = mem_zalloc(sizeof(*stop));

    stop->mail.run = run_stop;
    stop->loop = loop;
    mailbox_post(&loop->worker.mailbox, &stop->mail);
}

void loop_sweep(struct loop *loop)
{
    loop_enter_turn(loop);
    worker_read_mail(&loop->worker);
    loop_end_turn(loop);                             /* releases clients whose output still waited for the log when they were closed */
    uv_run(&loop->uv, UV_RUN_DEFAULT);          /* closes the sockets that were among the mail */
}

struct accept_mail {
    struct mail mail;
    struct loop *loop;
    struct accepted accepted;
};

static void run_accept(struct mail *mail, struct worker *worker)
{
    struct accept_mail *accept = (struct accept_mail *)mail;

    (void)worker;
    connection_open(accept->loop, accept->accepted);
    mem_free(accept);
}

void loop_accept(struct loop *loop, struct accepted accepted)
{
    struct accept_mail *accept = mem_zalloc(sizeof(*accept));

    accept->mail.run = run_accept;
    accept->loop = loop;
    accept->accepted = accepted;
    mailbox_post(&loop->worker.mailbox, &accept->mail);
}

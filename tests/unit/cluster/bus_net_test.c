/* Peers on the bus port of a node that are no nodes, or bad ones. */
#include "cluster/bus_net.h"

#include "support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "cluster/bus_message.h"
#include "support/certificate.h"
#include "support/cluster_box.h"
#include "support/seed.h"

enum { LIMIT_MS = 60000, TRY_US = 5000, STRANGERS = 300, TIMEOUT_MS = 1000 };

static void start_box(struct cluster_box *box)
{
    cluster_box_init(box);
    box->timeout_ms = box->timeout_ms > 0 ? box->timeout_ms : TIMEOUT_MS;
    cluster_box_start(box);
}

static int connect_to(const struct cluster_box *box)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(box->bus_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

/* Waits until the node has closed the connection, and reads what it sends before; what is left of the input of a node that closes becomes a reset. */
static size_t read_until_closed(int fd)
{
    char data[4096];
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    size_t size = 0;
    ssize_t got;

    do {
        assert_int_equal(poll(&poll_fd, 1, LIMIT_MS), 1);
        got = recv(fd, data, sizeof(data), 0);
        size += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    assert_true(got == 0 || errno == ECONNRESET);
    close(fd);
    return size;
}

static void write_ping(struct buffer *out, char id)
{
    struct bus_message message = { .type = BUS_PING, .flags = NODE_MASTER, .port = 1, .bus_port = 2 };

    memset(message.sender.text, id, NODE_ID_SIZE);
    bus_message_write(&message, out);
}

/* The node replies to a PING of a stranger. */
static void check_replies(struct cluster_box *box)
{
    struct buffer ping = { 0 };
    char reply[BUS_PREFIX_SIZE];
    int fd = connect_to(box);

    write_ping(&ping, 'f');
    assert_int_equal(send(fd, ping.data, ping.size, MSG_NOSIGNAL), ping.size);
    assert_int_equal(recv(fd, reply, sizeof(reply), MSG_WAITALL), sizeof(reply));
    assert_memory_equal(reply, "RCmb", 4);
    close(fd);
    buffer_release(&ping);
}

static void what_is_no_message_closes_the_connection(void **state)
{
    struct cluster_box box = { 0 };
    struct buffer good = { 0 };
    struct random random;
    uint64_t seed = seed_new();

    random_init(&random, seed);
    start_box(&box);
    write_ping(&good, 'f');
    for (int round = 0; round < 300; round++) {
        struct buffer bytes = { 0 };
        int fd = connect_to(&box);

        switch (random_below(&random, 4)) {
        case 0:                                         /* no signature */
            for (int i = 0; i < 100; i++)
                buffer_append_u8(&bytes, (uint8_t)(random_next(&random) | 1));
            break;
        case 1:                                         /* too large for a stranger */
            buffer_append(&bytes, good.data, good.size);
            memcpy(bytes.data + 4, "\x00\x40\x00\x00", 4);
            break;
        case 2:                                         /* too small */
            buffer_append(&bytes, good.data, good.size);
            memcpy(bytes.data + 4, "\x00\x00\x00\x10", 4);
            break;
        case 3:                                         /* an ID that is none, after a good message */
            buffer_append(&bytes, good.data, good.size);
            buffer_append(&bytes, good.data, good.size);
            bytes.data[good.size + 40 + random_below(&random, NODE_ID_SIZE)] = ' ';
            break;
        }
        assert_int_equal(send(fd, bytes.data, bytes.size, MSG_NOSIGNAL), bytes.size);
        read_until_closed(fd);
        buffer_release(&bytes);
    }
    check_replies(&box);
    cluster_box_release(&box);
    buffer_release(&good);
}

static void a_message_in_small_parts_is_read_and_later_versions_are_ignored(void **state)
{
    struct cluster_box box = { .timeout_ms = LIMIT_MS };
    struct buffer bytes = { 0 };
    char reply[BUS_PREFIX_SIZE];
    int fd;

    start_box(&box);
    fd = connect_to(&box);
    write_ping(&bytes, 'f');
    bytes.data[9] = 7;                                  /* version */
    write_ping(&bytes, 'f');
    for (size_t at = 0; at < bytes.size; at += 97)
        assert_true(send(fd, bytes.data + at, bytes.size - at < 97 ? bytes.size - at : 97, MSG_NOSIGNAL) > 0);
    assert_int_equal(recv(fd, reply, sizeof(reply), MSG_WAITALL), sizeof(reply));
    assert_int_equal(reply[15 - 2], BUS_PONG);
    close(fd);
    cluster_box_release(&box);
    buffer_release(&bytes);
}

/* One byte now and then: the connection is closed after the timeout, though bytes have come all the time. */
static void a_stranger_has_to_send_a_message_in_time(void **state)
{
    struct cluster_box box = { 0 };
    struct buffer ping = { 0 };
    struct pollfd poll_fd = { .events = POLLIN };
    int64_t begin_ms = clock_mono_us() / 1000;
    size_t sent = 0;
    int silent;

    start_box(&box);
    write_ping(&ping, 'f');
    silent = connect_to(&box);
    poll_fd.fd = connect_to(&box);
    while (poll(&poll_fd, 1, 20) == 0 && sent < ping.size && clock_mono_us() / 1000 < begin_ms + LIMIT_MS)
        sent += send(poll_fd.fd, ping.data + sent, 1, MSG_NOSIGNAL) > 0;
    assert_int_equal(read_until_closed(poll_fd.fd), 0);
    assert_true(sent < ping.size);
    assert_int_equal(read_until_closed(silent), 0);
    assert_true(clock_mono_us() / 1000 - begin_ms >= TIMEOUT_MS);
    cluster_box_release(&box);
    buffer_release(&ping);
}

static void of_too_many_strangers_the_oldest_are_closed(void **state)
{
    struct cluster_box box = { .timeout_ms = LIMIT_MS * 10 };
    int fds[STRANGERS];

    start_box(&box);
    for (int i = 0; i < STRANGERS; i++)
        fds[i] = connect_to(&box);
    for (int i = 0; i < STRANGERS - 256; i++)
        read_until_closed(fds[i]);
    check_replies(&box);
    for (int i = STRANGERS - 256 + 1; i < STRANGERS; i++) {
        char byte;

        assert_int_equal(recv(fds[i], &byte, 1, MSG_DONTWAIT), -1);
        assert_int_equal(errno, EAGAIN);
    }
    for (int i = STRANGERS - 256; i < STRANGERS; i++)
        close(fds[i]);
    cluster_box_release(&box);
}

/* Their unfinished messages together may not take more than 16 MiB. */
static void strangers_with_large_unfinished_messages_are_closed(void **state)
{
    enum { COUNT = 100, SIZE = 250 << 10 };
    struct cluster_box box = { .timeout_ms = LIMIT_MS * 10 };
    struct buffer bytes = { 0 };
    int64_t begin_ms = clock_mono_us() / 1000;
    int fds[COUNT], closed = 0;

    start_box(&box);
    write_ping(&bytes, 'f');
    buffer_reserve(&bytes, SIZE);
    memset(bytes.data + bytes.size, 0, SIZE - bytes.size);
    bytes.size = SIZE - 1;
    memcpy(bytes.data + 4, (const char[]){ 0, (char)(SIZE >> 16), (char)(SIZE >> 8 & 0xff), (char)(SIZE & 0xff) }, 4);
    bytes.data[14] = 9, bytes.data[15] = 0x60;          /* 2400 entries of gossip */
    for (int i = 0; i < COUNT; i++) {
        size_t sent = 0;

        fds[i] = connect_to(&box);
        for (ssize_t got = 0; sent < bytes.size && got >= 0; sent += got > 0 ? (size_t)got : 0)
            got = send(fds[i], bytes.data + sent, bytes.size - sent, MSG_NOSIGNAL);
    }
    while (closed < COUNT - (16 << 20) / SIZE - 1) {            /* one that is closed has its end to be read at once */
        closed = 0;
        for (int i = 0; i < COUNT; i++) {
            struct pollfd poll_fd = { .fd = fds[i], .events = POLLIN };

            closed += poll(&poll_fd, 1, 0) == 1;
        }
        assert_true(clock_mono_us() / 1000 < begin_ms + LIMIT_MS);
        usleep(TRY_US);
    }
    assert_true(closed <= COUNT - (16 << 20) / SIZE + 1);
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
    check_replies(&box);
    cluster_box_release(&box);
    buffer_release(&bytes);
}

/* A PING that was ignored has no reply, and its sender would wait for ever if the connection stayed. */
static void a_message_that_is_lost_while_the_workers_hang_closes_its_connection(void **state)
{
    struct cluster_box box = { .timeout_ms = LIMIT_MS * 10 };
    struct buffer ping = { 0 };
    int fd;

    start_box(&box);
    write_ping(&ping, 'f');
    fd = connect_to(&box);
    box.hangs = true;
    cluster_box_wait_count(&box.asked, 2);
    assert_int_equal(send(fd, ping.data, ping.size, MSG_NOSIGNAL), ping.size);
    cluster_box_wait_count(&box.asked, box.asked + 3);          /* it was read between two of these ticks */
    box.hangs = false;
    assert_int_equal(read_until_closed(fd), 0);
    check_replies(&box);
    cluster_box_release(&box);
    buffer_release(&ping);
}

/* Sends PINGs until the node takes no more, because it does not read from one that does not take its replies. */
static void a_peer_that_reads_no_replies_is_not_read_from(void **state)
{
    struct cluster_box box = { .timeout_ms = LIMIT_MS * 10 };
    struct buffer pings = { 0 };
    struct pollfd poll_fd = { .events = POLLOUT };
    int size = 16 << 10;
    uint64_t sent = 0;

    start_box(&box);
    for (int i = 0; i < 20; i++)
        write_ping(&pings, 'f');
    poll_fd.fd = connect_to(&box);
    assert_int_equal(setsockopt(poll_fd.fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
    while (poll(&poll_fd, 1, 1000) == 1) {
        ssize_t got = send(poll_fd.fd, pings.data + sent % pings.size, pings.size - sent % pings.size, MSG_NOSIGNAL | MSG_DONTWAIT);

        assert_true(got > 0 || errno == EAGAIN);
        sent += got > 0 ? (uint64_t)got : 0;
        assert_true(sent < 200 << 20);
        assert_true(cluster_totals(box.cluster).link_buffer_bytes < 1 << 20);
    }
    assert_true(cluster_totals(box.cluster).link_buffer_bytes > 64 << 10);
    check_replies(&box);
    close(poll_fd.fd);
    cluster_box_release(&box);
    buffer_release(&pings);
}

/* A socket that listens, as the bus port of a node that accepts no connection: the system does. */
static int listen_anywhere(uint16_t *port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 100) == 0 && getsockname(fd, (struct sockaddr *)&at, &size) == 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void publish(struct cluster_box *box, size_t size)
{
    struct buffer text = { 0 };

    memset(buffer_reserve(&text, size), 'x', size);
    text.size = size;
    bus_publish(cluster_lock(box->cluster), BYTES("news"), buffer_bytes(&text), false);
    assert_int_equal(cluster_unlock(box->cluster), STATUS_OK);
    buffer_release(&text);
}

static uint64_t link_to(struct cluster_box *box, const char *id)
{
    struct bus *bus = cluster_lock(box->cluster);
    struct bus_link_view view;
    uint64_t link = 0;

    for (unsigned i = 0; bus_link_view(bus, i, &view); i++) {
        if (view.is_outgoing && view.node != NULL && memcmp(view.node->id.text, id, NODE_ID_SIZE) == 0)
            link = view.link;
    }
    (void)cluster_unlock(box->cluster);
    return link;
}

/* Sends more than the peer takes, which does not read. A young link may still be replaced, by a change of the peer's address. */
static uint64_t fill_link(struct cluster_box *box, const char *id, uint64_t *allocated, uint64_t *used)
{
    for (;;) {
        uint64_t link = link_to(box, id);

        if (link != 0)
            publish(box, 20 << 20);
        while (link != 0 && cluster_link_queue(box->cluster, link, allocated, used)) {
            if (*used >= 1 << 20)
                return link;
        }
        usleep(TRY_US);
    }
}

static void a_link_whose_queue_is_too_long_is_closed_and_counted(void **state)
{
    static struct cluster_box boxes[2] = { { .timeout_ms = LIMIT_MS * 10 }, { .timeout_ms = LIMIT_MS * 10 } };    /* their threads outlive a failure */
    uint64_t link, allocated, used = 0;

    start_box(&boxes[0]);
    start_box(&boxes[1]);
    cluster_box_meet(&boxes[0], boxes[1].port, boxes[1].bus_port);
    cluster_box_wait_nodes(&boxes[0], " connected", 2);
    cluster_box_wait_node(&boxes[0], boxes[1].id, "connected");
    cluster_lock(boxes[1].cluster);                 /* it reads no more */
    link = fill_link(&boxes[0], boxes[1].id, &allocated, &used);
    assert_true(allocated >= used);
    assert_true(cluster_totals(boxes[0].cluster).link_buffer_bytes >= used);
    cluster_set_link_buffer_max(boxes[0].cluster, 1 << 20);
    publish(&boxes[0], 1);
    while (cluster_totals(boxes[0].cluster).links_over_limit == 0) {
        uint64_t next = link_to(&boxes[0], boxes[1].id);

        if (next != 0 && next != link)          /* it was replaced: each link gets one message that is too long */
            publish(&boxes[0], 20 << 20);
        link = next != 0 ? next : link;
        usleep(TRY_US);
    }
    assert_int_equal(cluster_totals(boxes[0].cluster).links_over_limit, 1);
    (void)cluster_unlock(boxes[1].cluster);
    cluster_box_wait_info(&boxes[0], "total_cluster_links_buffer_limit_exceeded:1");
    while (link_to(&boxes[0], boxes[1].id) == link)
        usleep(TRY_US);
    cluster_box_wait_nodes(&boxes[0], " connected", 2);             /* again */
    cluster_box_release(&boxes[0]);
    cluster_box_release(&boxes[1]);
}

static void connecting_to_one_that_shakes_no_hands_ends_in_time(void **state)
{
    struct cluster_box box = { .timeout_ms = 3000 };
    struct certificate certificate;
    uint16_t port;
    int ear = listen_anywhere(&port), fd;
    char byte;

    certificate_create(&certificate);
    box.certificate = &certificate;
    start_box(&box);
    cluster_box_meet(&box, 1, port);
    fd = accept(ear, NULL, NULL);
    assert_true(fd >= 0);
    assert_int_equal(recv(fd, &byte, 1, MSG_PEEK), 1);              /* it says hello */
    assert_true(read_until_closed(fd) > 0);                         /* and gives up */
    fd = accept(ear, NULL, NULL);                                   /* and tries again */
    assert_true(fd >= 0);
    close(fd);
    close(ear);
    cluster_box_release(&box);
    certificate_remove(&certificate);
}

static void a_stranger_without_tls_is_closed(void **state)
{
    struct cluster_box box = { .timeout_ms = LIMIT_MS * 10 };
    struct certificate certificate;
    struct buffer ping = { 0 };
    int fd;

    certificate_create(&certificate);
    box.certificate = &certificate;
    start_box(&box);
    fd = connect_to(&box);
    write_ping(&ping, 'f');
    assert_int_equal(send(fd, ping.data, ping.size, MSG_NOSIGNAL), ping.size);
    assert_true(read_until_closed(fd) < 100);                       /* an alert */
    cluster_box_release(&box);
    certificate_remove(&certificate);
    buffer_release(&ping);
}

/* The test's end of the connection is there already; the node's would be one descriptor too many. */
static void without_descriptors_connections_wait(void **state)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct cluster_box box = { .timeout_ms = LIMIT_MS };
    struct pollfd poll_fd = { .events = POLLIN };
    struct buffer ping = { 0 };
    struct rlimit old, low;

    start_box(&box);
    at.sin_port = htons(box.bus_port);
    write_ping(&ping, 'f');
    poll_fd.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = (rlim_t)poll_fd.fd + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(connect(poll_fd.fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(send(poll_fd.fd, ping.data, ping.size, MSG_NOSIGNAL), ping.size);
    assert_int_equal(poll(&poll_fd, 1, 250), 0);
    assert_int_equal(cluster_totals(box.cluster).link_count, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(poll(&poll_fd, 1, LIMIT_MS), 1);
    close(poll_fd.fd);
    cluster_box_release(&box);
    buffer_release(&ping);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_message_closes_the_connection),
        cmocka_unit_test(a_message_in_small_parts_is_read_and_later_versions_are_ignored),
        cmocka_unit_test(a_stranger_has_to_send_a_message_in_time),
        cmocka_unit_test(of_too_many_strangers_the_oldest_are_closed),
        cmocka_unit_test(strangers_with_large_unfinished_messages_are_closed),
        cmocka_unit_test(a_message_that_is_lost_while_the_workers_hang_closes_its_connection),
        cmocka_unit_test(a_peer_that_reads_no_replies_is_not_read_from),
        cmocka_unit_test(a_link_whose_queue_is_too_long_is_closed_and_counted),
        cmocka_unit_test(connecting_to_one_that_shakes_no_hands_ends_in_time),
        cmocka_unit_test(a_stranger_without_tls_is_closed),
        cmocka_unit_test(without_descriptors_connections_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

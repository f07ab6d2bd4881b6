#include "replication/link.h"

#include "support/unit.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/mem.h"
#include "stream/history.h"
#include "support/faulty_disk.h"
#include "support/link_recorder.h"

#define ID "0123456789abcdef0123456789abcdef01234567"
#define OTHER "ffffffffffffffffffffffffffffffffffffffff"
#define MARK "MMMMMMMMMMmmmmmmmmmm0123456789+++++-----"
#define CAPA "*7\r\n$8\r\nREPLCONF\r\n$4\r\ncapa\r\n$3\r\neof\r\n$4\r\ncapa\r\n$6\r\npsync2\r\n$4\r\ncapa\r\n$5\r\nrdb12\r\n"
#define PING "*1\r\n$4\r\nPING\r\n"
#define PSYNC_NEW "*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n"
#define ACK(digits, number) "*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$" #digits "\r\n" #number "\r\n"

enum { LONG_MS = 60000, LIMIT_MS = 20000 };

/* The test is the primary: it listens, accepts, reads and writes; the link is on its thread. */
struct box {
    int listener, fd;               /* -1: no connection */
    struct link_recorder recorder;
    struct link_options options;
    struct link *link;
    char dir[64];
    struct faulty_disk *disk;
};

static int box_open(void **state)
{
    struct box *box = mem_zalloc(sizeof(*box));
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(at);

    strcpy(box->dir, "/tmp/kelvin-test-XXXXXX");
    assert_non_null(mkdtemp(box->dir));
    box->disk = faulty_disk_create();
    box->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(box->listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(box->listener, 10), 0);
    assert_int_equal(getsockname(box->listener, (struct sockaddr *)&at, &size), 0);
    box->fd = -1;
    link_recorder_init(&box->recorder);
    box->recorder.disk = faulty_disk_table(box->disk);
    box->options = (struct link_options){
        .host = "127.0.0.1", .port = ntohs(at.sin_port), .source_address = "", .user = "", .password = "", .announce_ip = "",
        .timeout_ms = LONG_MS, .disk = faulty_disk_table(box->disk), .dir = box->dir, .image_offer = "", .image_dir = "",
    };
    *state = box;
    return 0;
}

static int box_close(void **state)
{
    struct box *box = *state;

    if (box->link != NULL)
        link_stop(box->link);
    if (box->fd >= 0)
        close(box->fd);
    close(box->listener);
    link_recorder_release(&box->recorder);
    faulty_disk_destroy(box->disk);
    assert_int_equal(rmdir(box->dir), 0);           /* no file was left */
    mem_free(box);
    return 0;
}

static void start(struct box *box)
{
    struct link_host host = link_recorder_host(&box->recorder);

    box->link = link_start(&box->options, &host);
    assert_non_null(box->link);
}

static void wait_readable(int fd)
{
    struct pollfd poller = { .fd = fd, .events = POLLIN };

    assert_int_equal(poll(&poller, 1, LIMIT_MS), 1);
}

static void accept_link(struct box *box)
{
    int one = 1;

    if (box->fd >= 0)
        close(box->fd);
    wait_readable(box->listener);
    box->fd = accept4(box->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(box->fd >= 0);
    setsockopt(box->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void send_bytes(struct box *box, const void *data, size_t size)
{
    assert_int_equal(send(box->fd, data, size, MSG_NOSIGNAL), size);
}

static void send_text(struct box *box, const char *text)
{
    send_bytes(box, text, strlen(text));
}

static void expect_request(struct box *box, const char *text)
{
    char data[1024];
    size_t size = strlen(text), got = 0;

    assert_true(size < sizeof(data));
    while (got < size) {
        ssize_t count;

        wait_readable(box->fd);
        count = recv(box->fd, data + got, size - got, 0);
        assert_true(count > 0);
        got += (size_t)count;
    }
    data[got] = '\0';
    assert_string_equal(data, text);
}

/* No more comes from here, and what the link sends is read until it closes. */
static void end_connection(struct box *box)
{
    char data[1024];

    shutdown(box->fd, SHUT_WR);
    do
        wait_readable(box->fd);
    while (recv(box->fd, data, sizeof(data), 0) > 0);
    close(box->fd);
    box->fd = -1;
}

/* Up to PSYNC, without a password. */
static void greet(struct box *box)
{
    start(box);
    accept_link(box);
    expect_request(box, PING);
    send_text(box, "+PONG\r\n");
    expect_request(box, CAPA);
    send_text(box, "+OK\r\n");
}

static void expect_rdb(struct box *box, const char *text)
{
    char data[1024];
    ssize_t size = read(box->recorder.rdb_fd, data, sizeof(data) - 1);

    assert_true(size >= 0);
    data[size] = '\0';
    assert_string_equal(data, text);
}

static void a_full_synchronization_of_known_length(void **state)
{
    struct box *box = *state;

    box->recorder.record_progress = true;
    greet(box);
    expect_request(box, PSYNC_NEW);
    send_text(box, "+FULLRESYNC " ID " 1000\r\n");
    link_recorder_expect(&box->recorder, "sync ");
    send_text(box, "\n\n$8\r\nREDIS");
    link_recorder_expect(&box->recorder, "progress:0/8 ");
    send_text(box, "END*1\r\n$4\r\n");
    link_recorder_expect(&box->recorder, "progress:8/8 rdb:8 connected ");
    expect_rdb(box, "REDISEND");
    expect_request(box, ACK(1, 0));
    send_text(box, "PING\r\n");
    link_recorder_expect_stream(&box->recorder, 14);
    assert_memory_equal(box->recorder.stream.data, "*1\r\n$4\r\nPING\r\n", 14);
    link_recorder_set_progress(&box->recorder, 1014, 1000);
    link_ack_now(box->link);
    expect_request(box, "*5\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$4\r\n1014\r\n$4\r\nFACK\r\n$4\r\n1000\r\n");
}

static void a_full_synchronization_that_ends_with_a_mark(void **state)
{
    struct box *box = *state;

    greet(box);
    expect_request(box, PSYNC_NEW);
    send_text(box, "\n+FULLRESYNC " ID " 0\r\n\n\r\n$EOF:" MARK "\r\nREDISMMMM");
    link_recorder_expect(&box->recorder, "connecting handshake position full:" ID ":0 sync ");
    send_text(box, MARK);
    link_recorder_expect(&box->recorder, "rdb:9 connected ");
    expect_rdb(box, "REDISMMMM");
    expect_request(box, ACK(1, 0));
    send_text(box, "stream");
    link_recorder_expect_stream(&box->recorder, 6);
}

static void a_partial_synchronization(void **state)
{
    struct box *box = *state;

    link_recorder_set_position(&box->recorder, ID, 99, false);
    link_recorder_set_progress(&box->recorder, 99, -1);
    greet(box);
    expect_request(box, "*3\r\n$5\r\nPSYNC\r\n$40\r\n" ID "\r\n$3\r\n100\r\n");
    send_text(box, "+CONTINUE " ID "\r\nabc");          /* not a new one */
    link_recorder_expect(&box->recorder, "connecting handshake position continued:same connected ");
    expect_request(box, ACK(2, 99));
    link_recorder_expect_stream(&box->recorder, 3);
    end_connection(box);
    link_recorder_expect(&box->recorder, "failed:closed:receiving the stream: the connection was closed| waiting connecting ");
    link_recorder_set_position(&box->recorder, ID, 102, true);
    accept_link(box);
    expect_request(box, PING);
    send_text(box, "+PONG\r\n+OK\r\n+CONTINUE " OTHER "\r\n" "d");
    expect_request(box, CAPA "*4\r\n$5\r\nPSYNC\r\n$40\r\n" ID "\r\n$3\r\n103\r\n$8\r\nFAILOVER\r\n");
    link_recorder_expect(&box->recorder, "continued:" OTHER " connected ");
    link_recorder_expect_stream(&box->recorder, 4);
    assert_memory_equal(box->recorder.stream.data, "abcd", 4);
}

static void a_primary_that_can_not_continue_is_refused_if_nothing_else_is_wanted(void **state)
{
    struct box *box = *state;

    box->recorder.position = (struct link_position){ .id = ID, .offset = 99, .continues_only = true };
    greet(box);
    expect_request(box, "*3\r\n$5\r\nPSYNC\r\n$40\r\n" ID "\r\n$3\r\n100\r\n");
    send_text(box, "+FULLRESYNC " OTHER " 7\r\n$1\r\nR");
    link_recorder_expect(&box->recorder, "position failed:refused:PSYNC: it has another history, or less of it than this server| waiting ");
}

/* A primary has announced the largest offset that is taken, and has sent more after it. */
static void an_offset_that_has_grown_too_far_asks_for_all(void **state)
{
    struct box *box = *state;

    link_recorder_set_position(&box->recorder, ID, 2 * HISTORY_OFFSET_MAX + 1, false);
    greet(box);
    expect_request(box, "*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n");
    send_text(box, "+FULLRESYNC " OTHER " 7\r\n$1\r\nR");
    link_recorder_expect(&box->recorder, "position full:" OTHER ":7 sync rdb:1 ");
}

static void user_password_port_and_address_are_announced(void **state)
{
    struct box *box = *state;

    box->options.user = "us er";
    box->options.password = "secret";
    box->options.listening_port = 6380;
    box->options.announce_ip = "10.0.0.1";
    start(box);
    accept_link(box);
    expect_request(box, PING);
    send_text(box, "-NOAUTH Authentication required.\r\n");
    expect_request(box, "*3\r\n$4\r\nAUTH\r\n$5\r\nus er\r\n$6\r\nsecret\r\n"
        "*3\r\n$8\r\nREPLCONF\r\n$14\r\nlistening-port\r\n$4\r\n6380\r\n*3\r\n$8\r\nREPLCONF\r\n$10\r\nip-address\r\n$8\r\n10.0.0.1\r\n" CAPA);
    send_text(box, "+OK\r\n-ERR unknown option\r\n-ERR unknown option\r\n+OK\r\n");
    expect_request(box, PSYNC_NEW);
    end_connection(box);
    link_recorder_expect(&box->recorder, "failed:closed:PSYNC: the connection was closed| waiting ");
    box->options.user = "";
    box->options.listening_port = 0;
    box->options.announce_ip = "";
    link_configure(box->link, &box->options);
    accept_link(box);
    expect_request(box, PING);
    send_text(box, "-NOPERM no\r\n");
    expect_request(box, "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n" CAPA);
}

static void errors_of_the_handshake_are_told_apart(void **state)
{
    static const struct {
        const char *replies, *record;
    } cases[] = {
        { "-ERR operation not permitted\r\n+OK\r\n+OK\r\n-NOAUTH Authentication required.\r\n",
            "failed:auth:PSYNC: NOAUTH Authentication required.| " },
        { "-MISCONF Errors writing to the AOF file\r\n+OK\r\n+OK\r\n-NOAUTH Authentication required.\r\n",
            "failed:auth:PSYNC: NOAUTH Authentication required.| " },
        { "-ERR what\r\n", "failed:refused:PING: ERR what| " },
        { "-LOADING Redis is loading\r\n", "failed:not_yet:PING: LOADING Redis is loading| " },
        { "PONG\r\n", "failed:protocol:PING: not a valid reply: PONG| " },
        { "+PONG\r\n-WRONGPASS no\r\n", "failed:auth:AUTH: WRONGPASS no| " },
        { "+PONG\r\n-ERR AUTH called without a password\r\n", "failed:auth:AUTH: ERR AUTH called without a password| " },
        { "+PONG\r\n+OK\r\n+OK\r\n-NOMASTERLINK Can't SYNC\r\n", "failed:not_yet:PSYNC: NOMASTERLINK Can't SYNC| " },
        { "+PONG\r\n+OK\r\n+OK\r\n-ERR unknown command 'PSYNC'\r\n", "failed:refused:PSYNC: ERR unknown command 'PSYNC'| " },
        { "+PONG\r\n+OK\r\n+OK\r\n+OK\r\n", "failed:protocol:PSYNC: not a valid reply: +OK| " },
        { "+PONG\r\n+OK\r\n+OK\r\n+CONTINUE\r\n", "failed:protocol:PSYNC: not a valid reply: +CONTINUE| " },
        { "+PONG\r\n+OK\r\n+OK\r\n+FULLRESYNC " ID " -1\r\n", "failed:protocol:PSYNC: not a valid reply: +FULLRESYNC " ID " -1| " },
        { "+PONG\r\n+OK\r\n+OK\r\n+FULLRESYNC " ID " 9223372036854775807\r\n", "failed:protocol:PSYNC: not a valid reply" },
        { "+PONG\r\n+OK\r\n+OK\r\n+FULLRESYNC " ID " 1\r\n-ERR can't\r\n", "failed:refused:waiting for the RDB: ERR can't| " },
        { "+PONG\r\n+OK\r\n+OK\r\n+FULLRESYNC " ID " 1\r\n$-5\r\n", "failed:protocol:waiting for the RDB: the length of the RDB is not valid| " },
        { "+PONG\r\n+OK\r\n+OK\r\n+FULLRESYNC " ID " 1\r\n$99999999999999999999\r\n", "failed:protocol:waiting for the RDB: the length" },
        { "+PONG\r\n+OK\r\n+OK\r\n+FULLRESYNC " ID " 1\r\n$9223372036854775807\r\nabc",
            "failed:closed:receiving the RDB: the connection was closed| " },
    };
    struct box *box = *state;

    box->options.password = "x";
    start(box);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        accept_link(box);
        send_text(box, cases[i].replies);
        end_connection(box);
        link_recorder_expect(&box->recorder, cases[i].record);
        link_recorder_expect(&box->recorder, "waiting ");
        link_reconnect(box->link);
    }
}

static void a_line_without_an_end_is_an_error(void **state)
{
    struct box *box = *state;
    char line[5000];

    memset(line, '+', sizeof(line));
    start(box);
    accept_link(box);
    send_bytes(box, line, sizeof(line));
    link_recorder_expect(&box->recorder, "failed:protocol:PING: a line is too long| waiting ");
}

#define ALL "+PONG\r\n+OK\r\n\n+FULLRESYNC " ID " 7\r\n\n$EOF:" MARK "\r\nRDB" MARK "stream"

static void a_primary_that_closes_after_any_byte(void **state)
{
    struct box *box = *state;

    start(box);
    for (size_t size = 0; size < strlen(ALL); size++) {
        accept_link(box);
        send_bytes(box, ALL, size);
        end_connection(box);
        link_recorder_expect(&box->recorder, "failed:closed:");
        link_recorder_expect(&box->recorder, "waiting ");
        link_reconnect(box->link);
    }
}

static void a_primary_that_sends_byte_by_byte(void **state)
{
    struct box *box = *state;

    start(box);
    accept_link(box);
    for (size_t i = 0; i < strlen(ALL); i++) {
        int on_the_way;

        send_bytes(box, &ALL[i], 1);
        do                                          /* until it has arrived, so that bytes are not read together too often */
            assert_int_equal(ioctl(box->fd, SIOCOUTQ, &on_the_way), 0);
        while (on_the_way > 0);
    }
    link_recorder_expect(&box->recorder, "full:" ID ":7 sync rdb:3 connected ");
    expect_rdb(box, "RDB");
    link_recorder_expect_stream(&box->recorder, 6);
}

static void a_silent_primary_times_out_in_each_step(void **state)
{
    static const struct {
        const char *replies, *step;
    } cases[] = {
        { "", "failed:timeout:PING: nothing was received for" },
        { "+PONG", "failed:timeout:PING: nothing was received for" },
        { "+PONG\r\n", "failed:timeout:REPLCONF: nothing was received for" },
        { "+PONG\r\n+OK\r\n", "failed:timeout:PSYNC: nothing was received for" },
        { "+PONG\r\n+OK\r\n+FULLRESYNC " ID " 7\r\n", "failed:timeout:waiting for the RDB: nothing was received for" },
        { "+PONG\r\n+OK\r\n+FULLRESYNC " ID " 7\r\n$5\r\n", "failed:timeout:receiving the RDB: nothing was received for" },
        { "+PONG\r\n+OK\r\n+FULLRESYNC " ID " 7\r\n$1\r\nRst", "failed:timeout:receiving the stream: nothing was received for" },
    };
    struct box *box = *state;

    box->options.timeout_ms = 30;
    start(box);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        accept_link(box);
        send_text(box, cases[i].replies);
        link_recorder_expect(&box->recorder, cases[i].step);
        link_recorder_expect(&box->recorder, "waiting ");
        link_reconnect(box->link);
    }
}

/* The queue of a listener that accepts nothing is full after some connections; the next one gets no reply. */
static void fill_queue(struct box *box, int *fds, size_t count)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(box->options.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    assert_int_equal(listen(box->listener, 0), 0);
    for (size_t i = 0; i < count; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fds[i], (struct sockaddr *)&at, sizeof(at));
    }
}

static void a_primary_that_can_not_be_reached_times_out(void **state)
{
    struct box *box = *state;
    int fds[4];

    fill_queue(box, fds, 4);
    box->options.timeout_ms = 30;
    start(box);
    link_recorder_expect(&box->recorder, "connecting failed:timeout:connecting: nothing was received for 0 seconds| waiting ");
    box->options.timeout_ms = LONG_MS;
    link_configure(box->link, &box->options);
    link_reconnect(box->link);
    link_recorder_expect(&box->recorder, "connecting ");
    link_stop(box->link);                           /* returns at once: else the test takes a minute */
    box->link = NULL;
    link_recorder_expect_exactly(&box->recorder, "");
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}

static void a_primary_that_refuses_the_connection(void **state)
{
    struct box *box = *state;
    uint16_t port = box->options.port;

    box->options.port = 1;
    start(box);
    link_recorder_expect(&box->recorder, "connecting failed:connect:connecting: Connection refused| waiting ");
    box->options.host = "no.such.host.invalid";
    link_configure(box->link, &box->options);
    link_reconnect(box->link);
    link_recorder_expect(&box->recorder, "failed:connect:connecting: no.such.host.invalid: ");
    box->options.host = "localhost";
    box->options.port = port;
    link_configure(box->link, &box->options);
    accept_link(box);                               /* the next try, by itself */
    link_recorder_expect(&box->recorder, "handshake ");
}

static void connects_from_the_source_address(void **state)
{
    struct box *box = *state;
    struct sockaddr_in at;
    socklen_t size = sizeof(at);

    box->options.source_address = "127.0.0.77";
    start(box);
    accept_link(box);
    assert_int_equal(getpeername(box->fd, (struct sockaddr *)&at, &size), 0);
    assert_int_equal(ntohl(at.sin_addr.s_addr), 0x7f00004d);
    box->options.source_address = "198.51.100.1";   /* of another machine */
    link_configure(box->link, &box->options);
    end_connection(box);
    link_recorder_expect(&box->recorder, "failed:connect:connecting: Cannot assign requested address| ");
}

static void can_be_stopped_in_each_state(void **state)
{
    static const struct {
        const char *replies, *record;
    } cases[] = {
        { "", "handshake " },
        { "+PONG\r\n+OK\r\n", "position " },
        { "+PONG\r\n+OK\r\n+FULLRESYNC " ID " 7\r\n", "sync " },
        { "+PONG\r\n+OK\r\n+FULLRESYNC " ID " 7\r\n$5\r\nab", "progress:0/5 " },
        { "+PONG\r\n+OK\r\n+FULLRESYNC " ID " 7\r\n$1\r\nRst", "connected " },
        { "-ERR\r\n", "waiting " },
    };
    struct box *box = *state;

    box->recorder.record_progress = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        start(box);
        accept_link(box);
        send_text(box, cases[i].replies);
        link_recorder_expect(&box->recorder, cases[i].record);
        link_stop(box->link);
        box->link = NULL;
    }
}

static void a_host_without_room_gets_the_bytes_again(void **state)
{
    struct box *box = *state;

    link_recorder_set_refusals(&box->recorder, 3);
    link_recorder_set_position(&box->recorder, ID, 99, false);
    box->options.timeout_ms = 25;                   /* less than the host needs */
    greet(box);
    link_recorder_expect(&box->recorder, "position ");
    send_text(box, "+CONTINUE\r\nabc");
    link_recorder_expect_stream(&box->recorder, 3);
    box->options.timeout_ms = LONG_MS;
    link_configure(box->link, &box->options);
}

static void can_be_stopped_while_the_host_has_no_room(void **state)
{
    struct box *box = *state;

    link_recorder_set_refusals(&box->recorder, -1);
    link_recorder_set_position(&box->recorder, ID, 99, false);
    greet(box);
    send_text(box, "+CONTINUE\r\nabc");
    link_recorder_expect(&box->recorder, "connected ");
    expect_request(box, "*3\r\n$5\r\nPSYNC\r\n$40\r\n" ID "\r\n$3\r\n100\r\n" ACK(1, 0) ACK(1, 0));   /* they go on meanwhile */
    link_stop(box->link);
    box->link = NULL;
    assert_int_equal(box->recorder.stream.size, 0);
}

static void a_disk_that_is_full_ends_the_synchronization(void **state)
{
    struct box *box = *state;
    struct disk_faults full = { .write_no_space = 1000 };
    char expected[200];

    faulty_disk_set(box->disk, &full);
    greet(box);
    send_text(box, "+FULLRESYNC " ID " 7\r\n$5\r\nabcde");
    snprintf(expected, sizeof(expected), "sync failed:disk:receiving the RDB: the RDB can't be written to %s: No space left on device| waiting ",
        box->dir);
    link_recorder_expect(&box->recorder, expected);
    faulty_disk_set(box->disk, NULL);
    link_reconnect(box->link);
    accept_link(box);
    send_text(box, "+PONG\r\n+OK\r\n+FULLRESYNC " ID " 7\r\n$5\r\nabcde");
    link_recorder_expect(&box->recorder, "rdb:5 connected ");
}

static void a_directory_that_is_not_there_is_an_error(void **state)
{
    struct box *box = *state;

    box->options.dir = "/nonexistent";
    greet(box);
    send_text(box, "+FULLRESYNC " ID " 7\r\n$5\r\nabcde");
    link_recorder_expect(&box->recorder,
        "sync failed:disk:receiving the RDB: the RDB can't be written to /nonexistent: No such file or directory| waiting ");
}

static void a_file_that_a_crash_left_is_replaced(void **state)
{
    struct box *box = *state;
    char path[100];
    FILE *file;

    snprintf(path, sizeof(path), "%s/temp-%d.link.rdb", box->dir, (int)getpid());
    assert_non_null(file = fopen(path, "w"));
    fputs("old and longer", file);
    fclose(file);
    greet(box);
    send_text(box, "+FULLRESYNC " ID " 7\r\n$5\r\nabcde");
    link_recorder_expect(&box->recorder, "rdb:5 connected ");
    expect_rdb(box, "abcde");
}

static void an_rdb_larger_than_the_buffers(void **state)
{
    enum { SIZE = 3000000 };
    struct box *box = *state;
    char *data = mem_alloc(SIZE), *read_back = mem_alloc(SIZE), header[32];

    for (size_t i = 0; i < SIZE; i++)
        data[i] = (char)(i * 2654435761u >> 13);
    greet(box);
    send_text(box, "+FULLRESYNC " ID " 7\r\n");
    snprintf(header, sizeof(header), "$%d\r\n", SIZE);
    send_text(box, header);
    for (size_t at = 0; at < SIZE; at += 50000)
        send_bytes(box, data + at, 50000);
    link_recorder_expect(&box->recorder, "rdb:3000000 connected ");
    assert_int_equal(read(box->recorder.rdb_fd, read_back, SIZE), SIZE);
    assert_memory_equal(data, read_back, SIZE);
    mem_free(data);
    mem_free(read_back);
}

static void reconnects_when_the_host_asks(void **state)
{
    struct box *box = *state;

    greet(box);
    send_text(box, "+FULLRESYNC " ID " 7\r\n$1\r\nR");
    link_recorder_expect(&box->recorder, "rdb:1 connected ");
    link_reconnect(box->link);
    link_recorder_expect(&box->recorder, "failed:requested:receiving the stream: the connection was closed to start again| waiting connecting ");
    accept_link(box);
    expect_request(box, PING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, box_open, box_close)
        TEST(a_full_synchronization_of_known_length),
        TEST(a_full_synchronization_that_ends_with_a_mark),
        TEST(a_partial_synchronization),
        TEST(a_primary_that_can_not_continue_is_refused_if_nothing_else_is_wanted),
        TEST(an_offset_that_has_grown_too_far_asks_for_all),
        TEST(user_password_port_and_address_are_announced),
        TEST(errors_of_the_handshake_are_told_apart),
        TEST(a_line_without_an_end_is_an_error),
        TEST(a_primary_that_closes_after_any_byte),
        TEST(a_primary_that_sends_byte_by_byte),
        TEST(a_silent_primary_times_out_in_each_step),
        TEST(a_primary_that_can_not_be_reached_times_out),
        TEST(a_primary_that_refuses_the_connection),
        TEST(connects_from_the_source_address),
        TEST(can_be_stopped_in_each_state),
        TEST(a_host_without_room_gets_the_bytes_again),
        TEST(can_be_stopped_while_the_host_has_no_room),
        TEST(a_disk_that_is_full_ends_the_synchronization),
        TEST(a_directory_that_is_not_there_is_an_error),
        TEST(a_file_that_a_crash_left_is_replaced),
        TEST(an_rdb_larger_than_the_buffers),
        TEST(reconnects_when_the_host_asks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

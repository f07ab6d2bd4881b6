/* The link and a real redis-server. Without one on this machine the cases are skipped. */
#include "replication/link.h"

#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/certificate.h"
#include "support/link_recorder.h"
#include "support/redis_process.h"

enum { KEYS = 20000, WRITES = 500 };

struct box {
    struct redis_process primary, other;
    struct link_recorder recorder;
    struct link_options options;
    struct link *link;
    char dir[64];
};

static int box_open(void **state)
{
    struct box *box = mem_zalloc(sizeof(*box));

    strcpy(box->dir, "/tmp/kelvin-test-XXXXXX");
    assert_non_null(mkdtemp(box->dir));
    link_recorder_init(&box->recorder);
    box->recorder.follows_stream = true;
    box->options = (struct link_options){
        .host = "127.0.0.1", .source_address = "", .user = "", .password = "", .announce_ip = "", .listening_port = 4321,
        .timeout_ms = 60000, .disk = disk_system(), .dir = box->dir, .image_offer = "", .image_dir = "",
    };
    *state = box;
    return 0;
}

static int box_close(void **state)
{
    struct box *box = *state;

    if (box->link != NULL)
        link_stop(box->link);
    redis_process_stop(&box->primary);
    redis_process_stop(&box->other);
    link_recorder_release(&box->recorder);
    assert_int_equal(rmdir(box->dir), 0);
    mem_free(box);
    return 0;
}

static void start_link(struct box *box, uint16_t port)
{
    struct link_host host = link_recorder_host(&box->recorder);

    box->options.port = port;
    box->link = link_start(&box->options, &host);
    assert_non_null(box->link);
}

/* The RDB that was received is whole and has all keys. */
static void check_rdb(struct box *box)
{
    char path[100];
    char *data = mem_alloc(1 << 20);
    FILE *file;
    ssize_t size;

    snprintf(path, sizeof(path), "%s/received.rdb", box->dir);
    assert_non_null(file = fopen(path, "w"));
    while ((size = read(box->recorder.rdb_fd, data, 1 << 20)) > 0)
        assert_int_equal(fwrite(data, 1, (size_t)size, file), size);
    fclose(file);
    mem_free(data);
    assert_int_equal(redis_process_call((const char *[]){ "redis-check-rdb", path, NULL }), 0);
    unlink(path);
}

static int64_t position_of(struct box *box)
{
    struct link_recorder *recorder = &box->recorder;
    int64_t offset;

    mutex_lock(&recorder->lock);
    offset = recorder->position.offset;
    mutex_unlock(&recorder->lock);
    return offset;
}

/* Writes, waits until the link has acknowledged them, and compares offsets and the end of the stream. */
static void check_stream(struct box *box, struct redis_process *primary)
{
    static const char last[] = "*3\r\n$3\r\nSET\r\n$1\r\nz\r\n$1\r\n1\r\n";
    char line[50];

    for (int i = 0; i < WRITES; i++) {
        snprintf(line, sizeof(line), "SET w%d %d", i, i);
        assert_string_equal(redis_process_run(primary, line), "+OK");
    }
    assert_string_equal(redis_process_run(primary, "SET z 1"), "+OK");
    assert_string_equal(redis_process_run(primary, "WAIT 1 20000"), ":1");
    mutex_lock(&box->recorder.lock);
    assert_non_null(memmem(box->recorder.stream.data, box->recorder.stream.size, last, strlen(last)));
    mutex_unlock(&box->recorder.lock);
    link_ack_now(box->link);
    for (int tries = 0; redis_process_info(primary, "master_repl_offset") != position_of(box); tries++) {
        assert_true(tries < 1000);                          /* a GETACK or PING of just now */
        usleep(10000);
    }
}

static void add_keys(struct redis_process *primary)
{
    char line[50];

    snprintf(line, sizeof(line), "DEBUG POPULATE %d", KEYS);
    assert_string_equal(redis_process_run(primary, line), "+OK");
}

#define OPTIONS(...) ((const char *const[]){ "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0", __VA_ARGS__, NULL })
#define REQUIRE_REDIS() do { if (!redis_process_is_installed()) skip(); } while (0)

static void synchronizes_from_a_file(void **state)
{
    struct box *box = *state;

    REQUIRE_REDIS();
    redis_process_start(&box->primary, OPTIONS("--repl-diskless-sync", "no"));
    add_keys(&box->primary);
    start_link(box, box->primary.port);
    link_recorder_expect(&box->recorder, "connected ");
    check_rdb(box);
    check_stream(box, &box->primary);
    assert_non_null(strstr(redis_process_run(&box->primary, "INFO replication"), "slave0:ip=127.0.0.1,port=4321,state=online"));
}

static void synchronizes_without_a_file(void **state)
{
    struct box *box = *state;

    REQUIRE_REDIS();
    redis_process_start(&box->primary, OPTIONS("--repl-diskless-sync", "yes"));
    add_keys(&box->primary);
    start_link(box, box->primary.port);
    link_recorder_expect(&box->recorder, "connected ");
    check_rdb(box);
    check_stream(box, &box->primary);
}

/* A primary that sent the RDB without a file waits for an ACK before it sends the stream. The ones that are sent while the RDB is being
 * loaded are enough, and acknowledge nothing. */
static void the_stream_comes_while_the_rdb_is_loaded(void **state)
{
    struct box *box = *state;

    REQUIRE_REDIS();
    box->recorder.is_loading = true;
    redis_process_start(&box->primary, OPTIONS("--repl-diskless-sync", "yes"));
    start_link(box, box->primary.port);
    link_recorder_expect(&box->recorder, "connected ");
    assert_string_equal(redis_process_run(&box->primary, "SET a 1"), "+OK");
    link_recorder_expect_stream(&box->recorder, 50);        /* SELECT, SET */
    assert_string_equal(redis_process_run(&box->primary, "WAIT 1 100"), ":0");
    mutex_lock(&box->recorder.lock);
    box->recorder.is_loading = false;
    mutex_unlock(&box->recorder.lock);
    link_ack_now(box->link);
    check_stream(box, &box->primary);
}

static void password_and_user(void **state)
{
    struct box *box = *state;

    REQUIRE_REDIS();
    redis_process_start(&box->primary, OPTIONS("--requirepass", "secret", "--user", "repl", "on", ">other", "-@all", "+ping", "+psync", "+replconf"));
    assert_string_equal(redis_process_run(&box->primary, "AUTH secret"), "+OK");
    start_link(box, box->primary.port);
    link_recorder_expect(&box->recorder, "failed:auth:PSYNC: NOAUTH Authentication required.| ");
    box->options.password = "wrong";
    link_configure(box->link, &box->options);
    link_reconnect(box->link);
    link_recorder_expect(&box->recorder, "failed:auth:AUTH: WRONGPASS");
    box->options.password = "secret";
    link_configure(box->link, &box->options);
    link_reconnect(box->link);
    link_recorder_expect(&box->recorder, "connected ");
    check_stream(box, &box->primary);
    box->options.user = "repl";
    box->options.password = "other";
    link_configure(box->link, &box->options);
    link_reconnect(box->link);
    link_recorder_expect(&box->recorder, "continued:same ");
    link_recorder_expect(&box->recorder, "connected ");
    check_stream(box, &box->primary);
}

static void continues_after_a_cut(void **state)
{
    struct box *box = *state;

    REQUIRE_REDIS();
    redis_process_start(&box->primary, OPTIONS("--repl-diskless-sync", "yes"));
    start_link(box, box->primary.port);
    link_recorder_expect(&box->recorder, "connected ");
    check_stream(box, &box->primary);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(redis_process_run(&box->primary, "CLIENT KILL TYPE replica"), ":1");
        assert_string_equal(redis_process_run(&box->primary, "SET while cut"), "+OK");
        link_recorder_expect(&box->recorder, "continued:same ");
        link_recorder_expect(&box->recorder, "connected ");
        check_stream(box, &box->primary);
    }
}

/* A replica of redis-server as the primary: without its own primary it sends no RDB; after its promotion there is a new ID. */
static void continues_with_the_id_of_a_promoted_primary(void **state)
{
    struct box *box = *state;
    char line[50];

    REQUIRE_REDIS();
    redis_process_start(&box->primary, OPTIONS("--repl-diskless-sync", "yes"));
    redis_process_start(&box->other, OPTIONS("--repl-diskless-sync", "yes"));
    assert_string_equal(redis_process_run(&box->other, "REPLICAOF 127.0.0.1 1"), "+OK");
    start_link(box, box->other.port);
    link_recorder_expect(&box->recorder, "failed:not_yet:PSYNC: NOMASTERLINK");
    snprintf(line, sizeof(line), "REPLICAOF 127.0.0.1 %u", box->primary.port);
    assert_string_equal(redis_process_run(&box->other, line), "+OK");
    link_recorder_expect(&box->recorder, "rdb:");
    link_recorder_expect(&box->recorder, "connected ");
    assert_string_equal(redis_process_run(&box->primary, "SET a 1"), "+OK");
    link_recorder_expect_stream(&box->recorder, 50);
    assert_string_equal(redis_process_run(&box->other, "REPLICAOF NO ONE"), "+OK");
    link_recorder_expect(&box->recorder, "failed:closed:");
    link_recorder_expect(&box->recorder, "position continued:");
    link_recorder_expect(&box->recorder, "connected ");
    check_stream(box, &box->other);
    assert_non_null(strstr(redis_process_run(&box->other, "INFO replication"), box->recorder.position.id));
}

static void a_failover_is_refused_by_a_primary(void **state)
{
    struct box *box = *state;

    REQUIRE_REDIS();
    redis_process_start(&box->primary, OPTIONS("--repl-diskless-sync", "yes"));
    link_recorder_set_position(&box->recorder, "0123456789abcdef0123456789abcdef01234567", 5, true);
    start_link(box, box->primary.port);
    link_recorder_expect(&box->recorder, "failed:is_primary:PSYNC: ERR ");
}

static void synchronizes_over_tls(void **state)
{
    struct box *box = *state;
    struct certificate certificate;
    char port[8];
    uint16_t number = redis_process_free_port();

    REQUIRE_REDIS();
    certificate_create(&certificate);
    snprintf(port, sizeof(port), "%u", number);
    redis_process_start(&box->primary, OPTIONS("--tls-port", port, "--tls-cert-file", certificate.cert_file, "--tls-key-file",
        certificate.key_file, "--tls-ca-cert-file", certificate.cert_file, "--repl-diskless-sync", "no"));
    add_keys(&box->primary);
    box->options.with_tls = true;
    box->options.tls = certificate.context;
    start_link(box, number);
    link_recorder_expect(&box->recorder, "connected ");
    check_rdb(box);
    check_stream(box, &box->primary);
    redis_process_run(&box->primary, "CONFIG SET repl-diskless-sync yes");
    link_recorder_set_position(&box->recorder, "", 0, false);
    link_reconnect(box->link);
    link_recorder_expect(&box->recorder, "full:");
    link_recorder_expect(&box->recorder, "connected ");
    check_rdb(box);
    check_stream(box, &box->primary);
    certificate_remove(&certificate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, box_open, box_close)
        TEST(synchronizes_from_a_file),
        TEST(synchronizes_without_a_file),
        TEST(the_stream_comes_while_the_rdb_is_loaded),
        TEST(password_and_user),
        TEST(continues_after_a_cut),
        TEST(continues_with_the_id_of_a_promoted_primary),
        TEST(a_failover_is_refused_by_a_primary),
        TEST(synchronizes_over_tls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

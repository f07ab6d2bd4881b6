/* Connections that are slow, many or gone, and pages that take long. */
#include "metrics/http.h"

#include "support/unit.h"

#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/waiting.h"

enum { PAGE_MS = 50, WAIT_MS = 20000 };

struct box {
    struct http *http;
    int port;
    struct waiting changed;
    _Atomic bool is_held;           /* the slow page waits */
    _Atomic int begun, written;     /* slow pages */
};

static void wait_for(struct box *box, const _Atomic int *number, int wanted)
{
    for (;;) {
        uint32_t version = waiting_version(&box->changed);

        if (*number >= wanted)
            return;
        waiting_wait(&box->changed, version, -1);
    }
}

static void serve_fast(void *context, const struct http_request *request, struct http_response *response)
{
    (void)context;
    buffer_append_format(&response->body, "fast %s", request->accept);
}

static void serve_slow(void *context, const struct http_request *request, struct http_response *response)
{
    struct box *box = context;

    (void)request;
    box->begun++;
    waiting_bump(&box->changed);
    for (;;) {
        uint32_t version = waiting_version(&box->changed);

        if (!box->is_held)
            break;
        waiting_wait(&box->changed, version, -1);
    }
    for (int i = 0; i < 10000; i++)
        buffer_append_format(&response->body, "line %d\n", i);
    box->written++;
    waiting_bump(&box->changed);
}

static enum http_admission admit(void *context, const struct http_caller *caller)
{
    (void)context;
    if (caller->user == NULL || strcmp(caller->password, "secret: word") != 0)
        return HTTP_LOGIN_WANTED;
    assert_non_null(strstr(caller->address, "127.0.0.1:"));
    return strcmp(caller->user, "admin") == 0 ? HTTP_ADMITTED : HTTP_FORBIDDEN;
}

static const struct http_route routes[] = {
    { "/fast", HTTP_AT_ONCE, HTTP_OPEN, serve_fast },
    { "/slow", HTTP_APART, HTTP_OPEN, serve_slow },
    { "/busy", HTTP_AT_ONCE, HTTP_OPEN, serve_slow },
    { "/guarded", HTTP_AT_ONCE, HTTP_GUARDED, serve_fast },
    { NULL, HTTP_AT_ONCE, HTTP_OPEN, NULL },
};

static int free_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    close(fd);
    return ntohs(at.sin_port);
}

static void open_box(struct box *box, int page_ms)
{
    struct message message = { "" };

    *box = (struct box){ .port = free_port() };
    box->http = http_create(&(struct http_options){ .context = box, .routes = routes, .admit = admit, .page_ms = page_ms });
    if (!http_listen(box->http, "127.0.0.1", box->port, &message))
        fail_msg("%s", message.text);
}

static void release_pages(struct box *box)
{
    box->is_held = false;
    waiting_bump(&box->changed);
}

static int setup(void **state)
{
    static struct box box;

    open_box(&box, PAGE_MS);
    *state = &box;
    return 0;
}

static int setup_patient(void **state)
{
    static struct box box;

    open_box(&box, WAIT_MS);
    *state = &box;
    return 0;
}

static int teardown(void **state)
{
    struct box *box = *state;

    release_pages(box);
    http_destroy(box->http);
    return 0;
}

static int visit(const struct box *box)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)box->port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 ? fd : (close(fd), -1);
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Reads until `end` is there, or the connection ends. What was read is followed by a NUL. */
static struct buffer hear(int fd, const char *end)
{
    struct buffer out = { 0 };

    for (;;) {
        ssize_t size;

        *buffer_reserve(&out, 4096) = '\0';
        if (end != NULL && strstr(out.data, end) != NULL)
            return out;
        if (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, WAIT_MS) != 1)
            fail_msg("nothing came after '%s'", out.data);
        size = recv(fd, out.data + out.size, 4000, 0);
        if (size <= 0)
            return out;
        out.size += (size_t)size;
        out.data[out.size] = '\0';
    }
}

/* What comes until the connection ends, or the reply's last words, begins like this and has this. */
static void expect(int fd, const char *end, const char *begins, const char *has)
{
    struct buffer heard = hear(fd, end);

    if (strncmp(heard.data, begins, strlen(begins)) != 0 || strstr(heard.data, has) == NULL)
        fail_msg("'%s' is not '%s ... %s'", heard.data, begins, has);
    buffer_release(&heard);
}

static void a_connection_serves_one_request_after_another(void **state)
{
    struct box *box = *state;
    int fd = visit(box);

    say(fd, "GET /fast HTTP/1.1\r\nHost: x\r\nAccept: one\r\n\r\n");
    expect(fd, "fast one", "HTTP/1.1 200", "fast one");
    say(fd, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(fd, "line 9999\n", "HTTP/1.1 200", "line 9999\n");
    say(fd, "GET /fast?a=b HTTP/1.1\r\nHost: x\r\nAccept: two\r\n\r\n");
    expect(fd, "fast two", "HTTP/1.1 200", "fast two");
    say(fd, "HEAD /slow HTTP/1.1\r\nHost: x\r\n\r\nGET /fast HTTP/1.1\r\nHost: x\r\nAccept: three\r\n\r\n");
    expect(fd, "fast three", "HTTP/1.1 200", "Content-Length: 98890");
    close(fd);
}

static void other_pages_do_not_wait_for_one_that_takes_long(void **state)
{
    struct box *box = *state;
    int slow = visit(box), fast = visit(box), queued = visit(box);

    box->is_held = true;
    say(slow, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(box, &box->begun, 1);
    say(queued, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    say(fast, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(fast, "fast ", "HTTP/1.1 200", "fast ");
    release_pages(box);
    expect(slow, "line 9999\n", "HTTP/1.1 200", "line 0\n");
    expect(queued, "line 9999\n", "HTTP/1.1 200", "line 0\n");
    close(slow);
    close(fast);
    close(queued);
}

/* Neither for the one that is written nor for the one that waits; and afterwards it is as before. */
static void a_page_that_takes_too_long_is_not_waited_for(void **state)
{
    struct box *box = *state;
    int written = visit(box), queued = visit(box);

    box->is_held = true;
    say(written, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(box, &box->begun, 1);
    say(queued, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(written, "seconds.\n", "HTTP/1.1 503", "can't be read now");
    expect(queued, "seconds.\n", "HTTP/1.1 503", "can't be read now");
    release_pages(box);
    wait_for(box, &box->written, 1);
    say(written, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(written, "fast ", "HTTP/1.1 200", "fast ");
    close(written);
    close(queued);
}

static void clients_that_leave_take_nothing_along(void **state)
{
    struct box *box = *state;
    int written = visit(box), queued = visit(box), fd;

    box->is_held = true;
    say(written, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(box, &box->begun, 1);
    say(queued, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    close(queued);
    close(written);
    fd = visit(box);
    say(fd, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(fd, "fast ", "HTTP/1.1 200", "fast ");
    release_pages(box);
    wait_for(box, &box->written, 2);
    close(fd);
}

static void the_end_does_not_wait_for_clients(void **state)
{
    struct box *box = *state;
    int silent = visit(box), half = visit(box), waits = visit(box);

    say(half, "GET /fast HTTP/1.1\r\nHo");
    box->is_held = true;
    say(waits, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(box, &box->begun, 1);
    release_pages(box);
    http_destroy(box->http);
    box->http = NULL;
    expect(silent, NULL, "", "");
    expect(half, NULL, "", "");
    close(silent);
    close(half);
    close(waits);
}

static void destroy(void *context)
{
    http_destroy(context);
}

static bool page_thread_runs(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    bool runs = false;

    assert_non_null(tasks);
    while ((task = readdir(tasks)) != NULL) {
        char path[64], name[32] = "";
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", task->d_name);
        file = fopen(path, "r");
        if (file == NULL)
            continue;
        runs = runs || (fgets(name, sizeof(name), file) != NULL && strcmp(name, "kelvin-page\n") == 0);
        fclose(file);
    }
    closedir(tasks);
    return runs;
}

/* The request comes while kelvin-http is busy, so it is read after the server has begun to stop. */
static void a_request_that_comes_with_the_end_is_refused(void **state)
{
    struct box *box = *state;
    struct thread thread = { 0 };
    int busy = visit(box), fd = visit(box);

    say(fd, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(fd, "fast ", "HTTP/1.1 200", "");
    box->is_held = true;
    say(busy, "GET /busy HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(box, &box->begun, 1);
    say(fd, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(thread_start(&thread, "destroy", NULL, destroy, box->http), 0);
    while (page_thread_runs())
        sched_yield();
    release_pages(box);
    expect(busy, "line 9999\n", "HTTP/1.1 200", "line 0\n");
    expect(fd, NULL, "HTTP/1.1 503", "The server is ending.");
    thread_join(&thread);
    box->http = NULL;
    assert_int_equal(box->begun, 1);
    close(busy);
    close(fd);
}

/* The one that was served something the longest ago is closed. */
static void there_is_room_for_one_more(void **state)
{
    struct box *box = *state;
    int fds[HTTP_CONNECTIONS], more;

    for (int i = 0; i < HTTP_CONNECTIONS; i++) {
        fds[i] = visit(box);
        say(fds[i], "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n");
        expect(fds[i], "fast ", "HTTP/1.1 200", "");
    }
    say(fds[0], "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(fds[0], "fast ", "HTTP/1.1 200", "");
    more = visit(box);
    say(more, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(more, "fast ", "HTTP/1.1 200", "");
    expect(fds[1], NULL, "", "");
    say(fds[0], "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(fds[0], "fast ", "HTTP/1.1 200", "");
    for (int i = 0; i < HTTP_CONNECTIONS; i++)
        close(fds[i]);
    close(more);
}

static void silent_ones_do_not_keep_others_out(void **state)
{
    struct box *box = *state;
    int fds[10 * HTTP_CONNECTIONS], fd;

    for (int i = 0; i < 10 * HTTP_CONNECTIONS; i++) {
        fds[i] = visit(box);
        say(fds[i], "GET /fa");
    }
    fd = visit(box);
    say(fd, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(fd, "fast ", "HTTP/1.1 200", "");
    close(fd);
    for (int i = 0; i < 10 * HTTP_CONNECTIONS; i++)
        close(fds[i]);
}

static void who_comes_is_asked_for_a_name(void **state)
{
    static const struct {
        const char *header, *reply;
    } rows[] = {
        { "", "HTTP/1.1 401" },
        { "Authorization: Basic YWRtaW46c2VjcmV0OiB3b3Jk\r\n", "HTTP/1.1 200" },         /* admin:secret: word */
        { "Authorization: Basic b3RoZXI6c2VjcmV0OiB3b3Jk\r\n", "HTTP/1.1 403" },      /* other:secret: word */
        { "Authorization: Basic YWRtaW46c2VjcmV0OiB3b3Jr\r\n", "HTTP/1.1 401" },         /* admin:secret: work */
        { "Authorization: Basic YWRtaW4=\r\n", "HTTP/1.1 401" },                          /* admin */
        { "Authorization: Basic !!!\r\n", "HTTP/1.1 401" },
        { "Authorization: Basic \r\n", "HTTP/1.1 401" },
        { "Authorization: Bearer YWRtaW46c2VjcmV0OiB3b3Jk\r\n", "HTTP/1.1 401" },
    };
    struct box *box = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buffer request = { 0 };
        int fd = visit(box);

        buffer_append_format(&request, "GET /guarded HTTP/1.1\r\nHost: x\r\n%sConnection: close\r\n\r\n", rows[i].header);
        buffer_append(&request, "", 1);
        say(fd, request.data);
        expect(fd, NULL, rows[i].reply, i == 0 ? "WWW-Authenticate: Basic realm=" : "");
        buffer_release(&request);
        close(fd);
    }
}

static void hostile_requests_get_errors(void **state)
{
    static const struct {
        const char *request, *reply;
    } rows[] = {
        { "GET /fast\r\n\r\n", "HTTP/1.1 400" },
        { "GET /fast HTTP/9.9\r\nHost: x\r\n\r\n", "HTTP/1.1 505" },
        { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 505" },
        { "GET /fast HTTP/1.1\r\n\r\n", "HTTP/1.1 400" },
        { "GET /fast HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 4" },
        { "GET /fast HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", "HTTP/1.1 4" },
        { "GET /fast HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 400" },
        { "GET /fast HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400" },
        { "GET /fast HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", "HTTP/1.1 4" },
        { "POST /fast HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 405" },
        { "DELETE /slow HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405" },
        { "get /fast HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405" },
        { "GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404" },
        { "GET /%2e%2e%00/fast HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404" },
        { "GET fast HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404" },
    };
    struct box *box = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int fd = visit(box);

        say(fd, rows[i].request);
        expect(fd, "\r\n\r\n", rows[i].reply, "");
        close(fd);
    }
}

static void what_is_no_request_does_no_harm(void **state)
{
    static const char *const requests[] = {
        "", "\r\n", "\r\n\r\n\r\n", "GET\r\n\r\n", "*1\r\n$4\r\nPING\r\n", "\x16\x03\x01\x02\x01\x01\xfc\x03\x03", "GET /fast HTTP/1.1\r\nHost: x\r\n \r\n\r\n",
        "GET /fast HTTP/1.1\r\nHost: x\r\n: \r\n\r\n", "GET /slow HTTP/1.1\r\nHost: x\r\n", "GET /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
    };
    struct box *box = *state;
    int fd;

    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        fd = visit(box);
        say(fd, requests[i]);
        shutdown(fd, i % 2 == 0 ? SHUT_WR : SHUT_RDWR);
        close(fd);
    }
    fd = visit(box);
    say(fd, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(fd, "fast ", "HTTP/1.1 200", "");
    close(fd);
}

static void headers_have_limits(void **state)
{
    struct box *box = *state;
    struct buffer heard, large = { 0 };
    int fd;

    buffer_append_string(&large, "GET /fast HTTP/1.1\r\nHost: x\r\nAccept: ");
    for (int i = 0; i < 100000; i++)
        buffer_append_u8(&large, 'a');
    fd = visit(box);
    send(fd, large.data, large.size, MSG_NOSIGNAL);
    heard = hear(fd, NULL);
    assert_null(strstr(heard.data, "200"));
    buffer_release(&heard);
    close(fd);
    large.size = 0;
    buffer_append_string(&large, "GET /fast HTTP/1.1\r\nHost: x\r\nAccept: ");
    for (int i = 0; i < HTTP_ACCEPT_SIZE; i++)
        buffer_append_u8(&large, 'a');
    buffer_append(&large, "\r\n\r\n", 5);
    fd = visit(box);
    say(fd, large.data);
    expect(fd, "fast ", "HTTP/1.1 200", "\r\n\r\nfast ");
    close(fd);
    buffer_release(&large);
}

static void addresses_change_while_it_serves(void **state)
{
    struct box *box = *state;
    struct message message = { "" };
    int before = visit(box), old_port = box->port, fd;

    say(before, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(before, "fast ", "HTTP/1.1 200", "");
    box->port = free_port();
    assert_true(http_listen(box->http, "127.0.0.1", box->port, &message));
    expect(before, NULL, "", "");
    fd = visit(box);
    say(fd, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(fd, "fast ", "HTTP/1.1 200", "");
    assert_true(http_listen(box->http, "127.0.0.1", 0, &message));
    assert_int_equal(visit(box), -1);
    expect(fd, NULL, "", "");
    box->port = old_port;
    assert_int_equal(visit(box), -1);
    assert_true(http_listen(box->http, "127.0.0.1", box->port, &message));
    close(fd);
    fd = visit(box);
    say(fd, "GET /fast HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(fd, "fast ", "HTTP/1.1 200", "");
    close(fd);
    close(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_connection_serves_one_request_after_another, setup_patient, teardown),
        cmocka_unit_test_setup_teardown(other_pages_do_not_wait_for_one_that_takes_long, setup_patient, teardown),
        cmocka_unit_test_setup_teardown(a_page_that_takes_too_long_is_not_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(clients_that_leave_take_nothing_along, setup_patient, teardown),
        cmocka_unit_test_setup_teardown(the_end_does_not_wait_for_clients, setup_patient, teardown),
        cmocka_unit_test_setup_teardown(a_request_that_comes_with_the_end_is_refused, setup_patient, teardown),
        cmocka_unit_test_setup_teardown(there_is_room_for_one_more, setup, teardown),
        cmocka_unit_test_setup_teardown(silent_ones_do_not_keep_others_out, setup, teardown),
        cmocka_unit_test_setup_teardown(who_comes_is_asked_for_a_name, setup, teardown),
        cmocka_unit_test_setup_teardown(hostile_requests_get_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_request_does_no_harm, setup, teardown),
        cmocka_unit_test_setup_teardown(headers_have_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(addresses_change_while_it_serves, setup, teardown),
    };

    return cmocka_run_group_tests_name("metrics/http", tests, NULL, NULL);
}

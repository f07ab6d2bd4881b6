#include "replication/link.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "replication/link_private.h"
#include "tls/tls_context.h"

enum { RETRY_US = 1000000, RETRY_AFTER_DISK_US = 10 * RETRY_US };

static char *copy(const char *string)
{
    return mem_string(bytes_of_string(string));
}

static struct link_settings *settings_create(const struct link_options *options)
{
    struct link_settings *settings = mem_alloc(sizeof(*settings));

    *settings = (struct link_settings){
        .host = copy(options->host), .source_address = copy(options->source_address), .user = copy(options->user),
        .password = copy(options->password), .announce_ip = copy(options->announce_ip), .dir = copy(options->dir),
        .image_offer = copy(options->image_offer), .image_dir = copy(options->image_dir),
        .port = options->port, .listening_port = options->listening_port, .disk = options->disk,
        .with_tls = options->with_tls, .tls = options->tls != NULL ? tls_context_hold(options->tls) : NULL,
    };
    return settings;
}

static void settings_destroy(struct link_settings *settings)
{
    if (settings == NULL)
        return;
    mem_free(settings->host);
    mem_free(settings->source_address);
    mem_free(settings->user);
    mem_free(settings->password);
    mem_free(settings->announce_ip);
    mem_free(settings->dir);
    mem_free(settings->image_offer);
    mem_free(settings->image_dir);
    tls_context_drop(settings->tls);
    mem_free(settings);
}

/* Functions for other threads */

static void ring(struct link *link)
{
    const uint64_t one = 1;

    (void)!write(link->bell, &one, sizeof(one));
}

void link_configure(struct link *link, const struct link_options *options)
{
    struct link_settings *settings = settings_create(options), *unused;

    CHECK(options->timeout_ms > 0);
    mutex_lock(&link->lock);
    unused = link->next;
    link->next = settings;
    mutex_unlock(&link->lock);
    settings_destroy(unused);
    atomic_store(&link->timeout_ms, options->timeout_ms);
    ring(link);
}

void link_ack_now(struct link *link)
{
    if (!atomic_exchange(&link->ack_now, true))
        ring(link);
}

void link_reconnect(struct link *link)
{
    atomic_store(&link->reconnect, true);
    ring(link);
}

/* The thread */

static void take_settings(struct link *link)
{
    struct link_settings *unused = link->settings;

    mutex_lock(&link->lock);
    if (link->next != NULL) {
        link->settings = link->next;
        link->next = NULL;
    } else {
        unused = NULL;
    }
    mutex_unlock(&link->lock);
    settings_destroy(unused);
}

static void try_once(struct link *link)
{
    take_settings(link);
    link->reason = (struct message){ "" };
    link_input_init(&link->input);
    link->unread = bytes_of(link->in, 0);
    link->ack_us = INT64_MAX;
    link->active_us = clock_mono_us();
    if (link_connect(link) && link_shake_hands(link))
        link_receive(link);
    wire_close(&link->wire);
}

static void report_failure(struct link *link)
{
    if (message_is_empty(&link->reason))
        link_fail(link, LINK_FAILED_REQUESTED, "the connection was closed to start again");
    link->host.failed(link->host.context, link->failure, link->reason.text);
    link_set_state(link, LINK_WAITING);
}

static void wait_to_retry(struct link *link)
{
    int64_t until_us = clock_mono_us() + (link->failure == LINK_FAILED_DISK ? RETRY_AFTER_DISK_US : RETRY_US);

    while (!link_is_interrupted(link) && clock_mono_us() < until_us)
        link_poll(link, -1, 0, until_us - clock_mono_us());
}

static void link_main(void *context)
{
    struct link *link = context;

    while (!atomic_load(&link->stop)) {
        atomic_store(&link->reconnect, false);
        try_once(link);
        if (atomic_load(&link->stop))
            break;
        report_failure(link);
        wait_to_retry(link);
    }
}

static void destroy_link(struct link *link)
{
    int error = errno;

    if (link->bell >= 0)
        close(link->bell);
    settings_destroy(link->settings);
    settings_destroy(link->next);
    mutex_release(&link->lock);
    mem_free(link);
    errno = error;
}

struct link *link_start(const struct link_options *options, const struct link_host *host)
{
    struct link *link = mem_zalloc(sizeof(*link));

    CHECK(options->timeout_ms > 0);
    link->host = *host;
    link->next = settings_create(options);
    link->timeout_ms = options->timeout_ms;
    link->rdb_fd = -1;
    wire_init(&link->wire);
    mutex_init(&link->lock);
    link->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (link->bell >= 0) {
        errno = thread_start(&link->thread, "kelvin-link", host->meter, link_main, link);
        if (errno == 0)
            return link;
    }
    destroy_link(link);
    return NULL;
}

void link_stop(struct link *link)
{
    atomic_store(&link->stop, true);
    ring(link);
    thread_join(&link->thread);
    destroy_link(link);
}

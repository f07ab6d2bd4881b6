/* The link's handshake: PING, AUTH, REPLCONF, PSYNC. The commands between PING and PSYNC are sent together. */
#include "replication/link_private.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/text.h"
#include "replication/link_psync.h"

static void add_argument(struct buffer *request, const char *text)
{
    buffer_append_format(request, "$%zu\r\n", strlen(text));
    buffer_append_string(request, text);
    buffer_append_string(request, "\r\n");
}

/* `arguments` ends with NULL. */
static void add_command(struct buffer *request, const char *const *arguments)
{
    int count = 0;

    while (arguments[count] != NULL)
        count++;
    buffer_append_format(request, "*%d\r\n", count);
    for (int i = 0; i < count; i++)
        add_argument(request, arguments[i]);
}

static bool send_request(struct link *link, struct buffer *request)
{
    enum wire_result result = wire_write(&link->wire, buffer_bytes(request));

    if (result == WIRE_OK)
        result = wire_flush(&link->wire);
    buffer_release(request);
    return result == WIRE_OK || link_fail_wire(link, result);
}

/* The next line. Its time begins now, and again with each newline that the primary sends instead. */
static bool read_line(struct link *link, struct bytes *line)
{
    int64_t since_us = clock_mono_us();

    for (;;) {
        struct link_event event;

        switch (link_input_next(&link->input, &link->unread, &event)) {
        case LINK_EVENT_LINE:
            *line = event.bytes;
            return true;
        case LINK_EVENT_ALIVE:
            since_us = clock_mono_us();
            break;
        case LINK_EVENT_NONE:
            if (link_fill(link, since_us, INT64_MAX) != LINK_WAIT_READY)
                return false;
            break;
        default:
            return link_fail(link, LINK_FAILED_PROTOCOL, "%s", event.problem);
        }
    }
}

/* An error reply, without its '-'. */
static bool fail_reply(struct link *link, enum psync_result result, struct bytes line)
{
    static const enum link_failure failures[] = {
        [PSYNC_NOT_YET] = LINK_FAILED_NOT_YET, [PSYNC_DENIED] = LINK_FAILED_AUTH, [PSYNC_REFUSED] = LINK_FAILED_REFUSED,
        [PSYNC_IS_PRIMARY] = LINK_FAILED_IS_PRIMARY, [PSYNC_INVALID] = LINK_FAILED_PROTOCOL,
    };

    return link_fail(link, failures[result], "%s%.*s", result == PSYNC_INVALID ? "not a valid reply: " : "", (int)line.size, line.data);
}

static bool fail_error(struct link *link, struct bytes line)
{
    return fail_reply(link, psync_parse_error(line), bytes_of(line.data + 1, line.size - 1));
}

static bool begins_with(struct bytes line, const char *word)
{
    size_t size = strlen(word);

    return line.size >= size && memcmp(line.data, word, size) == 0;
}

/* Errors that come before AUTH are not about the primary. One whose disk is full or fails has data to give away all the more. */
static bool ping(struct link *link)
{
    static const char *const accepted[] = { "+", "-NOAUTH", "-NOPERM", "-ERR operation not permitted", "-MISCONF" };
    struct buffer request = { 0 };
    struct bytes line;

    link->step = "PING";
    add_command(&request, (const char *[]){ "PING", NULL });
    if (!send_request(link, &request) || !read_line(link, &line))
        return false;
    for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
        if (begins_with(line, accepted[i]))
            return true;
    }
    return line.data[0] == '-' ? fail_error(link, line) : fail_reply(link, PSYNC_INVALID, line);
}

static void add_auth(struct buffer *request, const struct link_settings *settings)
{
    if (settings->user[0] != '\0')
        add_command(request, (const char *[]){ "AUTH", settings->user, settings->password, NULL });
    else
        add_command(request, (const char *[]){ "AUTH", settings->password, NULL });
}

/* Returns the number of replies to be expected. */
static int add_replconf(struct buffer *request, const struct link_settings *settings)
{
    char port[8];
    int count = 1;

    if (settings->listening_port != 0) {
        snprintf(port, sizeof(port), "%u", settings->listening_port);
        add_command(request, (const char *[]){ "REPLCONF", "listening-port", port, NULL });
        count++;
    }
    if (settings->announce_ip[0] != '\0') {
        add_command(request, (const char *[]){ "REPLCONF", "ip-address", settings->announce_ip, NULL });
        count++;
    }
    add_command(request, (const char *[]){ "REPLCONF", "capa", "eof", "capa", "psync2", "capa", "rdb12",
        settings->image_offer[0] != '\0' ? "capa" : NULL, settings->image_offer, NULL });
    return count;
}

static bool read_auth(struct link *link)
{
    struct bytes line;

    link->step = "AUTH";
    if (!read_line(link, &line))
        return false;
    if (line.data[0] == '-')
        return fail_reply(link, PSYNC_DENIED, bytes_of(line.data + 1, line.size - 1));
    return true;
}

/* A primary that does not know an option is none the worse; what it needs to refuse, it refuses at PSYNC. */
static bool read_replconf(struct link *link, int count)
{
    struct bytes line;

    link->step = "REPLCONF";
    for (int i = 0; i < count; i++) {
        if (!read_line(link, &line))
            return false;
    }
    return true;
}

static bool introduce(struct link *link)
{
    const struct link_settings *settings = link->settings;
    bool has_password = settings->password[0] != '\0';
    struct buffer request = { 0 };
    int count;

    link->step = "REPLCONF";
    if (has_password)
        add_auth(&request, settings);
    count = add_replconf(&request, settings);
    return send_request(link, &request) && (!has_password || read_auth(link)) && read_replconf(link, count);
}

static bool send_psync(struct link *link, const struct link_position *position)
{
    struct buffer request = { 0 };
    char next[TEXT_INT_SIZE];

    link->step = "PSYNC";
    if (position->id[0] == '\0') {
        add_command(&request, (const char *[]){ "PSYNC", "?", "-1", NULL });
    } else {
        next[text_of_int(position->offset + 1, next)] = '\0';
        add_command(&request, (const char *[]){ "PSYNC", position->id, next, position->failover ? "FAILOVER" : NULL, NULL });
    }
    return send_request(link, &request);
}

/* redis-server names its ID each time. */
static bool is_new_id(const struct link_position *position, const char *id)
{
    return id[0] != '\0' && strcmp(id, position->id) != 0;
}

static bool accept_reply(struct link *link, const struct link_position *position, struct bytes line)
{
    const struct link_host *host = &link->host;
    struct psync_reply reply;
    enum psync_result result = psync_parse(line, &reply);

    switch (result) {
    case PSYNC_CONTINUE:
        if (position->id[0] == '\0')
            return fail_reply(link, PSYNC_INVALID, line);
        link_input_expect_stream(&link->input);
        host->continued(host->context, is_new_id(position, reply.id) ? reply.id : NULL);
        return true;
    case PSYNC_FULL:
        if (position->continues_only)
            return link_fail(link, LINK_FAILED_REFUSED, "it has another history, or less of it than this server");
        link_input_expect_rdb(&link->input);
        host->full_resync(host->context, reply.id, reply.offset);
        return true;
    case PSYNC_INVALID:
        return fail_reply(link, result, line);
    default:
        return fail_reply(link, result, bytes_of(line.data + 1, line.size - 1));
    }
}

bool link_shake_hands(struct link *link)
{
    struct link_position position = { .offset = 0 };
    struct bytes line;

    link_set_state(link, LINK_HANDSHAKE);
    if (!ping(link) || !introduce(link))
        return false;
    link->host.position(link->host.context, &position);
    if (position.offset < 0 || position.offset > 2 * HISTORY_OFFSET_MAX)
        position.id[0] = '\0';          /* a stream that has gone on for too long after a hostile offset: all data is asked for */
    return send_psync(link, &position) && read_line(link, &line) && accept_reply(link, &position, line);
}

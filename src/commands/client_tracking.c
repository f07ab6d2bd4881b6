/* CLIENT TRACKING, CACHING, GETREDIR and TRACKINGINFO: what a connection wants to know about changed keys (engine/tracking.h). */
#include "commands/handlers.h"
#include "engine/client_ids.h"
#include "engine/engine.h"
#include "engine/tracking.h"

struct tracking_options {
    uint32_t modes;                 /* enum tracking_mode */
    int64_t redirect;               /* 0: not given */
    struct bytes *prefixes;         /* in the call's arena */
    int prefix_count;
};

static bool parse_redirect(struct call *call, int arg, struct tracking_options *options)
{
    if (options->redirect != 0) {
        reply_errorf(call, "ERR A client can only redirect to a single other client");
        return false;
    }
    if (!arg_integer(call, arg, &options->redirect))
        return false;
    if (client_ids_worker(call->engine->client_ids, (uint64_t)options->redirect) < 0) {
        reply_errorf(call, "ERR The client ID you want redirect to does not exist");
        return false;
    }
    return true;
}

/* 0: it is no mode. */
static uint32_t mode_of(const struct call *call, int arg)
{
    if (arg_is(call, arg, "bcast"))
        return TRACKING_BCAST;
    if (arg_is(call, arg, "optin"))
        return TRACKING_OPTIN;
    if (arg_is(call, arg, "optout"))
        return TRACKING_OPTOUT;
    return arg_is(call, arg, "noloop") ? TRACKING_NOLOOP : 0;
}

static bool parse_options(struct call *call, struct tracking_options *options)
{
    options->prefixes = arena_alloc(call->arena, (size_t)call->arg_count * sizeof(struct bytes));
    for (int i = 3; i < call->arg_count; i++) {
        bool more = i + 1 < call->arg_count;
        uint32_t mode = mode_of(call, i);

        if (arg_is(call, i, "redirect") && more) {
            if (!parse_redirect(call, ++i, options))
                return false;
        } else if (arg_is(call, i, "prefix") && more) {
            options->prefixes[options->prefix_count++] = call->args[++i];
        } else if (mode == 0) {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
        options->modes |= mode;
    }
    return true;
}

/* Returns the reason why the modes exclude each other or the one that is on; NULL: they do not. */
static const char *find_conflict(const struct tracking_options *options, uint32_t before)
{
    uint32_t opt = TRACKING_OPTIN | TRACKING_OPTOUT, modes = options->modes;

    if (!(modes & TRACKING_BCAST) && options->prefix_count > 0)
        return "ERR PREFIX option requires BCAST mode to be enabled";
    if (before & TRACKING_ON && (before ^ modes) & TRACKING_BCAST)
        return "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different "
               "mode.";
    if (modes & TRACKING_BCAST && modes & opt)
        return "ERR OPTIN and OPTOUT are not compatible with BCAST";
    if ((modes & opt) == opt)
        return "ERR You can't specify both OPTIN mode and OPTOUT mode";
    if (modes & opt && before & opt && (modes & opt) != (before & opt))
        return "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different "
               "mode.";
    return NULL;
}

/* Returns whether one prefix begins with the other, so that a key could belong to both. */
static bool overlap(struct bytes a, struct bytes b)
{
    size_t size = a.size < b.size ? a.size : b.size;

    return size == 0 || memcmp(a.data, b.data, size) == 0;
}

/* Compares one prefix with those that there are, and with the following ones. */
static bool check_prefix(struct call *call, const struct tracking_options *options, int index)
{
    struct bytes prefix = options->prefixes[index];

    for (int i = 0; i < tracking_prefix_count(call->client); i++) {
        struct bytes other = tracking_prefix(call->client, i);

        if (overlap(prefix, other)) {
            reply_errorf(call, "ERR Prefix '%.*s' overlaps with an existing prefix '%.*s'. Prefixes for a single client must not overlap.",
                (int)prefix.size, prefix.data, (int)other.size, other.data);
            return false;
        }
    }
    for (int i = index + 1; i < options->prefix_count; i++) {
        struct bytes other = options->prefixes[i];

        if (overlap(prefix, other)) {
            reply_errorf(call, "ERR Prefix '%.*s' overlaps with another provided prefix '%.*s'. Prefixes for a single client must not overlap.",
                (int)prefix.size, prefix.data, (int)other.size, other.data);
            return false;
        }
    }
    return true;
}

static void turn_on(struct call *call, const struct tracking_options *options)
{
    const char *conflict = find_conflict(options, tracking_mode(call->client));

    if (conflict != NULL) {
        reply_errorf(call, "%s", conflict);
        return;
    }
    for (int i = 0; i < options->prefix_count; i++) {
        if (!check_prefix(call, options, i))
            return;
    }
    tracking_turn_on(call->client, options->modes, (uint64_t)options->redirect, options->prefixes, options->prefix_count);
    reply_ok(call->reply);
}

void client_tracking_command(struct call *call)
{
    struct tracking_options options = { 0 };

    if (!parse_options(call, &options))
        return;
    if (arg_is(call, 2, "on")) {
        turn_on(call, &options);
    } else if (arg_is(call, 2, "off")) {
        tracking_turn_off(call->client);
        reply_ok(call->reply);
    } else {
        reply_error(call, ERR_SYNTAX);
    }
}

void client_caching_command(struct call *call)
{
    uint32_t modes = tracking_mode(call->client);

    if (!(modes & TRACKING_ON))
        reply_errorf(call, "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled");
    else if (arg_is(call, 2, "yes") && !(modes & TRACKING_OPTIN))
        reply_errorf(call, "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
    else if (arg_is(call, 2, "no") && !(modes & TRACKING_OPTOUT))
        reply_errorf(call, "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");
    else if (!arg_is(call, 2, "yes") && !arg_is(call, 2, "no"))
        reply_error(call, ERR_SYNTAX);
    else {
        call->client->flags |= CLIENT_CACHING;
        reply_ok(call->reply);
    }
}

static int64_t redirect_of(const struct client *client)
{
    return tracking_mode(client) & TRACKING_ON ? (int64_t)tracking_redirect(client) : -1;
}

void client_getredir_command(struct call *call)
{
    reply_integer(call->reply, redirect_of(call->client));
}

static void reply_modes(struct call *call)
{
    uint32_t modes = tracking_mode(call->client);
    bool caching = call->client->flags & CLIENT_CACHING;
    const struct {
        const char *name;
        bool is_true;
    } words[] = {
        { modes & TRACKING_ON ? "on" : "off", true },
        { "bcast", modes & TRACKING_BCAST },
        { "optin", modes & TRACKING_OPTIN },
        { "caching-yes", modes & TRACKING_OPTIN && caching },
        { "optout", modes & TRACKING_OPTOUT },
        { "caching-no", modes & TRACKING_OPTOUT && caching },
        { "noloop", modes & TRACKING_NOLOOP },
        { "broken_redirect", modes & TRACKING_BROKEN },
    };
    struct reply_later later = reply_later_begin(call->reply);
    size_t count = 0;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!words[i].is_true)
            continue;
        reply_bulk_string(call->reply, words[i].name);
        count++;
    }
    reply_later_set(call->reply, later, count);
}

void client_trackinginfo_command(struct call *call)
{
    int count = tracking_prefix_count(call->client);

    reply_map(call->reply, 3);
    reply_bulk_string(call->reply, "flags");
    reply_modes(call);
    reply_bulk_string(call->reply, "redirect");
    reply_integer(call->reply, redirect_of(call->client));
    reply_bulk_string(call->reply, "prefixes");
    reply_array(call->reply, (size_t)count);
    for (int i = 0; i < count; i++)
        reply_bulk(call->reply, tracking_prefix(call->client, i));
}

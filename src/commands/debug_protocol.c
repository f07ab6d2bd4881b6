/* DEBUG PROTOCOL: a reply of each kind, to test clients with. */
#include "commands/debug.h"

static void protocol_string(struct reply *reply) { reply_bulk(reply, BYTES("Hello World")); }
static void protocol_integer(struct reply *reply) { reply_integer(reply, 12345); }
static void protocol_double(struct reply *reply) { reply_double(reply, 3.141); }
static void protocol_null(struct reply *reply) { reply_null(reply); }
static void protocol_true(struct reply *reply) { reply_bool(reply, true); }
static void protocol_false(struct reply *reply) { reply_bool(reply, false); }
static void protocol_bignum(struct reply *reply) { reply_big_number(reply, BYTES("1234567999999999999999999999999999999")); }
static void protocol_verbatim(struct reply *reply) { reply_verbatim(reply, "txt", BYTES("This is a verbatim\nstring")); }

static void protocol_array(struct reply *reply)
{
    reply_array(reply, 3);
    for (int i = 0; i < 3; i++)
        reply_integer(reply, i);
}

static void protocol_set(struct reply *reply)
{
    reply_set(reply, 3);
    for (int i = 0; i < 3; i++)
        reply_integer(reply, i);
}

static void protocol_map(struct reply *reply)
{
    reply_map(reply, 3);
    for (int i = 0; i < 3; i++) {
        reply_integer(reply, i);
        reply_bool(reply, i == 1);
    }
}

static void protocol_attrib(struct reply *reply)
{
    if (reply->protocol > 2) {
        reply_attribute(reply, 1);
        reply_bulk(reply, BYTES("key-popularity"));
        reply_array(reply, 2);
        reply_bulk(reply, BYTES("key:123"));
        reply_integer(reply, 90);
    }
    reply_bulk(reply, BYTES("Some real reply following the attribute"));
}

static void protocol_push(struct reply *reply)
{
    reply_push(reply, 2);
    reply_bulk(reply, BYTES("server-cpu-usage"));
    reply_integer(reply, 42);
    reply_bulk(reply, BYTES("Some real reply following the push reply"));
}

void debug_protocol(struct call *call)
{
    static const struct {
        const char *name;
        void (*write)(struct reply *reply);
    } types[] = {
        { "string", protocol_string }, { "integer", protocol_integer }, { "double", protocol_double },
        { "bignum", protocol_bignum }, { "null", protocol_null }, { "array", protocol_array }, { "set", protocol_set },
        { "map", protocol_map }, { "attrib", protocol_attrib }, { "push", protocol_push }, { "verbatim", protocol_verbatim },
        { "true", protocol_true }, { "false", protocol_false },
    };

    if (arg_is(call, 2, "push") && call->reply->protocol < 3) {
        reply_errorf(call, "ERR RESP2 is not supported by this command");
        return;
    }
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (arg_is(call, 2, types[i].name)) {
            types[i].write(call->reply);
            return;
        }
    }
    reply_errorf(call, "ERR Wrong protocol type name. Please use one of the following: "
        "string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false");
}

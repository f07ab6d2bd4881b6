#include "cluster/bus_message.h"

#include <string.h>

#include "base/check.h"

/* Offsets in the header. */
enum {
    AT_SIZE = 4, AT_VERSION = 8, AT_PORT = 10, AT_TYPE = 12, AT_GOSSIP_COUNT = 14, AT_CURRENT_EPOCH = 16, AT_CONFIG_EPOCH = 24, AT_OFFSET = 32,
    AT_SENDER = 40, AT_SLOTS = 80, AT_MASTER = 2128, AT_IP = 2168, AT_EXTENSION_COUNT = 2214, AT_OTHER_PORT = 2246, AT_BUS_PORT = 2248,
    AT_FLAGS = 2250, AT_STATE = 2252, AT_MESSAGE_FLAGS = 2253,
};

/* Offsets in an entry of gossip. */
enum { AT_PING_SENT = 40, AT_PONG = 44, AT_GOSSIP_IP = 48, AT_GOSSIP_PORT = 94, AT_GOSSIP_BUS_PORT = 96, AT_GOSSIP_FLAGS = 98, AT_GOSSIP_OTHER_PORT = 100 };

enum { VERSION = 1, GOSSIP_SIZE = 104, EXTENSION_HEADER_SIZE = 8, FORGOTTEN_SIZE = NODE_ID_SIZE + 8, UPDATE_SIZE = 8 + NODE_ID_SIZE + SLOTS_SIZE,
       PUBLISH_SIZE = 8, MODULE_SIZE = 13 };
enum extension_type { EXTENSION_HOST_NAME, EXTENSION_NAME, EXTENSION_FORGOTTEN, EXTENSION_SHARD_ID };

static const char signature[] = { 'R', 'C', 'm', 'b' };

static uint16_t get16(const char *at)
{
    uint16_t number;

    memcpy(&number, at, sizeof(number));
    return __builtin_bswap16(number);
}

static uint32_t get32(const char *at)
{
    uint32_t number;

    memcpy(&number, at, sizeof(number));
    return __builtin_bswap32(number);
}

static uint64_t get64(const char *at)
{
    uint64_t number;

    memcpy(&number, at, sizeof(number));
    return __builtin_bswap64(number);
}

static void put16(char *at, uint16_t number)
{
    number = __builtin_bswap16(number);
    memcpy(at, &number, sizeof(number));
}

static void put32(char *at, uint32_t number)
{
    number = __builtin_bswap32(number);
    memcpy(at, &number, sizeof(number));
}

static void put64(char *at, uint64_t number)
{
    number = __builtin_bswap64(number);
    memcpy(at, &number, sizeof(number));
}

static bool has_gossip(uint16_t type)
{
    return type == BUS_PING || type == BUS_PONG || type == BUS_MEET;
}

/* The least and the most bytes after the header, as far as the prefix says. */
static void body_bounds(uint16_t type, uint16_t gossip_count, uint64_t *least, uint64_t *most)
{
    *least = *most = 0;
    switch (type) {
    case BUS_PING:
    case BUS_PONG:
    case BUS_MEET:
        *least = (uint64_t)gossip_count * GOSSIP_SIZE;
        *most = *least + BUS_EXTENSIONS_SIZE_MAX;
        break;
    case BUS_FAIL:
        *least = *most = NODE_ID_SIZE;
        break;
    case BUS_UPDATE:
        *least = *most = UPDATE_SIZE;
        break;
    case BUS_FAILOVER_AUTH_REQUEST:
    case BUS_FAILOVER_AUTH_ACK:
    case BUS_MFSTART:
        break;
    case BUS_PUBLISH:
    case BUS_PUBLISHSHARD:
        *least = PUBLISH_SIZE;
        *most = UINT32_MAX;
        break;
    case BUS_MODULE:
        *least = MODULE_SIZE;
        *most = UINT32_MAX;
        break;
    default:
        *most = UINT32_MAX;
        break;
    }
}

enum status bus_message_size(struct bytes prefix, size_t size_max, uint32_t *size)
{
    uint64_t least, most;

    CHECK(prefix.size >= BUS_PREFIX_SIZE);
    if (memcmp(prefix.data, signature, sizeof(signature)) != 0)
        return STATUS_CORRUPT;
    *size = get32(prefix.data + AT_SIZE);
    if (*size < BUS_HEADER_SIZE)
        return STATUS_CORRUPT;
    if (*size > size_max)
        return STATUS_TOO_LARGE;
    if (get16(prefix.data + AT_VERSION) != VERSION)
        return STATUS_OK;                                       /* its types and sizes are others */
    body_bounds(get16(prefix.data + AT_TYPE), get16(prefix.data + AT_GOSSIP_COUNT), &least, &most);
    if (*size < BUS_HEADER_SIZE + least)
        return STATUS_CORRUPT;
    return *size > BUS_HEADER_SIZE + most ? STATUS_TOO_LARGE : STATUS_OK;
}

static bool read_id(const char *at, struct node_id *id)
{
    return node_id_read(bytes_of(at, NODE_ID_SIZE), id);
}

/* Copies an address, and zeros instead of what follows its NUL; false if it has none, or is not an address. */
static bool read_ip(const char *at, char ip[NODE_IP_SIZE])
{
    size_t size = strnlen(at, NODE_IP_SIZE);

    memset(ip, 0, NODE_IP_SIZE);
    if (size == NODE_IP_SIZE || !node_ip_is_valid(bytes_of(at, size)))
        return false;
    memcpy(ip, at, size);
    return true;
}

static bool read_header(const char *at, struct bus_message *message)
{
    static const struct node_id none;

    message->type = get16(at + AT_TYPE);
    message->flags = get16(at + AT_FLAGS);
    message->port = get16(at + AT_PORT);
    message->other_port = get16(at + AT_OTHER_PORT);
    message->bus_port = get16(at + AT_BUS_PORT);
    message->state = (uint8_t)at[AT_STATE];
    message->message_flags = (uint8_t)at[AT_MESSAGE_FLAGS];
    message->current_epoch = get64(at + AT_CURRENT_EPOCH);
    message->config_epoch = get64(at + AT_CONFIG_EPOCH);
    message->offset = get64(at + AT_OFFSET);
    message->slots = (const struct slots *)(at + AT_SLOTS);
    return read_id(at + AT_SENDER, &message->sender) && read_ip(at + AT_IP, message->ip) &&
           (memcmp(at + AT_MASTER, none.text, NODE_ID_SIZE) == 0 || read_id(at + AT_MASTER, &message->master));
}

static bool check_gossip(const struct bus_message *message)
{
    struct node_id id;
    char ip[NODE_IP_SIZE];

    for (unsigned i = 0; i < message->gossip_count; i++) {
        const char *at = message->gossip.data + (size_t)i * GOSSIP_SIZE;

        if (!read_id(at, &id) || !read_ip(at + AT_GOSSIP_IP, ip))
            return false;
    }
    return true;
}

/* Removes the first extension; false if none is there that is whole. */
static bool take_extension(struct bytes *left, uint16_t *type, struct bytes *contents)
{
    uint32_t size;

    if (left->size < EXTENSION_HEADER_SIZE)
        return false;
    size = get32(left->data);
    if (size < EXTENSION_HEADER_SIZE || size % 8 != 0 || size > left->size)
        return false;
    *type = get16(left->data + 4);
    *contents = bytes_of(left->data + EXTENSION_HEADER_SIZE, size - EXTENSION_HEADER_SIZE);
    *left = bytes_of(left->data + size, left->size - size);
    return true;
}

/* A text with a NUL in the contents; empty if it is not valid: nodes of Redis do not verify what they are given. */
static bool read_text(struct bytes contents, bool (*is_valid)(struct bytes), struct bytes *text)
{
    *text = bytes_of(contents.data, strnlen(contents.data, contents.size));
    if (text->size == contents.size)
        return false;
    if (!is_valid(*text))
        text->size = 0;
    return true;
}

static bool read_extension(struct bus_message *message, uint16_t type, struct bytes contents)
{
    struct node_id id;

    switch (type) {
    case EXTENSION_HOST_NAME:
        return read_text(contents, node_host_name_is_valid, &message->host_name);
    case EXTENSION_NAME:
        return read_text(contents, node_name_is_valid, &message->name);
    case EXTENSION_FORGOTTEN:
        return contents.size == FORGOTTEN_SIZE && read_id(contents.data, &id);
    case EXTENSION_SHARD_ID:
        return contents.size == NODE_ID_SIZE && read_id(contents.data, &message->shard_id);
    default:
        return true;                                            /* of a later version */
    }
}

static bool read_extensions(struct bus_message *message, unsigned count)
{
    struct bytes left = message->extensions, contents;
    uint16_t type;

    for (; count > 0; count--) {
        if (!take_extension(&left, &type, &contents) || !read_extension(message, type, contents))
            return false;
    }
    return left.size == 0;
}

static bool read_ping(struct bytes body, unsigned extension_count, struct bus_message *message)
{
    size_t size = (size_t)message->gossip_count * GOSSIP_SIZE;

    message->gossip = bytes_of(body.data, size);
    message->extensions = bytes_of(body.data + size, body.size - size);
    return check_gossip(message) && read_extensions(message, message->message_flags & BUS_HAS_EXTENSIONS ? extension_count : 0);
}

static bool read_publish(struct bytes body, struct bus_message *message)
{
    uint64_t channel_size = get32(body.data), text_size = get32(body.data + 4);

    if (PUBLISH_SIZE + channel_size + text_size != body.size)
        return false;
    message->channel = bytes_of(body.data + PUBLISH_SIZE, channel_size);
    message->text = bytes_of(body.data + PUBLISH_SIZE + channel_size, text_size);
    return true;
}

/* bus_message_size has verified sizes that are fixed. */
static bool read_body(struct bytes body, unsigned extension_count, struct bus_message *message)
{
    switch (message->type) {
    case BUS_PING:
    case BUS_PONG:
    case BUS_MEET:
        return read_ping(body, extension_count, message);
    case BUS_FAIL:
        return read_id(body.data, &message->about);
    case BUS_UPDATE:
        message->about_epoch = get64(body.data);
        message->about_slots = (const struct slots *)(body.data + 8 + NODE_ID_SIZE);
        return read_id(body.data + 8, &message->about);
    case BUS_PUBLISH:
    case BUS_PUBLISHSHARD:
        return read_publish(body, message);
    case BUS_MODULE:
        return MODULE_SIZE + (uint64_t)get32(body.data + 8) == body.size;
    default:
        return true;
    }
}

enum status bus_message_read(struct bytes bytes, struct bus_message *message)
{
    uint32_t size;

    *message = (struct bus_message){ 0 };
    if (bytes.size < BUS_HEADER_SIZE || bus_message_size(bytes, UINT32_MAX, &size) != STATUS_OK || size != bytes.size)
        return STATUS_CORRUPT;
    if (get16(bytes.data + AT_VERSION) != VERSION)
        return STATUS_VERSION;
    if (!read_header(bytes.data, message))
        return STATUS_CORRUPT;
    if (has_gossip(message->type))
        message->gossip_count = get16(bytes.data + AT_GOSSIP_COUNT);
    return read_body(bytes_of(bytes.data + BUS_HEADER_SIZE, bytes.size - BUS_HEADER_SIZE), get16(bytes.data + AT_EXTENSION_COUNT), message)
           ? STATUS_OK : STATUS_CORRUPT;
}

void bus_message_gossip(const struct bus_message *message, unsigned index, struct bus_gossip *gossip)
{
    const char *at = message->gossip.data + (size_t)index * GOSSIP_SIZE;

    CHECK(index < message->gossip_count);
    *gossip = (struct bus_gossip){
        .ping_sent_s = get32(at + AT_PING_SENT), .pong_s = get32(at + AT_PONG), .port = get16(at + AT_GOSSIP_PORT),
        .bus_port = get16(at + AT_GOSSIP_BUS_PORT), .flags = get16(at + AT_GOSSIP_FLAGS), .other_port = get16(at + AT_GOSSIP_OTHER_PORT),
    };
    CHECK(read_id(at, &gossip->id) && read_ip(at + AT_GOSSIP_IP, gossip->ip));
}

bool bus_message_forgotten(const struct bus_message *message, size_t *at, struct node_id *id, uint64_t *seconds)
{
    struct bytes left = bytes_of(message->extensions.data + *at, message->extensions.size - *at), contents;
    uint16_t type;

    while (take_extension(&left, &type, &contents)) {
        *at = message->extensions.size - left.size;
        if (type == EXTENSION_FORGOTTEN) {
            CHECK(read_id(contents.data, id));
            *seconds = get64(contents.data + NODE_ID_SIZE);
            return true;
        }
    }
    return false;
}

/* Appends zeros to the message that begins at `begin`, and notes its new size. The caller writes what they become. */
static char *grow_message(struct buffer *out, size_t begin, size_t size)
{
    char *at = buffer_reserve(out, size);

    memset(at, 0, size);
    out->size += size;
    CHECK(out->size - begin <= UINT32_MAX);
    put32(out->data + begin + AT_SIZE, (uint32_t)(out->size - begin));
    return at;
}

static void write_header(const struct bus_message *message, char *at)
{
    memcpy(at, signature, sizeof(signature));
    put16(at + AT_VERSION, VERSION);
    put16(at + AT_PORT, message->port);
    put16(at + AT_TYPE, message->type);
    put64(at + AT_CURRENT_EPOCH, message->current_epoch);
    put64(at + AT_CONFIG_EPOCH, message->config_epoch);
    put64(at + AT_OFFSET, message->offset);
    memcpy(at + AT_SENDER, message->sender.text, NODE_ID_SIZE);
    if (message->slots != NULL)
        memcpy(at + AT_SLOTS, message->slots->bits, SLOTS_SIZE);
    memcpy(at + AT_MASTER, message->master.text, NODE_ID_SIZE);
    memcpy(at + AT_IP, message->ip, strnlen(message->ip, NODE_IP_SIZE - 1));
    put16(at + AT_OTHER_PORT, message->other_port);
    put16(at + AT_BUS_PORT, message->bus_port);
    put16(at + AT_FLAGS, message->flags);
    at[AT_STATE] = (char)message->state;
    at[AT_MESSAGE_FLAGS] = (char)message->message_flags;
}

static void write_body(const struct bus_message *message, struct buffer *out, size_t begin)
{
    char *at;

    switch (message->type) {
    case BUS_FAIL:
        memcpy(grow_message(out, begin, NODE_ID_SIZE), message->about.text, NODE_ID_SIZE);
        break;
    case BUS_UPDATE:
        at = grow_message(out, begin, UPDATE_SIZE);
        put64(at, message->about_epoch);
        memcpy(at + 8, message->about.text, NODE_ID_SIZE);
        memcpy(at + 8 + NODE_ID_SIZE, message->about_slots->bits, SLOTS_SIZE);
        break;
    case BUS_PUBLISH:
    case BUS_PUBLISHSHARD:
        CHECK(message->channel.size <= UINT32_MAX && message->text.size <= UINT32_MAX);
        at = grow_message(out, begin, PUBLISH_SIZE + message->channel.size + message->text.size);
        put32(at, (uint32_t)message->channel.size);
        put32(at + 4, (uint32_t)message->text.size);
        if (message->channel.size > 0)
            memcpy(at + PUBLISH_SIZE, message->channel.data, message->channel.size);
        if (message->text.size > 0)
            memcpy(at + PUBLISH_SIZE + message->channel.size, message->text.data, message->text.size);
        break;
    default:
        break;
    }
}

size_t bus_message_write(const struct bus_message *message, struct buffer *out)
{
    size_t begin = out->size;

    CHECK(message->type < BUS_TYPE_COUNT && message->type != BUS_MODULE);
    buffer_reserve(out, BUS_HEADER_SIZE);
    memset(out->data + begin, 0, BUS_HEADER_SIZE);
    out->size += BUS_HEADER_SIZE;
    write_header(message, out->data + begin);
    put32(out->data + begin + AT_SIZE, BUS_HEADER_SIZE);
    write_body(message, out, begin);
    return begin;
}

/* Adds 1 to a number of the message's header, and returns it. */
static uint16_t count_part(struct buffer *out, size_t begin, size_t at)
{
    uint16_t count = get16(out->data + begin + at);

    CHECK(count < UINT16_MAX && has_gossip(get16(out->data + begin + AT_TYPE)));
    put16(out->data + begin + at, (uint16_t)(count + 1));
    return (uint16_t)(count + 1);
}

void bus_message_add_gossip(struct buffer *out, size_t begin, const struct bus_gossip *gossip)
{
    uint16_t count = count_part(out, begin, AT_GOSSIP_COUNT);
    char *at = grow_message(out, begin, GOSSIP_SIZE);

    CHECK(out->size - begin == BUS_HEADER_SIZE + (size_t)count * GOSSIP_SIZE);          /* no extension came before */
    memcpy(at, gossip->id.text, NODE_ID_SIZE);
    put32(at + AT_PING_SENT, gossip->ping_sent_s);
    put32(at + AT_PONG, gossip->pong_s);
    memcpy(at + AT_GOSSIP_IP, gossip->ip, strnlen(gossip->ip, NODE_IP_SIZE - 1));
    put16(at + AT_GOSSIP_PORT, gossip->port);
    put16(at + AT_GOSSIP_BUS_PORT, gossip->bus_port);
    put16(at + AT_GOSSIP_FLAGS, gossip->flags);
    put16(at + AT_GOSSIP_OTHER_PORT, gossip->other_port);
}

/* Appends an extension whose contents have `size` bytes, and returns where they go. */
static char *add_extension(struct buffer *out, size_t begin, enum extension_type type, size_t size)
{
    size_t whole = EXTENSION_HEADER_SIZE + (size + 7) / 8 * 8;
    char *at;

    count_part(out, begin, AT_EXTENSION_COUNT);
    at = grow_message(out, begin, whole);
    out->data[begin + AT_MESSAGE_FLAGS] |= BUS_HAS_EXTENSIONS;
    put32(at, (uint32_t)whole);
    put16(at + 4, (uint16_t)type);
    return at + EXTENSION_HEADER_SIZE;
}

void bus_message_add_host_name(struct buffer *out, size_t begin, struct bytes name)
{
    CHECK(name.size > 0 && node_host_name_is_valid(name));
    memcpy(add_extension(out, begin, EXTENSION_HOST_NAME, name.size + 1), name.data, name.size);
}

void bus_message_add_name(struct buffer *out, size_t begin, struct bytes name)
{
    CHECK(name.size > 0 && node_name_is_valid(name));
    memcpy(add_extension(out, begin, EXTENSION_NAME, name.size + 1), name.data, name.size);
}

void bus_message_add_forgotten(struct buffer *out, size_t begin, const struct node_id *id, uint64_t seconds)
{
    char *at = add_extension(out, begin, EXTENSION_FORGOTTEN, FORGOTTEN_SIZE);

    memcpy(at, id->text, NODE_ID_SIZE);
    put64(at + NODE_ID_SIZE, seconds);
}

void bus_message_add_shard_id(struct buffer *out, size_t begin, const struct node_id *id)
{
    memcpy(add_extension(out, begin, EXTENSION_SHARD_ID, NODE_ID_SIZE), id->text, NODE_ID_SIZE);
}

const char *bus_type_name(uint16_t type)
{
    static const char *const names[BUS_TYPE_COUNT] = {
        "ping", "pong", "meet", "fail", "publish", "auth-req", "auth-ack", "update", "mfstart", "module", "publishshard",
    };

    return type < BUS_TYPE_COUNT ? names[type] : "unknown";
}

#include "replication/link_psync.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"

static bool begins_with(struct bytes line, struct bytes word)
{
    return line.size >= word.size && memcmp(line.data, word.data, word.size) == 0;
}

static struct bytes after(struct bytes line, size_t size)
{
    return bytes_of(line.data + size, line.size - size);
}

/* 40 hex digits, at the begin of `text`. */
static bool parse_id(struct bytes text, char *id)
{
    if (text.size < LINK_ID_SIZE)
        return false;
    for (int i = 0; i < LINK_ID_SIZE; i++) {
        if (!isxdigit((unsigned char)text.data[i]))
            return false;
    }
    memcpy(id, text.data, LINK_ID_SIZE);
    id[LINK_ID_SIZE] = '\0';
    return true;
}

static enum psync_result parse_full(struct bytes rest, struct psync_reply *reply)
{
    if (!parse_id(rest, reply->id) || rest.size == LINK_ID_SIZE || rest.data[LINK_ID_SIZE] != ' ')
        return PSYNC_INVALID;
    if (!text_to_int(after(rest, LINK_ID_SIZE + 1), &reply->offset) || reply->offset < 0 || reply->offset > HISTORY_OFFSET_MAX)
        return PSYNC_INVALID;
    return PSYNC_FULL;
}

static enum psync_result parse_continue(struct bytes rest, struct psync_reply *reply)
{
    reply->id[0] = '\0';
    if (rest.size == 0)
        return PSYNC_CONTINUE;
    if (rest.size != 1 + LINK_ID_SIZE || rest.data[0] != ' ' || !parse_id(after(rest, 1), reply->id))
        return PSYNC_INVALID;
    return PSYNC_CONTINUE;
}

enum psync_result psync_parse_error(struct bytes line)
{
    static const struct {
        const char *begin;
        enum psync_result result;
    } errors[] = {
        { "-NOMASTERLINK", PSYNC_NOT_YET }, { "-LOADING", PSYNC_NOT_YET }, { "-MASTERDOWN", PSYNC_NOT_YET }, { "-BUSY", PSYNC_NOT_YET },
        { "-NOAUTH", PSYNC_DENIED }, { "-NOPERM", PSYNC_DENIED }, { "-WRONGPASS", PSYNC_DENIED },
        { "-ERR PSYNC FAILOVER can't be sent to a master", PSYNC_IS_PRIMARY },
    };

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (begins_with(line, bytes_of_string(errors[i].begin)))
            return errors[i].result;
    }
    return PSYNC_REFUSED;
}

enum psync_result psync_parse(struct bytes line, struct psync_reply *reply)
{
    const struct bytes full = BYTES("+FULLRESYNC "), cont = BYTES("+CONTINUE");

    if (begins_with(line, full))
        return parse_full(after(line, full.size), reply);
    if (begins_with(line, cont))
        return parse_continue(after(line, cont.size), reply);
    return line.size > 0 && line.data[0] == '-' ? psync_parse_error(line) : PSYNC_INVALID;
}

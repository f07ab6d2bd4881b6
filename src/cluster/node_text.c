#include "cluster/node_text.h"

static const struct {
    uint16_t flag;
    const char *word;
} flag_words[] = {
    { NODE_MYSELF, "myself" }, { NODE_MASTER, "master" }, { NODE_REPLICA, "slave" }, { NODE_PFAIL, "fail?" }, { NODE_FAIL, "fail" },
    { NODE_HANDSHAKE, "handshake" }, { NODE_NO_ADDRESS, "noaddr" }, { NODE_NO_FAILOVER, "nofailover" }, { 0, "noflags" },
};
enum { FLAG_COUNT = sizeof(flag_words) / sizeof(flag_words[0]) };

void node_flags_append(struct buffer *out, uint16_t flags)
{
    size_t begin = out->size;

    for (int i = 0; i < FLAG_COUNT; i++) {
        if (flags & flag_words[i].flag || (flag_words[i].flag == 0 && out->size == begin)) {
            buffer_append_string(out, out->size == begin ? "" : ",");
            buffer_append_string(out, flag_words[i].word);
        }
    }
}

bool node_flags_read(struct bytes text, uint16_t *flags)
{
    *flags = 0;
    for (size_t at = 0; at <= text.size;) {
        const char *comma = at < text.size ? memchr(text.data + at, ',', text.size - at) : NULL;
        size_t end = comma == NULL ? text.size : (size_t)(comma - text.data);
        struct bytes word = bytes_of(text.data + at, end - at);
        int i = 0;

        while (i < FLAG_COUNT && !bytes_is(word, flag_words[i].word))
            i++;
        if (i == FLAG_COUNT)
            return false;
        *flags |= flag_words[i].flag;
        at = end + 1;
    }
    return true;
}

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool node_host_name_is_valid(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        if (!is_letter_or_digit(name.data[i]) && name.data[i] != '-' && name.data[i] != '.')
            return false;
    }
    return name.size <= NODE_HOST_NAME_SIZE_MAX;
}

bool node_name_is_valid(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        if ((unsigned char)name.data[i] <= ' ' || name.data[i] == 0x7f ||
            strchr("!#$%&()*+:;<>?@[]^{|}~,=\"'", name.data[i]) != NULL)
            return false;
    }
    return name.size <= NODE_NAME_SIZE_MAX;
}

bool node_ip_is_valid(struct bytes ip)
{
    for (size_t i = 0; i < ip.size; i++) {
        if (!is_letter_or_digit(ip.data[i]) && (ip.data[i] == '\0' || strchr(".:-_%", ip.data[i]) == NULL))
            return false;
    }
    return ip.size < NODE_IP_SIZE;
}

#include "metrics/metric.h"

const char *metric_suffix(enum metric_kind kind)
{
    static const char *const suffixes[] = { [METRIC_COUNTER] = "_total", [METRIC_GAUGE] = "", [METRIC_INFO] = "_info", [METRIC_HISTOGRAM] = "" };

    return suffixes[kind];
}

size_t metric_utf8_size(struct bytes text)
{
    const unsigned char *at = (const unsigned char *)text.data;
    static const unsigned char second_min[] = { [0xe0 - 0xe0] = 0xa0, [0xf0 - 0xe0] = 0x90 }, second_max[] = { [0xed - 0xe0] = 0x9f, [0xf4 - 0xe0] = 0x8f };
    size_t size = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    size_t lead = at[0] >= 0xe0 ? at[0] - 0xe0u : sizeof(second_min);

    if (size == 0 || size > text.size)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    if (lead < sizeof(second_min) && second_min[lead] != 0 && at[1] < second_min[lead])
        return 0;
    if (lead < sizeof(second_max) && second_max[lead] != 0 && at[1] > second_max[lead])
        return 0;
    return size;
}

bool metric_utf8_next(struct bytes *text, struct bytes *character)
{
    size_t size;

    if (text->size == 0)
        return false;
    size = metric_utf8_size(*text);
    *character = size > 0 ? bytes_of(text->data, size) : BYTES("\xef\xbf\xbd");
    size += size == 0;
    *text = bytes_of(text->data + size, text->size - size);
    return true;
}

void metric_append_utf8(struct buffer *out, struct bytes text)
{
    struct bytes character;

    while (metric_utf8_next(&text, &character))
        buffer_append_bytes(out, character);
}

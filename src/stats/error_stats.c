#include "stats/error_stats.h"

#include <stdbool.h>

#include "base/mem.h"
#include "base/mutex.h"

struct code {
    char text[ERROR_CODE_SIZE_MAX];
    uint8_t size;
    uint64_t count;
};

struct error_stats {
    struct mutex lock;
    struct code codes[ERROR_CODES_MAX + 1];     /* lock; sorted. One more than the limit: ERRORSTATS_OVERFLOW */
    size_t count;                               /* lock */
};

struct error_stats *error_stats_create(void)
{
    struct error_stats *stats = mem_zalloc(sizeof(*stats));

    mutex_init(&stats->lock);
    return stats;
}

void error_stats_destroy(struct error_stats *stats)
{
    if (stats == NULL)
        return;
    mutex_release(&stats->lock);
    mem_free(stats);
}

static struct bytes first_word(struct bytes text)
{
    size_t looked_at = text.size < ERROR_CODE_SIZE_MAX ? text.size : ERROR_CODE_SIZE_MAX;
    const char *space = looked_at > 0 ? memchr(text.data, ' ', looked_at) : NULL;

    return space != NULL ? bytes_of(text.data, (size_t)(space - text.data)) : BYTES("ERR");
}

static bool find_place(const struct error_stats *stats, struct bytes code, size_t *place)
{
    size_t low = 0, high = stats->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = bytes_compare(bytes_of(stats->codes[middle].text, stats->codes[middle].size), code);

        if (order == 0) {
            *place = middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *place = low;
    return false;
}

void error_stats_note(struct error_stats *stats, struct bytes text)
{
    struct bytes code = first_word(text);
    size_t place;

    mutex_lock(&stats->lock);
    if (!find_place(stats, code, &place)) {
        bool is_known = false;

        if (stats->count >= ERROR_CODES_MAX) {
            code = BYTES("ERRORSTATS_OVERFLOW");
            is_known = find_place(stats, code, &place);
        }
        if (!is_known) {
            memmove(&stats->codes[place + 1], &stats->codes[place], (stats->count - place) * sizeof(stats->codes[0]));
            stats->codes[place] = (struct code){ .size = (uint8_t)code.size };
            memcpy(stats->codes[place].text, code.data, code.size);
            stats->count++;
        }
    }
    stats->codes[place].count++;
    mutex_unlock(&stats->lock);
}

void error_stats_reset(struct error_stats *stats)
{
    mutex_lock(&stats->lock);
    stats->count = 0;
    mutex_unlock(&stats->lock);
}

void error_stats_each(struct error_stats *stats, error_stats_visit *visit, void *context)
{
    mutex_lock(&stats->lock);
    for (size_t i = 0; i < stats->count; i++)
        visit(context, bytes_of(stats->codes[i].text, stats->codes[i].size), stats->codes[i].count);
    mutex_unlock(&stats->lock);
}

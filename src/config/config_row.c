#include "config/config_row.h"

#include <strings.h>

#include "base/check.h"

/* Short names for use in config.def. */
enum {
    FIXED = CONFIG_FLAG_FIXED,
    LIVE = CONFIG_FLAG_LIVE,
    PROTECTED = CONFIG_FLAG_PROTECTED,
    HIDDEN = CONFIG_FLAG_HIDDEN,
    UNUSED = CONFIG_FLAG_UNUSED,
    POWER_OF_TWO = CONFIG_FLAG_POWER_OF_TWO,
    NAMES_FILE = CONFIG_FLAG_NAMES_FILE,
    ABSENT = CONFIG_FLAG_UNUSED | CONFIG_FLAG_ABSENT,
};

static const struct config_row rows[CONFIG_COUNT] = {
#define CONFIG_ROW(id_, name_, alias_, kind_, flags_, initial_, low_, high_, words_) \
    [CONFIG_##id_] = { \
        .id = CONFIG_##id_, \
        .name = name_, \
        .alias = alias_, \
        .kind = CONFIG_##kind_##_KIND, \
        .flags = flags_, \
        .initial = initial_, \
        .low = low_, \
        .high = high_, \
        .words = words_, \
    },
#include "config/config.def"
#undef CONFIG_ROW
};

const struct config_row *config_row(enum config_id id)
{
    CHECK((int)id >= 0 && id < CONFIG_COUNT);
    return &rows[id];
}

const struct config_row *config_row_find(struct bytes name, const char **name_given)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        if (bytes_is(name, rows[id].name)) {
            *name_given = rows[id].name;
            return &rows[id];
        }
        if (rows[id].alias && bytes_is(name, rows[id].alias)) {
            *name_given = rows[id].alias;
            return &rows[id];
        }
    }
    return NULL;
}

/* How many letters have to be inserted, removed or replaced; at least NAME_SIZE_MAX: the names are not alike. Case is ignored. */
enum { NAME_SIZE_MAX = 48, DISTANCE_MAX = 2 };

static int distance(struct bytes a, const char *b)
{
    int costs[NAME_SIZE_MAX + 1];
    size_t size = strlen(b);

    if (a.size > NAME_SIZE_MAX || size > NAME_SIZE_MAX || a.size > size + DISTANCE_MAX || size > a.size + DISTANCE_MAX)
        return NAME_SIZE_MAX;
    for (size_t j = 0; j <= size; j++)
        costs[j] = (int)j;
    for (size_t i = 0; i < a.size; i++) {
        int diagonal = costs[0];

        costs[0] = (int)i + 1;
        for (size_t j = 0; j < size; j++) {
            int replaced = diagonal + (strncasecmp(&a.data[i], &b[j], 1) != 0);
            int shorter = (costs[j] < costs[j + 1] ? costs[j] : costs[j + 1]) + 1;

            diagonal = costs[j + 1];
            costs[j + 1] = replaced < shorter ? replaced : shorter;
        }
    }
    return costs[size];
}

const char *config_row_similar(struct bytes name)
{
    const char *best = NULL;
    int least = DISTANCE_MAX + 1;

    for (int id = 0; id < CONFIG_COUNT; id++) {
        const char *const names[] = { rows[id].name, rows[id].alias };

        for (int i = 0; i < 2; i++) {
            int cost = names[i] != NULL ? distance(name, names[i]) : NAME_SIZE_MAX;

            /* A short word is that far from many names, and means none of them. */
            if (cost < least && 2 * (size_t)cost <= name.size) {
                least = cost;
                best = names[i];
            }
        }
    }
    return best;
}

bool config_row_is_parameter(const struct config_row *row)
{
    return row->kind != CONFIG_LINES_KIND && row->kind != CONFIG_INCLUDE_KIND && row->kind != CONFIG_OBSOLETE_KIND;
}

/* Removes the next word from a list like "no, yes, local"; false at its end. */
static bool word_next(const char **list, struct bytes *word)
{
    size_t size = strcspn(*list, ",");

    if (size == 0)
        return false;
    *word = bytes_of(*list, size);
    *list += size;
    *list += strspn(*list, ", ");
    return true;
}

int64_t config_row_word(const struct config_row *row, struct bytes word)
{
    const char *list = row->words;
    struct bytes candidate;

    for (int64_t place = 0; word_next(&list, &candidate); place++)
        if (word.size == candidate.size && strncasecmp(word.data, candidate.data, word.size) == 0)
            return place;
    return -1;
}

struct bytes config_row_word_at(const struct config_row *row, int64_t place)
{
    const char *list = row->words;
    struct bytes word;

    do
        CHECK(word_next(&list, &word));
    while (place-- > 0);
    return word;
}

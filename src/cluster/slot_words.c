#include "cluster/slot_words.h"

#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"

enum { OTHERS_MAX = 8 };

void slot_words_init(struct slot_words *words)
{
    *words = (struct slot_words){ .words = mem_alloc((SLOT_COUNT + OTHERS_MAX) * sizeof(*words->words)),
        .numbers = mem_alloc(SLOT_COUNT * sizeof(*words->numbers)) };
}

void slot_words_release(struct slot_words *words)
{
    mem_free(words->words);
    mem_free(words->numbers);
}

void slot_words_add(struct slot_words *words, struct bytes word)
{
    CHECK(words->count - words->number_count < OTHERS_MAX);
    words->words[words->count++] = word;
}

static void add_number(struct slot_words *words, unsigned number)
{
    char *text = words->numbers[words->number_count++];

    snprintf(text, sizeof(*words->numbers), "%u", number % SLOT_COUNT);
    words->words[words->count++] = bytes_of_string(text);
}

/* Ranges do not touch, so there are SLOT_COUNT / 2 at most. */
void slot_words_add_slots(struct slot_words *words, const struct slots *slots)
{
    struct slot_range range;

    for (unsigned at = 0; slots_next(slots, at, &range); at = range.last + 1U) {
        add_number(words, range.first);
        add_number(words, range.last);
    }
}

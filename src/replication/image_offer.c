#include "replication/image_offer.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "engine/engine.h"
#include "persist/archive.h"

#define OFFER_WORD "kelvin-image:"

enum { NUMBERS = 3, BY_SLOT = 1 };

void image_offer_write(const struct engine *engine, char offer[IMAGE_OFFER_SIZE])
{
    offer[0] = '\0';
    if (engine->tier != NULL && config_number(engine->config, CONFIG_REPL_IMAGE_SYNC) && config_number(engine->config, CONFIG_TIER_ENABLED))
        snprintf(offer, IMAGE_OFFER_SIZE, OFFER_WORD "%d:%u:%d%s", ARCHIVE_VERSION, engine->partitions->count, engine->partitions->db_count,
            engine->partitions->seed.by_slot ? ":1" : "");
}

/* Removes the number before the next colon. */
static bool take_number(struct bytes *text, int64_t *number)
{
    const char *colon = text->size > 0 ? memchr(text->data, ':', text->size) : NULL;
    size_t size = colon != NULL ? (size_t)(colon - text->data) : text->size;
    bool good = text_to_int(bytes_of(text->data, size), number);

    size += colon != NULL;
    *text = bytes_of(text->data + size, text->size - size);
    return good;
}

bool image_offer_fits(const struct engine *engine, struct bytes offer)
{
    int64_t numbers[NUMBERS], layout = 0;
    size_t size = strlen(OFFER_WORD);

    if (offer.size < size || memcmp(offer.data, OFFER_WORD, size) != 0)
        return false;
    offer = bytes_of(offer.data + size, offer.size - size);
    for (int i = 0; i < NUMBERS; i++) {
        if (!take_number(&offer, &numbers[i]))
            return false;
    }
    if (offer.size > 0 && (!take_number(&offer, &layout) || layout != BY_SLOT))
        return false;
    return offer.size == 0 && (layout == BY_SLOT) == engine->partitions->seed.by_slot && numbers[0] == ARCHIVE_VERSION && numbers[1] == engine->partitions->count && numbers[2] >= engine->partitions->db_count;
}

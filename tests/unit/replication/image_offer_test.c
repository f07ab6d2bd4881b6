/* Who can take whose images. */
#include "replication/image_offer.h"

#include "support/unit.h"

#include "base/mem.h"
#include "support/tier_box.h"

struct pair {
    struct tier_box plain, by_slot;
};

static int open_pair(void **state)
{
    struct pair *pair = mem_zalloc(sizeof(*pair));

    tier_box_create(&pair->plain, &(struct tier_box_options){ .seed = 1 });
    tier_box_create(&pair->by_slot, &(struct tier_box_options){ .seed = 1, .by_slot = true });
    *state = pair;
    return 0;
}

static int close_pair(void **state)
{
    struct pair *pair = *state;

    tier_box_destroy(&pair->plain);
    tier_box_destroy(&pair->by_slot);
    mem_free(pair);
    return 0;
}

static bool fits(const struct tier_box *box, const char *offer)
{
    return image_offer_fits(&box->engine, bytes_of_string(offer));
}

static void an_image_of_other_hashes_does_not_fit(void **state)
{
    struct pair *pair = *state;
    char plain[IMAGE_OFFER_SIZE], by_slot[IMAGE_OFFER_SIZE], line[IMAGE_OFFER_SIZE + 8];

    image_offer_write(&pair->plain.engine, plain);
    image_offer_write(&pair->by_slot.engine, by_slot);
    assert_true(fits(&pair->plain, plain) && fits(&pair->by_slot, by_slot));
    assert_false(fits(&pair->plain, by_slot) || fits(&pair->by_slot, plain));
    snprintf(line, sizeof(line), "%s:1", by_slot);
    assert_false(fits(&pair->by_slot, line));
    snprintf(line, sizeof(line), "%s:0", plain);
    assert_false(fits(&pair->plain, line));
    snprintf(line, sizeof(line), "%s:2", plain);
    assert_false(fits(&pair->by_slot, line));
    snprintf(line, sizeof(line), "%s:", plain);
    assert_false(fits(&pair->by_slot, line));
    assert_false(fits(&pair->plain, "kelvin-image:3:4") || fits(&pair->plain, "") || fits(&pair->plain, "eof"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_image_of_other_hashes_does_not_fit, open_pair, close_pair),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "keyspace/slot.h"

#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/redis_process.h"
#include "support/seed.h"

enum { KEYS = 3000, KEY_MAX = 40 };

static void slots_are_those_of_redis(void **state)
{
    static const struct {
        const char *key;
        uint16_t slot;
    } known[] = {       /* CLUSTER KEYSLOT of redis-server 7.2.6 */
        { "", 0 }, { "a", 15495 }, { "foo", 12182 }, { "bar", 5061 }, { "123456789", 12739 }, { "user:1000", 1649 },
        { "{a}", 15495 }, { "x{a}y", 15495 }, { "{a}{b}", 15495 }, { "{a", 10276 }, { "a}", 5921 }, { "}a{", 11710 }, { "}{a}", 15495 },
        { "{}", 15257 }, { "{}a", 10875 }, { "{}{a}", 13650 }, { "{{a}}", 10276 }, { "{{}a}", 4092 }, { "{ }", 9314 },
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (slot_of_key(bytes_of_string(known[i].key)) != known[i].slot)
            fail_msg("slot of '%s' is %u", known[i].key, slot_of_key(bytes_of_string(known[i].key)));
    }
    assert_int_equal(slot_of_key(bytes_of(NULL, 0)), 0);
}

static void a_tag_selects_the_slot_of_itself(void **state)
{
    assert_int_equal(slot_of_key(BYTES("{user}1")), slot_of_key(BYTES("user")));
    assert_int_equal(slot_of_key(BYTES("{user}1")), slot_of_key(BYTES("cart:{user}")));
    assert_int_equal(slot_of_key(BYTES("a{\0}b")), slot_of_key(BYTES("\0")));
    assert_int_not_equal(slot_of_key(BYTES("{}1")), slot_of_key(BYTES("{}2")));
}

/* Mostly braces and a few letters, so that tags of all kinds occur; some any bytes. */
static size_t make_key(struct random *random, char *key)
{
    static const char letters[] = "{}{}ab \\\"\r\n";
    size_t size = random_below(random, random_below(random, 8) == 0 ? KEY_MAX : 8);

    for (size_t i = 0; i < size; i++)
        key[i] = random_below(random, 10) == 0 ? (char)random_next(random) : letters[random_below(random, sizeof(letters))];
    return size;
}

static void random_keys_have_the_slots_that_redis_server_gives_them(void **state)
{
    struct redis_process *redis;
    struct random random;
    char port[8], key[KEY_MAX], line[KEY_MAX * 4 + 40];

    if (!redis_process_is_installed())
        skip();
    redis = mem_zalloc(sizeof(*redis));
    snprintf(port, sizeof(port), "%u", redis_process_free_port());
    redis_process_start(redis, (const char *[]){ "--cluster-enabled", "yes", "--cluster-port", port, NULL });
    random_init(&random, seed_new());
    for (int round = 0; round < KEYS; round++) {
        size_t size = make_key(&random, key), end = (size_t)sprintf(line, "CLUSTER KEYSLOT \"");
        const char *reply;

        for (size_t i = 0; i < size; i++)
            end += (size_t)sprintf(line + end, "\\x%02x", (uint8_t)key[i]);
        sprintf(line + end, "\"");
        reply = redis_process_run(redis, line);
        if (reply[0] != ':' || atoi(reply + 1) != slot_of_key(bytes_of(key, size)))
            fail_msg("%s: redis-server %s, here %u", line, reply, slot_of_key(bytes_of(key, size)));
    }
    redis_process_stop(redis);
    mem_free(redis);
}

static void a_slot_is_one_range_of_hashes(void **state)
{
    struct key_seed seed = { .sip = { seed_new(), 1 }, .by_slot = true };
    bool *seen = mem_zalloc(SLOT_COUNT);
    char key[32];

    (void)state;
    for (uint32_t slot = 0; slot < SLOT_COUNT; slot++) {
        uint64_t first = slot_first_hash((uint16_t)slot), last = slot_last_hash((uint16_t)slot);

        assert_int_equal(slot_of_hash(first), slot);
        assert_int_equal(slot_of_hash(last), slot);
        assert_int_equal(last - first, (1ull << SLOT_SHIFT) - 1);
        assert_false(seen[first >> SLOT_SHIFT]);
        seen[first >> SLOT_SHIFT] = true;
        for (uint32_t i = 1; i < 64; i++)       /* neighbours are in other partitions, of 64 */
            assert_int_not_equal(slot_first_hash((uint16_t)((slot + i) % SLOT_COUNT)) >> 58, first >> 58);
    }
    for (int i = 0; i < 20000; i++) {
        struct bytes name = bytes_of(key, (size_t)snprintf(key, sizeof(key), i % 2 ? "key:%d" : "{%d}:key", i));
        uint64_t hash = key_hash(&seed, name), plain = hash_bytes(&seed.sip, name);

        assert_int_equal(slot_of_hash(hash), slot_of_key(name));
        assert_int_equal(hash << SLOT_BITS, plain << SLOT_BITS);
        seed.by_slot = false;
        assert_int_equal(key_hash(&seed, name), plain);
        seed.by_slot = true;
    }
    mem_free(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_those_of_redis),
        cmocka_unit_test(a_tag_selects_the_slot_of_itself),
        cmocka_unit_test(a_slot_is_one_range_of_hashes),
        cmocka_unit_test(random_keys_have_the_slots_that_redis_server_gives_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

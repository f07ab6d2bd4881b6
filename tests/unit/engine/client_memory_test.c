/* Which clients are closed, and by which worker. */
#include "engine/client_memory.h"

#include <stddef.h>
#include "support/unit.h"

#include "base/mem.h"
#include "engine/engine.h"

enum { WORKERS = 3, CLIENTS = 200, MIB = 1 << 20 };

struct box {
    struct engine engine;
    struct worker workers[WORKERS], *pointers[WORKERS];
    struct client clients[CLIENTS];
    int client_count, closed_count;
};

static void close_client(struct client *client)
{
    struct box *box = client->worker->host.loop;

    box->closed_count++;
    client_memory_forget(client);
    client->dead = true;
}

static void set(struct box *box, const char *name, const char *value)
{
    struct bytes values[] = { bytes_of_string(value) };
    struct bytes names[] = { bytes_of_string(name) };
    struct message message;

    assert_true(config_set(box->engine.config, names, values, 1, &message));
}

static int open_box(void **state)
{
    struct box *box = mem_zalloc(sizeof(*box));

    box->engine.config = config_create();
    box->engine.log = log_create("", LOG_LEVEL_NOTHING, NULL, 0);
    box->engine.workers = box->pointers;
    box->engine.worker_count = WORKERS;
    for (int i = 0; i < WORKERS; i++) {
        box->pointers[i] = &box->workers[i];
        mailbox_init(&box->workers[i].mailbox);
        box->workers[i].engine = &box->engine;
        box->workers[i].index = i;
        box->workers[i].host.loop = box;
        box->workers[i].host.close = close_client;
    }
    set(box, "maxmemory-clients", "10mb");
    *state = box;
    return 0;
}

static int close_box(void **state)
{
    struct box *box = *state;

    for (int i = 0; i < box->client_count; i++) {
        if (!box->clients[i].dead)
            client_memory_forget(&box->clients[i]);
    }
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(box->workers[i].sizes.all, 0);
        assert_int_equal(box->workers[i].sizes.held, 0);
        assert_int_equal(box->workers[i].sizes.largest, 0);
        mailbox_release(&box->workers[i].mailbox);
    }
    config_destroy(box->engine.config);
    log_destroy(box->engine.log);
    mem_free(box);
    return 0;
}

static struct client *add(struct box *box, int worker, uint64_t size)
{
    struct client *client = &box->clients[box->client_count++];

    client->id = (uint64_t)box->client_count;
    client->worker = &box->workers[worker];
    client->next = client->worker->clients;
    client->worker->clients = client;
    client_memory_set(client, size, size);
    return client;
}

/* As the loops would do it, until there is no mail. */
static void run_mail(struct box *box)
{
    bool has_run = true;

    while (has_run) {
        has_run = false;
        for (int i = 0; i < WORKERS; i++) {
            struct mail_delivery delivery;

            mailbox_empty(&box->workers[i].mailbox, &delivery);
            while (delivery.mail != NULL) {
                struct mail *mail = delivery.mail;

                delivery.mail = mail->next;
                mail->run(mail, &box->workers[i]);
                has_run = true;
            }
        }
    }
}

static void within_the_limit_all_stay(void **state)
{
    struct box *box = *state;

    for (int i = 0; i < 9; i++)
        add(box, i % WORKERS, MIB);
    run_mail(box);
    assert_int_equal(box->closed_count, 0);
    assert_int_equal(client_memory_used(&box->engine), 9 * MIB);
}

static void the_largest_is_closed_by_its_own_worker(void **state)
{
    struct box *box = *state;
    struct client *large = add(box, 2, 5 * MIB);

    for (int i = 0; i < 5; i++)
        add(box, 0, MIB);
    assert_int_equal(box->closed_count, 0);
    add(box, 0, MIB);
    assert_int_equal(box->closed_count, 0);         /* another thread's */
    run_mail(box);
    assert_int_equal(box->closed_count, 1);
    assert_true(large->dead);
}

static void no_more_are_closed_than_needed(void **state)
{
    struct box *box = *state;

    for (int i = 0; i < 30; i++)
        add(box, i % WORKERS, 256 * 1024);
    set(box, "maxmemory-clients", "5mb");
    client_memory_relieve_all(&box->engine);
    run_mail(box);
    assert_int_equal(box->closed_count, 10);
    assert_int_equal(client_memory_used(&box->engine), 5 * MIB);
}

static void a_client_beyond_the_limit_is_closed_at_once(void **state)
{
    struct box *box = *state;
    struct client *first = add(box, 0, 9 * MIB), *second = add(box, 1, 11 * MIB);

    assert_true(second->dead);
    run_mail(box);
    assert_false(first->dead);
    assert_int_equal(box->closed_count, 1);
}

static void no_evict_is_respected_and_counts(void **state)
{
    struct box *box = *state;
    struct client *kept = add(box, 0, MIB), *other;

    kept->flags |= CLIENT_NO_EVICT;
    client_memory_note_exempt(kept);
    client_memory_set(kept, 20 * MIB, 20 * MIB);
    run_mail(box);
    assert_false(kept->dead);
    other = add(box, 1, MIB);
    run_mail(box);
    assert_true(other->dead);
    kept->flags &= ~(uint32_t)CLIENT_NO_EVICT;
    client_memory_note_exempt(kept);
    run_mail(box);
    assert_true(kept->dead);
}

static void many_small_clients_may_be_too_much(void **state)
{
    struct box *box = *state;

    set(box, "maxmemory-clients", "1mb");
    for (int i = 0; i < CLIENTS; i++) {
        add(box, i % WORKERS, 8000);
        run_mail(box);
    }
    assert_in_range(client_memory_used(&box->engine), MIB - 8000, MIB);
    assert_int_equal(box->closed_count, CLIENTS - MIB / 8000);
}

static void the_smallest_limit_leaves_room_for_a_client(void **state)
{
    struct box *box = *state;

    set(box, "maxmemory-clients", "1");
    assert_false(add(box, 0, 100000)->dead);
    assert_true(add(box, 0, 200000)->dead);
}

static void without_a_limit_half_of_maxmemory_is_the_bound_for_buffers_and_state(void **state)
{
    struct box *box = *state;
    struct client *query, *reply, *state_client;

    set(box, "maxmemory-clients", "0");
    assert_true(client_memory_max(&box->engine) == UINT64_MAX);
    set(box, "maxmemory", "20mb");
    reply = add(box, 0, 12 * MIB);              /* a reply alone is no reason */
    assert_false(reply->dead);
    query = add(box, 1, 1000);
    query->buffers.query_room = 13 * MIB;
    client_memory_set(query, 13 * MIB, 13 * MIB);
    run_mail(box);
    assert_true(query->dead || reply->dead);
    assert_true(client_memory_used(&box->engine) <= 13 * MIB);
    client_memory_set(add(box, 2, 1000), 100 * MIB, 1000);      /* neither buffers nor state */
    run_mail(box);
    assert_false(box->clients[2].dead);
    state_client = add(box, 2, 1000);
    state_client->names.size = 13 * MIB;
    client_memory_set(state_client, 1000, 1000);
    run_mail(box);
    assert_true(state_client->dead);
}

static void lists_are_right_whatever_happens(void **state)
{
    struct box *box = *state;
    uint64_t seed = 1;

    set(box, "maxmemory-clients", "1gb");
    for (int i = 0; i < CLIENTS; i++)
        add(box, i % WORKERS, 1);
    for (int round = 0; round < 20000; round++) {
        struct client *client = &box->clients[(seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33 & 127];

        client_memory_set(client, (seed >> 20) & ((UINT64_C(1) << ((seed >> 40) % 24)) - 1), 0);
        if (seed >> 60 == 0) {
            client->flags ^= CLIENT_NO_EVICT;
            client_memory_note_exempt(client);
        }
    }
    run_mail(box);
    for (int worker = 0; worker < WORKERS; worker++) {
        const struct client_sizes *sizes = &box->workers[worker].sizes;
        uint64_t sum = 0, largest = 0;

        for (const struct client *client = box->workers[worker].clients; client != NULL; client = client->next) {
            sum += client->size.all;
            if (!(client->flags & CLIENT_NO_EVICT) && client->size.all > largest)
                largest = client->size.all;
            assert_int_equal(client->size.class == 0, (client->flags & CLIENT_NO_EVICT) != 0);
        }
        assert_int_equal(sizes->all, sum);
        assert_true(largest <= UINT64_C(1) << (sizes->largest + 14));
        assert_true(sizes->largest == 1 || largest >= UINT64_C(1) << (sizes->largest + 13));
    }
    assert_int_equal(box->closed_count, 0);
}

#define WITH_BOX(test) cmocka_unit_test_setup_teardown(test, open_box, close_box)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BOX(within_the_limit_all_stay),
        WITH_BOX(the_largest_is_closed_by_its_own_worker),
        WITH_BOX(no_more_are_closed_than_needed),
        WITH_BOX(a_client_beyond_the_limit_is_closed_at_once),
        WITH_BOX(no_evict_is_respected_and_counts),
        WITH_BOX(many_small_clients_may_be_too_much),
        WITH_BOX(the_smallest_limit_leaves_room_for_a_client),
        WITH_BOX(without_a_limit_half_of_maxmemory_is_the_bound_for_buffers_and_state),
        WITH_BOX(lists_are_right_whatever_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

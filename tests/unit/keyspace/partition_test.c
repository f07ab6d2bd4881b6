#include "keyspace/partition.h"

#include "support/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "value/string.h"

struct watched {
    int created;
};

static void note_created(void *context, struct keyspace *keyspace)
{
    struct watched *watched = context;

    ASSERT_LOCKED(keyspace->partition);
    watched->created++;
}

static void add(struct partitions *all, int db, struct bytes key, int64_t expire_ms)
{
    uint64_t hash = key_hash(&all->seed, key);
    struct partition *partition = &all->partitions[partition_index(all, hash)];
    struct value value = string_value(BYTES("v"));

    partition_lock(partition);
    keyspace_insert(partition_keyspace(partition, db), hash, key, &value, expire_ms, RECORD_NONE, 0);
    partition_unlock(partition);
}

static void every_hash_belongs_to_its_partition(void **state)
{
    for (uint32_t count = 1; count <= 1024; count *= 4) {
        struct partitions *all = partitions_create(count, 1, (struct key_seed){ .sip = { 1, 2 } });

        for (uint32_t i = 0; i < count; i++) {
            uint64_t first = partition_first_hash(&all->partitions[i]);

            assert_int_equal(partition_index(all, first), i);
            if (i > 0)
                assert_int_equal(partition_index(all, first - 1), i - 1);
        }
        assert_int_equal(partition_index(all, UINT64_MAX), count - 1);
        partitions_destroy(all);
    }
}

static void a_keyspace_is_created_at_its_first_use(void **state)
{
    struct partitions *all = partitions_create(4, 3, (struct key_seed){ .sip = { 1, 2 } });
    struct watched watched = { 0 };

    all->watch = (struct keyspace_watch){ .context = &watched, .keyspace_created = note_created };
    for (int i = 0; i < 4; i++)
        assert_null(partition_keyspace_if(&all->partitions[i], 1));
    add(all, 1, BYTES("a"), -1);
    add(all, 1, BYTES("a2"), 5);
    assert_in_range(watched.created, 1, 2);
    assert_int_equal(partitions_entry_count(all, 1), 2);
    assert_int_equal(partitions_expiring_count(all, 1), 1);
    assert_int_equal(partitions_entry_count(all, 0), 0);
    partitions_destroy(all);
}

static void a_flush_passes_the_keys_on_and_never_reuses_their_number(void **state)
{
    struct partitions *all = partitions_create(4, 2, (struct key_seed){ .sip = { 1, 2 } });
    uint32_t before[2] = { all->incarnations[0], all->incarnations[1] };
    uint64_t handed_out = 0;

    for (int round = 0; round < 3; round++) {
        struct keyspace *old[8];
        uint32_t last = all->incarnations[0];

        add(all, 0, BYTES("a"), -1);
        add(all, 0, BYTES("b"), -1);
        add(all, 1, BYTES("c"), -1);
        partitions_lock_all(all);
        partitions_flush(all, 0, old);
        partitions_unlock_all(all);
        for (int i = 0; i < 4; i++) {
            assert_null(all->partitions[i].keyspaces[0]);
            if (old[i] != NULL) {
                assert_int_equal(old[i]->incarnation, last);
                handed_out += old[i]->table.count;
            }
            keyspace_destroy(old[i]);
        }
        assert_true(all->incarnations[0] > last && all->incarnations[0] > before[1]);
        assert_int_equal(partitions_entry_count(all, 0), 0);
        partitions_lock_all(all);
        partitions_flush(all, 1, old);
        partitions_unlock_all(all);
        for (int i = 0; i < 4; i++)
            keyspace_destroy(old[i]);
        assert_true(all->incarnations[0] != all->incarnations[1]);
    }
    assert_int_equal(handed_out, 6);
    partitions_destroy(all);
}

static bool is_two_or_three(void *context, uint32_t incarnation)
{
    (void)context;
    return incarnation == 2 || incarnation == 3;
}

static void flush_one(struct partitions *all, int db)
{
    struct keyspace *old[8];

    partitions_lock_all(all);
    partitions_flush(all, db, old);
    partitions_unlock_all(all);
    for (int i = 0; i < 4; i++)
        keyspace_destroy(old[i]);
}

static void a_flush_of_an_empty_database_uses_no_number(void **state)
{
    struct partitions *all = partitions_create(4, 2, (struct key_seed){ .sip = { 1, 2 } });

    (void)state;
    for (int i = 0; i < 10; i++)
        flush_one(all, 0);
    assert_int_equal(all->incarnations[0], 1);
    assert_int_equal(all->incarnation_last, 2);
    partitions_destroy(all);
}

static void free_numbers_are_reused_when_all_have_been_used(void **state)
{
    struct partitions *all = partitions_create(4, 2, (struct key_seed){ .sip = { 1, 2 } });
    const uint32_t wanted[] = { INCARNATION_MAX, 4, 5, 6 };     /* 1 belongs to database 0 until it is flushed; 2 and 3 are taken */

    (void)state;
    all->watch.incarnation_is_taken = is_two_or_three;
    all->incarnations[0] = 1;
    all->incarnation_last = INCARNATION_MAX - 1;
    for (int i = 0; i < 4; i++) {
        add(all, 1, BYTES("a"), -1);
        flush_one(all, 1);
        assert_int_equal(all->incarnations[1], wanted[i]);
    }
    assert_int_equal(all->incarnation_last, INCARNATION_MAX);
    partitions_destroy(all);
}

static void a_swap_moves_the_number(void **state)
{
    struct partitions *all = partitions_create(4, 3, (struct key_seed){ .sip = { 1, 2 } });
    uint32_t zero = all->incarnations[0], two = all->incarnations[2];
    struct keyspace *keyspace;
    uint64_t hash = key_hash(&all->seed, BYTES("a"));

    add(all, 0, BYTES("a"), -1);
    partitions_lock_all(all);
    partitions_swap(all, 0, 2);
    keyspace = partition_keyspace_if(&all->partitions[partition_index(all, hash)], 2);
    assert_non_null(keyspace);
    assert_true(keyspace->db == 2 && keyspace->incarnation == zero);
    assert_true(all->incarnations[2] == zero && all->incarnations[0] == two);
    assert_null(partition_keyspace_if(&all->partitions[partition_index(all, hash)], 0));
    assert_int_equal(partition_keyspace(&all->partitions[0], 0)->incarnation, two);
    assert_int_not_equal(keyspace_find(keyspace, hash, BYTES("a")), 0);
    partitions_unlock_all(all);
    assert_int_equal(partitions_entry_count(all, 2), 1);
    partitions_destroy(all);
}

/* Asserts the lock in a child process. True if the assertion stopped it. */
static bool assertion_fails(const struct partition *partition)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);

        dup2(null, STDERR_FILENO);      /* the message of the CHECK */
        signal(SIGABRT, SIG_DFL);       /* not cmocka's handler */
        ASSERT_LOCKED(partition);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

struct holder {
    struct partition *partition;
    sem_t is_locked, may_unlock;
};

static void *hold_partition(void *context)
{
    struct holder *holder = context;

    partition_lock(holder->partition);
    sem_post(&holder->is_locked);
    sem_wait(&holder->may_unlock);
    partition_unlock(holder->partition);
    return NULL;
}

static void the_assertion_fails_without_the_lock(void **state)
{
    struct partitions *all = partitions_create(1, 1, (struct key_seed){ .sip = { 1, 2 } });

    assert_true(assertion_fails(&all->partitions[0]));
    partition_lock(&all->partitions[0]);
    assert_false(assertion_fails(&all->partitions[0]));
    partition_unlock(&all->partitions[0]);
    assert_true(assertion_fails(&all->partitions[0]));
    partitions_destroy(all);
}

/* Release builds do not know which thread it is. */
static void the_assertion_fails_if_another_thread_holds_the_lock(void **state)
{
#ifdef KELVIN_DEBUG
    struct partitions *all = partitions_create(1, 1, (struct key_seed){ .sip = { 1, 2 } });
    struct holder holder = { .partition = &all->partitions[0] };
    pthread_t other;

    sem_init(&holder.is_locked, 0, 0);
    sem_init(&holder.may_unlock, 0, 0);
    assert_int_equal(pthread_create(&other, NULL, hold_partition, &holder), 0);
    sem_wait(&holder.is_locked);
    assert_true(assertion_fails(&all->partitions[0]));
    sem_post(&holder.may_unlock);
    assert_int_equal(pthread_join(other, NULL), 0);
    sem_destroy(&holder.is_locked);
    sem_destroy(&holder.may_unlock);
    partitions_destroy(all);
#else
    (void)hold_partition;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_hash_belongs_to_its_partition),
        cmocka_unit_test(a_keyspace_is_created_at_its_first_use),
        cmocka_unit_test(a_flush_passes_the_keys_on_and_never_reuses_their_number),
        cmocka_unit_test(a_flush_of_an_empty_database_uses_no_number),
        cmocka_unit_test(free_numbers_are_reused_when_all_have_been_used),
        cmocka_unit_test(a_swap_moves_the_number),
        cmocka_unit_test(the_assertion_fails_without_the_lock),
        cmocka_unit_test(the_assertion_fails_if_another_thread_holds_the_lock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

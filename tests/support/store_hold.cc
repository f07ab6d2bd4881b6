#include "support/store_hold.h"

#include <sched.h>

#include <future>
#include <thread>

#include "store/store_body.h"
#include "store/store_key.h"

extern "C" {
#include "base/check.h"
}

/* A thread of its own has the lock: the test's may take partitions, which come before it. */
struct store_hold {
    struct store *store;
    std::promise<void> held, ended;
    std::thread thread;
};

struct store_hold *store_hold_begin(struct store *store)
{
    struct store_hold *hold = new store_hold { store, {}, {}, {} };

    store->has_db_keys = true;      /* a reader asks LevelDB first, under its lock, then the key runs */
    hold->thread = std::thread([hold] {
        pthread_rwlock_wrlock(&hold->store->lock);
        hold->held.set_value();
        hold->ended.get_future().wait();
        pthread_rwlock_unlock(&hold->store->lock);
    });
    hold->held.get_future().wait();
    return hold;
}

void store_hold_end(struct store_hold *hold)
{
    hold->ended.set_value();
    hold->thread.join();
    delete hold;
}

void store_hold_await_scan(struct store_hold *hold)
{
    for (;;) {
        {
            std::lock_guard<std::mutex> guard(hold->store->users_mutex);

            if (hold->store->users > 0)
                return;
        }
        sched_yield();
    }
}

int store_level0_count(struct store *store)
{
    store_user user(store);
    std::string count;

    return store->db->GetProperty("leveldb.num-files-at-level0", &count) ? std::stoi(count) : 0;
}

void store_write_runs(const char *dir, const char *text)
{
    leveldb::DB *db = nullptr;

    CHECK(leveldb::DB::Open(leveldb::Options(), dir, &db).ok());
    CHECK(db->Put(leveldb::WriteOptions(), key_meta("runs"), text).ok());
    delete db;
}

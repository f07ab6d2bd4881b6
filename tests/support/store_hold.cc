#include "support/store_hold.h"

#include <sched.h>

#include "tier/store_body.h"

void store_hold_begin(struct store *store)
{
    pthread_rwlock_wrlock(&store->lock);
}

void store_hold_end(struct store *store)
{
    pthread_rwlock_unlock(&store->lock);
}

void store_hold_await_scan(struct store *store)
{
    for (;;) {
        {
            std::lock_guard<std::mutex> guard(store->users_mutex);

            if (store->users > 0)
                return;
        }
        sched_yield();
    }
}

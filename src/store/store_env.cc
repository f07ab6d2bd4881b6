#include "store/store_env.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "store/store_disk.h"

extern "C" {
#include "base/check.h"
}

enum { COMPACTION_NICE = 5 };

store_env::store_env(const struct disk *its_disk) : disk(its_disk) {}

store_env::~store_env()
{
    {
        std::lock_guard<std::mutex> guard(mutex);
        is_ending = true;
        work_there.notify_all();
    }
    thread_join(&thread);
}

/* Not in schedule, which could not report that there is no thread. */
int store_env::start(struct meter *meter)
{
    std::lock_guard<std::mutex> guard(mutex);

    return thread.has_started ? 0 : thread_start(&thread, "kelvin-compact", meter, compact_main, this);
}

void store_env::schedule(void (*function)(void *), void *argument)
{
    std::lock_guard<std::mutex> guard(mutex);

    CHECK(thread.has_started);
    work.push_back({ function, argument });
    work_there.notify_one();
}

void store_env::wait_for_work()
{
    std::unique_lock<std::mutex> lock(mutex);

    work_done.wait(lock, [this] { return work.empty() && !is_working; });
}

void store_env::compact_main(void *env)
{
    struct store_env *self = static_cast<struct store_env *>(env);

    /* Merges can wait, clients can't: when there are too few cores, this thread gets a smaller share. On Linux each thread has its own nice
     * value. */
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), COMPACTION_NICE);
    self->run_work();
}

void store_env::run_work()
{
    std::unique_lock<std::mutex> lock(mutex);

    for (;;) {
        work_there.wait(lock, [this] { return is_ending || !work.empty(); });
        if (work.empty())
            return;
        struct work_item item = work.front();
        work.pop_front();
        is_working = true;
        lock.unlock();
        item.function(item.argument);
        lock.lock();
        is_working = false;
        work_done.notify_all();
    }
}

struct store_env *store_env_create(const struct disk *disk)
{
    return new store_env(disk);
}

void store_env_destroy(struct store_env *env)
{
    delete env;
}

int store_env_start(struct store_env *env, struct meter *meter)
{
    return env->start(meter);
}

struct store_env_stats store_env_stats(struct store_env *env)
{
    struct store_env_stats stats;

    stats.reads = env->counters.reads.load(std::memory_order_relaxed);
    stats.read_bytes = env->counters.read_bytes.load(std::memory_order_relaxed);
    stats.writes = env->counters.writes.load(std::memory_order_relaxed);
    stats.written_bytes = env->counters.written_bytes.load(std::memory_order_relaxed);
    stats.syncs = env->counters.syncs.load(std::memory_order_relaxed);
    return stats;
}

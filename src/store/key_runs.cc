#include "store/key_runs.h"

#include <algorithm>

#include "store/store_key.h"

extern "C" {
#include "base/check.h"
}

using leveldb::Slice;
using leveldb::Status;

enum {
    MEMORY_FAN = 8,             /* runs in memory that are merged at a time */
    MERGED_SHARE = 4,           /* of `memory_max`: more is not merged in memory, as it would be there twice */
    FILE_FAN = 16,              /* files */
    FILES_HELD = 20,            /* of the lowest level, from which on files are merged although merges wait */
    KEYS_A_STEP = 16384,        /* merged before the background thread looks for other work */
    GARBAGE_MIN = 16 << 20,     /* bytes: less is not worth merging all files */
    PAUSE_MAX = 64,             /* flushes before a merge that failed is tried again */
};

/* A merge of neighbours in the list. */
struct key_runs::merging {
    key_run_list inputs;
    key_merge merge;
    std::unique_ptr<key_run_builder> output;
    std::set<uint32_t> buried;          /* when it began */
    bool drops_tombstones = false;
    uint32_t incarnation = 0;           /* of the last key, and whether it is buried */
    bool is_buried = false, is_begun = false;
};

key_runs::key_runs(struct store_env *its_env, std::string its_dir, const leveldb::Options &its_options, size_t its_memory_max)
    : env(its_env), dir(its_dir), run_files(std::make_shared<struct key_run_files>(its_env, std::move(its_dir), its_options)), memory_max(its_memory_max),
      runs(std::make_shared<key_run_list>())
{
}

void key_runs::end_work()
{
    std::unique_lock<std::mutex> guard(mutex);

    is_ending = true;
    changed.wait(guard, [this] { return !is_scheduled; });
}

/* Another store may be made in the directory next: no removal of this one's files is left. */
key_runs::~key_runs()
{
    end_work();
    runs.reset();
    env->wait_for_work();
}

/* Files of a higher level are older, and of one level those with lower numbers: so the numbers alone say the order. */
uint64_t key_runs::new_number(unsigned level)
{
    CHECK(level < KEY_RUN_LEVELS);
    return next_sequence++ * KEY_RUN_LEVELS + level;
}

static bool is_older(uint64_t number, uint64_t than)
{
    return number % KEY_RUN_LEVELS != than % KEY_RUN_LEVELS ? number % KEY_RUN_LEVELS > than % KEY_RUN_LEVELS : number < than;
}

/* ---- files ---- */

Status key_runs::load_list(const std::vector<struct key_run_facts> &list, bool keeps_rest, bool *is_partial)
{
    auto loaded = std::make_shared<key_run_list>();

    for (struct key_run_facts facts : list) {
        std::shared_ptr<const key_run> run;
        Status status;

        if (!facts.complete())
            return Status::Corruption(dir, "has an invalid list of key runs");
        next_sequence = std::max<uint64_t>(next_sequence, facts.number / KEY_RUN_LEVELS + 1);
        status = key_run_open(run_files, facts, &run);
        if (status.ok())
            loaded->push_back(std::move(run));
        else if (keeps_rest)
            *is_partial = true;
        else
            return status;
    }
    std::lock_guard<std::mutex> guard(mutex);
    runs = loaded;
    return Status::OK();
}

void key_runs::load_all(bool *is_partial)
{
    auto loaded = std::make_shared<key_run_list>();
    std::vector<std::string> names;
    std::vector<uint64_t> numbers;

    (void)directory_names(dir, &names);
    for (const std::string &name : names)
        if (key_run_is_file(name))
            numbers.push_back(strtoull(name.c_str(), nullptr, 10));
    std::sort(numbers.begin(), numbers.end(), is_older);
    for (uint64_t number : numbers) {
        struct key_run_facts facts;
        std::shared_ptr<const key_run> run;

        *is_partial = true;
        if (number > KEY_RUN_NUMBER_MAX)
            continue;
        facts.number = number;
        facts.level = number % KEY_RUN_LEVELS;
        next_sequence = std::max<uint64_t>(next_sequence, number / KEY_RUN_LEVELS + 1);
        if (file_size(run_files->path_of(number), &facts.bytes).ok() && key_run_open(run_files, facts, &run).ok())
            loaded->push_back(std::move(run));
    }
    std::lock_guard<std::mutex> guard(mutex);
    runs = loaded;
}

/* ---- the list ---- */

std::shared_ptr<const key_run_list> key_runs::view()
{
    std::lock_guard<std::mutex> guard(mutex);

    return runs;
}

Status key_runs::find_key(const Slice &key)
{
    std::shared_ptr<const key_run_list> list = view();

    for (size_t i = list->size(); i-- > 0;) {
        std::unique_ptr<leveldb::Iterator> iterator((*list)[i]->scan(true));

        iterator->Seek(key);
        if (!iterator->status().ok())
            return iterator->status();
        if (iterator->Valid() && iterator->key() == key)
            return iterator->value() == KEY_RUN_TOMBSTONE ? Status::NotFound(dir) : Status::OK();
    }
    return Status::NotFound(dir);
}

/* With the mutex: puts the output of a merge, or nothing, in the place of its inputs. */
void key_runs::replace(const key_run_list &inputs, const std::shared_ptr<const key_run> &output)
{
    auto changed_list = std::make_shared<key_run_list>();
    std::set<const key_run *> gone;
    uint64_t memory = 0;
    bool is_in = output == nullptr;

    for (const auto &run : inputs) {
        gone.insert(run.get());
        damaged.erase(run.get());
        run->set_obsolete();
    }
    for (const auto &run : *runs) {
        if (gone.count(run.get()) == 0)
            changed_list->push_back(run);
        else if (!is_in)
            changed_list->push_back(output), is_in = true;
    }
    if (!is_in)
        output->set_obsolete();     /* the inputs were dropped meanwhile: all of their keys are buried */
    for (const auto &run : *changed_list)
        memory += run->is_in_memory() ? run->facts.bytes : 0;
    memory_size = memory;
    runs = changed_list;
}

void key_runs::bury(uint32_t incarnation)
{
    std::lock_guard<std::mutex> guard(mutex);

    if (!buried.insert(incarnation).second)
        return;
    drop_buried();
    forget_buried();
    schedule();
}

bool key_runs::is_buried(uint32_t incarnation)
{
    std::lock_guard<std::mutex> guard(mutex);

    return buried.count(incarnation) > 0;
}

/* With the mutex: forgets the runs that have nothing else. A job goes on with its inputs. */
void key_runs::drop_buried()
{
    key_run_list dropped;

    for (const auto &run : *runs) {
        const auto &parts = run->facts.incarnations;

        if (!parts.empty() && std::all_of(parts.begin(), parts.end(), [this](const auto &part) { return buried.count(part.first) > 0; }))
            dropped.push_back(run);
    }
    if (!dropped.empty())
        replace(dropped, nullptr);
}

/* With the mutex: forgets the incarnations that no run has any more, and none will have. */
void key_runs::forget_buried()
{
    std::set<uint32_t> there;

    if (buried.empty() || !taken.empty())
        return;
    for (const auto &run : *runs)
        for (const auto &part : run->facts.incarnations)
            if (buried.count(part.first) > 0)
                there.insert(part.first);
    buried = there;
}

/* ---- adding ---- */

/* With the mutex: bytes of the runs in memory that are not being written. */
uint64_t key_runs::memory_not_taken()
{
    uint64_t bytes = 0;

    for (const auto &run : *runs)
        if (run->is_in_memory() && taken.count(run.get()) == 0)
            bytes += run->facts.bytes;
    return bytes;
}

Status key_runs::room()
{
    std::unique_lock<std::mutex> guard(mutex);

    changed.wait(guard, [this] { return flush == nullptr || memory_not_taken() < memory_max; });
    return flush_status;
}

void key_runs::add_changes(std::vector<struct key_change> *changes)
{
    enum { SIZE_OF_SIZE = 3 };          /* bytes, of nearly every key */
    std::unique_ptr<key_run_builder> builder;
    std::shared_ptr<const key_run> run;
    size_t size = 0;

    for (const struct key_change &change : *changes)
        size += change.key.size() + SIZE_OF_SIZE;
    builder = key_run_in_memory(0, size);
    std::stable_sort(changes->begin(), changes->end(), [](const auto &a, const auto &b) { return a.key.compare(b.key) < 0; });
    for (size_t i = 0; i < changes->size(); i++) {
        const struct key_change &change = (*changes)[i];

        if (i + 1 == changes->size() || change.key != (*changes)[i + 1].key)
            CHECK(builder->add(change.key, change.is_tombstone).ok());
    }
    CHECK(builder->finish(&run).ok());
    if (run == nullptr)
        return;
    {
        std::lock_guard<std::mutex> guard(mutex);
        auto changed_list = std::make_shared<key_run_list>(*runs);

        changed_list->push_back(run);
        memory_size += run->facts.bytes;
        runs = changed_list;
    }
    merge_in_memory();
    if (memory_size >= memory_max)
        flush_now();
}

void key_runs::flush_now()
{
    std::lock_guard<std::mutex> guard(mutex);

    if (flush != nullptr || !flush_status.ok())
        return;
    flush = begin_flush();
    if (flush != nullptr)
        schedule();
}

void key_runs::wait_for_flush()
{
    std::unique_lock<std::mutex> guard(mutex);

    changed.wait(guard, [this] { return flush == nullptr; });
}

/* The newest runs of one level, as long as there are enough of them. Only this thread changes those that are not taken. */
void key_runs::merge_in_memory()
{
    for (;;) {
        std::unique_ptr<struct merging> job;

        {
            std::lock_guard<std::mutex> guard(mutex);
            size_t first = runs->size();
            uint64_t bytes = 0;
            unsigned level = first > 0 ? runs->back()->facts.level : 0;     /* there is none if all were tombstones */

            while (first > 0 && (*runs)[first - 1]->is_in_memory() && (*runs)[first - 1]->facts.level == level &&
                   taken.count((*runs)[first - 1].get()) == 0)
                bytes += (*runs)[--first]->facts.bytes;
            if (runs->size() - first < MEMORY_FAN || bytes > memory_max / MERGED_SHARE)
                return;
            job = begin_merging(key_run_list(runs->begin() + static_cast<std::ptrdiff_t>(first), runs->end()),
                key_run_in_memory(level + 1, bytes));
        }
        CHECK(run_to_end(job.get()).ok());
        end_merging(&job);
    }
}

/* ---- merging ---- */

/* With the mutex. */
std::unique_ptr<struct key_runs::merging> key_runs::begin_merging(key_run_list inputs, std::unique_ptr<key_run_builder> builder)
{
    auto job = std::make_unique<struct merging>();

    job->inputs = std::move(inputs);
    for (size_t i = job->inputs.size(); i-- > 0;) {
        taken.insert(job->inputs[i].get());
        job->merge.add(std::unique_ptr<leveldb::Iterator>(job->inputs[i]->scan(false)));
    }
    job->output = std::move(builder);
    job->buried = buried;
    job->drops_tombstones = job->inputs[0] == runs->front();
    return job;
}

/* With the mutex: all in memory that is not taken. Null: there is nothing. */
std::unique_ptr<struct key_runs::merging> key_runs::begin_flush()
{
    key_run_list inputs;

    for (const auto &run : *runs)
        if (run->is_in_memory() && taken.count(run.get()) == 0)
            inputs.push_back(run);
    if (inputs.empty())
        return nullptr;
    return begin_merging(std::move(inputs), key_run_in_file(run_files, new_number(0), 0));
}

/* Whether more than half of what is in files would be dropped. */
bool key_runs::has_garbage(const key_run_list &list)
{
    uint64_t entries = 0, bytes = 0, hidden = 0;

    for (const auto &run : list) {
        if (run->is_in_memory())
            continue;
        entries += run->facts.entries;
        bytes += run->facts.bytes;
        hidden += 2 * run->facts.tombstones;
        for (const auto &part : run->facts.incarnations)
            hidden += buried.count(part.first) > 0 ? part.second : 0;
    }
    return hidden > entries / 2 && bytes / entries * hidden >= GARBAGE_MIN;
}

/* With the mutex: the first and the number of files to merge; 0: nothing is to be merged. */
size_t key_runs::find_merge(size_t *count)
{
    const key_run_list &list = *runs;
    size_t files = 0, first;

    while (files < list.size() && !list[files]->is_in_memory())
        files++;
    *count = 0;
    if (files > 0 && damaged.empty() && !merges_wait && has_garbage(list)) {
        *count = files;
        return 0;
    }
    for (size_t end = files; end > 0 && *count == 0; end = first) {
        for (first = end - 1; first > 0 && list[first - 1]->facts.level == list[end - 1]->facts.level && damaged.count(list[first].get()) == 0 &&
                              damaged.count(list[first - 1].get()) == 0;)
            first--;
        if (end - first >= static_cast<size_t>(merges_wait ? FILES_HELD : FILE_FAN))
            *count = end - first;
        if (*count > 0)
            return first;
    }
    return 0;
}

/* With the mutex. Null: nothing is to be merged. */
std::unique_ptr<struct key_runs::merging> key_runs::begin_merge()
{
    size_t count, first = find_merge(&count);
    unsigned level = 0;

    if (count == 0)
        return nullptr;
    key_run_list inputs(runs->begin() + static_cast<std::ptrdiff_t>(first), runs->begin() + static_cast<std::ptrdiff_t>(first + count));
    for (const auto &run : inputs)
        level = std::max(level, run->facts.level);
    if (inputs.front()->facts.level == inputs.back()->facts.level && level + 1 < KEY_RUN_LEVELS)
        level++;
    return begin_merging(std::move(inputs), key_run_in_file(run_files, new_number(level), level));
}

/* Merges some keys; at the end the output takes the place of the inputs. */
Status key_runs::step(struct merging *job, bool *is_done)
{
    std::shared_ptr<const key_run> output;
    Status status;

    if (!job->is_begun)
        job->merge.seek(Slice());
    job->is_begun = true;
    for (int i = 0; i < KEYS_A_STEP && job->merge.is_valid(); i++, job->merge.next()) {
        Slice key = job->merge.key();
        bool is_tombstone = job->merge.value() == KEY_RUN_TOMBSTONE;

        if (key.size() < STORE_KEY_PREFIX)
            return Status::Corruption(dir, "a key run has a key that is too short");
        if (key_u32(key.data()) != job->incarnation) {
            job->incarnation = key_u32(key.data());
            job->is_buried = job->buried.count(job->incarnation) > 0;
        }
        if (job->is_buried || (is_tombstone && job->drops_tombstones))
            continue;
        status = job->output->add(key, is_tombstone);
        if (!status.ok())
            return status;
    }
    if (!job->merge.status().ok())
        return job->merge.status();
    if (job->merge.is_valid())
        return Status::OK();
    status = job->output->finish(&output);
    if (!status.ok())
        return status;
    *is_done = true;
    std::lock_guard<std::mutex> guard(mutex);
    replace(job->inputs, output);
    return Status::OK();
}

Status key_runs::run_to_end(struct merging *job)
{
    bool is_done = false;
    Status status;

    while (status.ok() && !is_done)
        status = step(job, &is_done);
    return status;
}

/* Without the mutex: the inputs' memory is freed here. */
void key_runs::end_merging(std::unique_ptr<struct merging> *job)
{
    std::unique_ptr<struct merging> ended;

    if (*job == nullptr)
        return;
    {
        std::lock_guard<std::mutex> guard(mutex);
        for (const auto &run : (*job)->inputs)
            taken.erase(run.get());
        ended = std::move(*job);
        forget_buried();
        changed.notify_all();
    }
}

/* ---- the background thread ---- */

/* With the mutex. */
void key_runs::schedule()
{
    if (is_scheduled || is_ending)
        return;
    is_scheduled = true;
    env->schedule(work_main, this);
}

void key_runs::work_main(void *runs)
{
    static_cast<key_runs *>(runs)->work();
}

/* With the mutex. */
void key_runs::note_merge(const struct merging &job, const Status &status)
{
    if (status.ok()) {
        merge_pause = 0;
        return;
    }
    merge_status = status;
    if (job.merge.status().IsCorruption())
        damaged.insert(job.inputs[job.inputs.size() - 1 - job.merge.failed_source()].get());
    merge_pause = merge_pause == 0 ? 1 : std::min<unsigned>(merge_pause * 2, PAUSE_MAX);
    flushes_to_wait = merge_pause;
}

Status key_runs::take_merge_status()
{
    std::lock_guard<std::mutex> guard(mutex);
    Status status = merge_status;

    merge_status = Status::OK();
    return status;
}

/* One step of a job, which is the background thread's. */
void key_runs::work_on(std::unique_ptr<struct merging> *job)
{
    bool is_done = false;
    Status status;

    status = step(job->get(), &is_done);
    if (!is_done && status.ok())
        return;
    {
        std::lock_guard<std::mutex> guard(mutex);
        if (job == &flush)
            flush_status = status;
        if (job == &flush && flushes_to_wait > 0)
            flushes_to_wait--;
        if (job == &merge)
            note_merge(**job, status);
    }
    end_merging(job);
    run_files->remove_again();
}

void key_runs::work()
{
    bool has_flush, has_merge;

    {
        std::lock_guard<std::mutex> guard(mutex);
        if (flush == nullptr && merge == nullptr && flushes_to_wait == 0 && !is_ending)
            merge = begin_merge();
        has_flush = flush != nullptr;
        has_merge = merge != nullptr;
        if (!is_ending && !has_flush && !has_merge) {
            is_scheduled = false;
            changed.notify_all();
            return;
        }
    }
    if (!is_ending) {
        work_on(has_flush ? &flush : &merge);
        env->schedule(work_main, this);
        return;
    }
    end_merging(&flush);
    end_merging(&merge);
    std::lock_guard<std::mutex> guard(mutex);
    is_scheduled = false;
    changed.notify_all();
}

Status key_runs::retry()
{
    std::unique_lock<std::mutex> guard(mutex);

    if (flush_status.ok())
        return flush_status;
    flush_status = Status::OK();
    flush = begin_flush();
    if (flush != nullptr)
        schedule();
    changed.wait(guard, [this] { return flush == nullptr; });
    return flush_status;
}

Status key_runs::save(std::shared_ptr<const key_run_list> *list)
{
    std::unique_lock<std::mutex> guard(mutex);
    std::unique_ptr<struct merging> job;
    Status status;

    changed.wait(guard, [this] { return flush == nullptr; });
    if (!flush_status.ok())
        return flush_status;
    job = begin_flush();
    if (job != nullptr) {
        guard.unlock();
        status = run_to_end(job.get());
        end_merging(&job);
        guard.lock();
        if (!status.ok())
            return status;
        schedule();
    }
    *list = runs;
    return Status::OK();
}

void key_runs::release_merges()
{
    std::lock_guard<std::mutex> guard(mutex);

    merges_wait = false;
    schedule();
}

bool key_runs::is_flushing()
{
    std::lock_guard<std::mutex> guard(mutex);

    return flush != nullptr;
}

int key_runs::waiting_files()
{
    std::lock_guard<std::mutex> guard(mutex);
    int count = 0;

    for (const auto &run : *runs)
        count += !run->is_in_memory() && run->facts.level == 0;
    return count > FILE_FAN ? count - FILE_FAN : 0;
}

#include "store/key_run.h"

#include <leveldb/table.h>
#include <leveldb/table_builder.h>

#include <atomic>

#include "store/store_key.h"

extern "C" {
#include "base/check.h"
}

using leveldb::Slice;
using leveldb::Status;

const Slice KEY_RUN_TOMBSTONE("\x01", 1);

enum {
    KEYS_A_MARK = 16,           /* in memory: every 16th key is in the index of a run */
    ROOM_SHARE = 16,            /* of a run in memory: less unused room is not given back */
};

void key_run_facts::note_key(const Slice &key, bool is_tombstone)
{
    uint32_t incarnation = key_u32(key.data());

    if (incarnations.empty() || incarnations.back().first != incarnation)
        incarnations.emplace_back(incarnation, 0);
    incarnations.back().second++;
    entries++;
    tombstones += is_tombstone;
}

bool key_run_facts::complete()
{
    level = number % KEY_RUN_LEVELS;
    entries = 0;
    for (const auto &part : incarnations) {
        if (part.second > bytes - entries)      /* of more than a byte each: and so sums over all files have no overflow */
            return false;
        entries += part.second;
    }
    return number != 0 && number <= KEY_RUN_NUMBER_MAX && entries > 0 && tombstones <= entries;
}

/* ---- in memory ---- */

namespace {

void append_varint(std::string *out, uint64_t number)
{
    for (; number >= 128; number >>= 7)
        out->push_back(static_cast<char>(number | 128));
    out->push_back(static_cast<char>(number));
}

class memory_run final : public key_run {
public:
    leveldb::Iterator *scan(bool fills_cache) const override;

    std::string text;
    std::vector<size_t> marks;      /* where every 16th entry begins in `text` */
};

class memory_iterator final : public leveldb::Iterator {
public:
    explicit memory_iterator(const memory_run *its_run) : run(its_run), next(its_run->text.size()) {}

    bool Valid() const override { return is_valid; }
    void SeekToFirst() override { go_to(0); }
    Slice key() const override { return current; }
    Slice value() const override { return is_tombstone ? KEY_RUN_TOMBSTONE : Slice(); }
    Status status() const override { return Status::OK(); }

    /* The last mark whose key is before the target, and on from there. */
    void Seek(const Slice &target) override
    {
        size_t low = 0, high = run->marks.size();

        while (low < high) {
            size_t middle = (low + high) / 2;

            go_to(run->marks[middle]);
            if (current.compare(target) < 0)
                low = middle + 1;
            else
                high = middle;
        }
        go_to(low > 0 ? run->marks[low - 1] : 0);
        while (is_valid && current.compare(target) < 0)
            Next();
    }

    void Next() override
    {
        const char *at = run->text.data() + next;
        uint64_t number = 0;
        int shift = 0;

        is_valid = next < run->text.size();
        if (!is_valid)
            return;
        do
            number |= static_cast<uint64_t>(*at & 127) << shift, shift += 7;
        while (*at++ & 128);
        is_tombstone = (number & 1) != 0;
        current = Slice(at, number >> 1);
        next = static_cast<size_t>(at - run->text.data()) + current.size();
    }

    void SeekToLast() override { CHECK(false); }
    void Prev() override { CHECK(false); }

private:
    void go_to(size_t at)
    {
        next = at;
        Next();
    }

    const memory_run *run;
    size_t next;                    /* where the entry after the current one begins */
    bool is_valid = false, is_tombstone = false;
    Slice current;
};

leveldb::Iterator *memory_run::scan(bool) const
{
    return new memory_iterator(this);
}

class memory_builder final : public key_run_builder {
public:
    memory_builder(unsigned level, size_t size) : run(std::make_shared<memory_run>())
    {
        run->facts.level = level;
        run->text.reserve(size);
    }

    Status add(const Slice &key, bool is_tombstone) override
    {
        if (run->facts.entries % KEYS_A_MARK == 0)
            run->marks.push_back(run->text.size());
        append_varint(&run->text, static_cast<uint64_t>(key.size()) << 1 | (is_tombstone ? 1 : 0));
        run->text.append(key.data(), key.size());
        run->facts.note_key(key, is_tombstone);
        return Status::OK();
    }

    Status finish(std::shared_ptr<const key_run> *finished) override
    {
        finished->reset();
        if (run->facts.entries == 0)
            return Status::OK();
        if (run->text.capacity() - run->text.size() > run->text.size() / ROOM_SHARE)
            run->text.shrink_to_fit();
        run->marks.shrink_to_fit();
        run->facts.bytes = run->text.capacity() + run->marks.capacity() * sizeof(run->marks[0]);
        *finished = std::move(run);
        return Status::OK();
    }

private:
    std::shared_ptr<memory_run> run;
};

/* ---- in a file ---- */

struct removal {
    std::shared_ptr<struct key_run_files> files;
    uint64_t number;
};

void remove_file(void *argument)
{
    std::unique_ptr<struct removal> removal(static_cast<struct removal *>(argument));

    removal->files->remove(removal->number);
}

class file_run final : public key_run {
public:
    ~file_run() override
    {
        table.reset();
        file.reset();
        if (is_obsolete)                    /* not here: a client's thread may be the last one that has the run */
            files->env->schedule(remove_file, new removal { files, facts.number });
    }

    leveldb::Iterator *scan(bool fills_cache) const override
    {
        leveldb::ReadOptions options = read_options_scan();

        options.fill_cache = fills_cache;
        return table->NewIterator(options);
    }

    void set_obsolete() const override { is_obsolete = true; }

    std::shared_ptr<struct key_run_files> files;
    std::unique_ptr<leveldb::RandomAccessFile> file;
    std::unique_ptr<leveldb::Table> table;
    mutable std::atomic<bool> is_obsolete { false };
};

class file_builder final : public key_run_builder {
public:
    file_builder(std::shared_ptr<struct key_run_files> its_files, uint64_t number, unsigned level) : files(std::move(its_files))
    {
        facts.number = number;
        facts.level = level;
    }

    ~file_builder() override
    {
        if (builder != nullptr)
            builder->Abandon();
        builder.reset();
        file.reset();
        if (is_begun && !file_remove(files->env, files->path_of(facts.number)).ok())
            files->env->schedule(remove_file, new removal { files, facts.number });
    }

    Status add(const Slice &key, bool is_tombstone) override
    {
        if (!is_begun) {
            leveldb::WritableFile *opened = nullptr;
            Status status = file_open_new(files->env, files->path_of(facts.number), &opened);

            if (!status.ok())
                return status;
            is_begun = true;
            file.reset(opened);
            builder = std::make_unique<leveldb::TableBuilder>(files->options, opened);
        }
        builder->Add(key, is_tombstone ? KEY_RUN_TOMBSTONE : Slice());
        facts.note_key(key, is_tombstone);
        return builder->status();
    }

    Status finish(std::shared_ptr<const key_run> *run) override
    {
        Status status;

        run->reset();
        if (!is_begun)
            return status;
        status = builder->Finish();
        facts.bytes = builder->FileSize();
        builder.reset();
        if (status.ok())
            status = file->Sync();
        if (status.ok())
            status = file->Close();
        file.reset();
        if (status.ok())
            status = key_run_open(files, facts, run);
        if (status.ok())
            is_begun = false;
        return status;
    }

private:
    std::shared_ptr<struct key_run_files> files;
    struct key_run_facts facts;
    bool is_begun = false;                  /* there is a file, and no run of it */
    std::unique_ptr<leveldb::WritableFile> file;
    std::unique_ptr<leveldb::TableBuilder> builder;
};

}  // namespace

std::unique_ptr<key_run_builder> key_run_in_memory(unsigned level, size_t size)
{
    return std::make_unique<memory_builder>(level, size);
}

std::unique_ptr<key_run_builder> key_run_in_file(const std::shared_ptr<struct key_run_files> &files, uint64_t number, unsigned level)
{
    return std::make_unique<file_builder>(files, number, level);
}

std::string key_run_files::path_of(uint64_t number) const
{
    return dir + "/" + key_run_name(number);
}

void key_run_files::remove(uint64_t number)
{
    if (!file_remove(env, path_of(number)).ok())
        not_removed.push_back(number);
}

void key_run_files::remove_again()
{
    std::vector<uint64_t> numbers;

    numbers.swap(not_removed);
    for (uint64_t number : numbers)
        remove(number);
}

std::string key_run_name(uint64_t number)
{
    char name[32];

    snprintf(name, sizeof(name), "%06llu.run", static_cast<unsigned long long>(number));
    return name;
}

bool key_run_is_file(const std::string &name)
{
    size_t end = name.size() > 4 ? name.size() - 4 : 0;

    return end > 0 && name.compare(end, 4, ".run") == 0 && name.find_first_not_of("0123456789") == end;
}

Status key_run_open(const std::shared_ptr<struct key_run_files> &files, const struct key_run_facts &facts, std::shared_ptr<const key_run> *run)
{
    auto opened = std::make_shared<file_run>();
    std::string path = files->path_of(facts.number);
    leveldb::RandomAccessFile *file = nullptr;
    leveldb::Table *table = nullptr;
    uint64_t size = 0;
    Status status;

    opened->files = files;
    opened->facts = facts;
    status = file_size(path, &size);
    if (status.ok() && size != facts.bytes)
        status = Status::Corruption(path, "has " + std::to_string(size) + " bytes instead of " + std::to_string(facts.bytes));
    if (status.ok())
        status = file_open_random(files->env, path, &file);
    opened->file.reset(file);
    if (status.ok())
        status = leveldb::Table::Open(files->options, file, size, &table);
    opened->table.reset(table);
    if (status.ok())
        *run = std::move(opened);
    return status;
}

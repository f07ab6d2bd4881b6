#include "store/store_overlay.h"

#include <string.h>

#include <algorithm>

using leveldb::Slice;
using leveldb::Status;

namespace {

Status read_at(memory_file *file, uint64_t offset, size_t size, Slice *result, char *scratch)
{
    std::lock_guard<std::mutex> guard(file->mutex);
    size_t from = static_cast<size_t>(std::min<uint64_t>(offset, file->bytes.size()));
    size_t count = std::min(size, file->bytes.size() - from);

    memcpy(scratch, file->bytes.data() + from, count);
    *result = Slice(scratch, count);
    return Status::OK();
}

class memory_sequential final : public leveldb::SequentialFile {
public:
    explicit memory_sequential(std::shared_ptr<memory_file> its_file) : file(std::move(its_file)) {}
    Status Read(size_t size, Slice *result, char *scratch) override
    {
        Status status = read_at(file.get(), offset, size, result, scratch);

        offset += result->size();
        return status;
    }
    Status Skip(uint64_t count) override
    {
        offset += count;
        return Status::OK();
    }

private:
    std::shared_ptr<memory_file> file;
    uint64_t offset = 0;
};

class memory_random final : public leveldb::RandomAccessFile {
public:
    explicit memory_random(std::shared_ptr<memory_file> its_file) : file(std::move(its_file)) {}
    Status Read(uint64_t offset, size_t size, Slice *result, char *scratch) const override
    {
        return read_at(file.get(), offset, size, result, scratch);
    }

private:
    std::shared_ptr<memory_file> file;
};

class memory_writable final : public leveldb::WritableFile {
public:
    explicit memory_writable(std::shared_ptr<memory_file> its_file) : file(std::move(its_file)) {}
    Status Append(const Slice &part) override
    {
        std::lock_guard<std::mutex> guard(file->mutex);

        file->bytes.append(part.data(), part.size());
        return Status::OK();
    }
    Status Close() override { return Status::OK(); }
    Status Flush() override { return Status::OK(); }
    Status Sync() override { return Status::OK(); }

private:
    std::shared_ptr<memory_file> file;
};

}  // namespace

store_overlay::store_overlay(leveldb::Env *disk) : EnvWrapper(disk)
{
}

store_overlay::~store_overlay()
{
    release_work();
}

std::shared_ptr<memory_file> store_overlay::find_file(const std::string &path, bool *is_hidden)
{
    std::lock_guard<std::mutex> guard(mutex);
    auto found = files.find(path);

    *is_hidden = hidden.count(path) > 0;
    return found != files.end() ? found->second : nullptr;
}

Status store_overlay::NewSequentialFile(const std::string &path, leveldb::SequentialFile **file)
{
    bool is_hidden;
    std::shared_ptr<memory_file> found = find_file(path, &is_hidden);

    *file = nullptr;
    if (found != nullptr)
        *file = new memory_sequential(found);
    else if (!is_hidden)
        return target()->NewSequentialFile(path, file);
    return *file != nullptr ? Status::OK() : Status::NotFound(path);
}

Status store_overlay::NewRandomAccessFile(const std::string &path, leveldb::RandomAccessFile **file)
{
    bool is_hidden;
    std::shared_ptr<memory_file> found = find_file(path, &is_hidden);

    *file = nullptr;
    if (found != nullptr)
        *file = new memory_random(found);
    else if (!is_hidden)
        return target()->NewRandomAccessFile(path, file);
    return *file != nullptr ? Status::OK() : Status::IOError(path, "it was removed");
}

Status store_overlay::NewWritableFile(const std::string &path, leveldb::WritableFile **file)
{
    auto made = std::make_shared<memory_file>();
    std::lock_guard<std::mutex> guard(mutex);

    files[path] = made;
    *file = new memory_writable(made);
    return Status::OK();
}

/* LevelDB appends to existing files only with options that a store does not use. */
Status store_overlay::NewAppendableFile(const std::string &path, leveldb::WritableFile **file)
{
    *file = nullptr;
    return Status::NotSupported(path, "can't be appended to");
}

bool store_overlay::FileExists(const std::string &path)
{
    bool is_hidden;

    return find_file(path, &is_hidden) != nullptr || (!is_hidden && target()->FileExists(path));
}

Status store_overlay::GetChildren(const std::string &directory, std::vector<std::string> *names)
{
    std::string prefix = directory + "/";
    Status status = target()->GetChildren(directory, names);
    std::lock_guard<std::mutex> guard(mutex);

    names->erase(std::remove_if(names->begin(), names->end(), [&](const std::string &name) {
        return hidden.count(prefix + name) > 0 || files.count(prefix + name) > 0;
    }), names->end());
    for (const auto &file : files)
        if (file.first.compare(0, prefix.size(), prefix) == 0)
            names->push_back(file.first.substr(prefix.size()));
    return status;
}

Status store_overlay::RemoveFile(const std::string &path)
{
    std::lock_guard<std::mutex> guard(mutex);

    files.erase(path);
    hidden.insert(path);
    return Status::OK();
}

Status store_overlay::CreateDir(const std::string &path)
{
    return FileExists(path) ? Status::OK() : Status::NotSupported(path, "can't be created");
}

Status store_overlay::GetFileSize(const std::string &path, uint64_t *size)
{
    bool is_hidden;
    std::shared_ptr<memory_file> found = find_file(path, &is_hidden);

    if (found == nullptr)
        return is_hidden ? Status::NotFound(path) : target()->GetFileSize(path, size);
    std::lock_guard<std::mutex> guard(found->mutex);
    *size = found->bytes.size();
    return Status::OK();
}

/* Only for files in memory: LevelDB renames only what it has just written. */
Status store_overlay::RenameFile(const std::string &from, const std::string &to)
{
    std::lock_guard<std::mutex> guard(mutex);
    auto found = files.find(from);

    if (found == files.end())
        return Status::NotSupported(from, "can't be renamed");
    files[to] = found->second;
    files.erase(from);
    hidden.insert(from);
    return Status::OK();
}

void store_overlay::Schedule(void (*function)(void *), void *argument)
{
    {
        std::lock_guard<std::mutex> guard(mutex);

        if (work_waits) {
            work.emplace_back(function, argument);
            return;
        }
    }
    target()->Schedule(function, argument);
}

void store_overlay::release_work()
{
    std::vector<std::pair<void (*)(void *), void *>> waiting;
    {
        std::lock_guard<std::mutex> guard(mutex);

        work_waits = false;
        waiting.swap(work);
    }
    for (const auto &item : waiting)
        target()->Schedule(item.first, item.second);
}

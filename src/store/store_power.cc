#include "store/store_power.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

extern "C" {
#include "base/check.h"
#include "base/random.h"
}

static const char aside_prefix[] = ".aside-";

std::string path_directory(const std::string &path)
{
    size_t slash = path.rfind('/');

    return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string path_name(const std::string &path)
{
    size_t slash = path.rfind('/');

    return slash == std::string::npos ? path : path.substr(slash + 1);
}

bool power_book::is_aside(const std::string &name)
{
    return name.compare(0, sizeof(aside_prefix) - 1, aside_prefix) == 0;
}

void power_book::track()
{
    is_tracking.store(true);
}

std::string power_book::aside_name(const std::string &path)
{
    return path_directory(path) + "/" + aside_prefix + std::to_string(aside_count++);
}

void power_book::move_size(const std::string &from, const std::string &to)
{
    auto size = synced_sizes.find(from);

    synced_sizes.erase(to);
    if (size == synced_sizes.end())
        return;
    synced_sizes[to] = size->second;
    synced_sizes.erase(from);
}

int power_book::remove(const std::string &path)
{
    if (off())
        return EIO;
    if (!is_tracking.load())
        return unlink(path.c_str()) == 0 ? 0 : errno;

    std::lock_guard<std::mutex> guard(mutex);
    std::string aside = aside_name(path);
    if (::rename(path.c_str(), aside.c_str()) != 0)
        return errno;
    move_size(path, aside);
    changes[path_directory(path)].push_back({ change_kind::REMOVED, path, "", aside });
    return 0;
}

int power_book::rename(const std::string &from, const std::string &to)
{
    if (off())
        return EIO;
    if (!is_tracking.load())
        return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;

    std::lock_guard<std::mutex> guard(mutex);
    std::string aside = aside_name(to);
    if (::link(to.c_str(), aside.c_str()) != 0) {
        if (errno != ENOENT)
            return errno;
        aside.clear();
    }
    if (::rename(from.c_str(), to.c_str()) != 0) {
        int error = errno;
        if (!aside.empty())
            unlink(aside.c_str());
        return error;
    }
    if (!aside.empty())
        move_size(to, aside);
    move_size(from, to);
    changes[path_directory(to)].push_back({ change_kind::RENAMED, from, to, aside });
    return 0;
}

int power_book::link(const std::string &from, const std::string &to)
{
    if (off())
        return EIO;
    if (::link(from.c_str(), to.c_str()) != 0)
        return errno;
    if (!is_tracking.load())
        return 0;

    /* The link shares its bytes with the file, and so what is durable of them. */
    std::lock_guard<std::mutex> guard(mutex);
    auto size = synced_sizes.find(from);
    if (size != synced_sizes.end())
        synced_sizes[to] = size->second;
    changes[path_directory(to)].push_back({ change_kind::CREATED, to, "", "" });
    return 0;
}

void power_book::created(const std::string &path)
{
    if (!is_tracking.load())
        return;
    std::lock_guard<std::mutex> guard(mutex);
    synced_sizes[path] = 0;
    changes[path_directory(path)].push_back({ change_kind::CREATED, path, "", "" });
}

void power_book::synced(const std::string &path, uint64_t size)
{
    if (!is_tracking.load() || off())
        return;
    std::lock_guard<std::mutex> guard(mutex);
    auto file = synced_sizes.find(path);
    if (file != synced_sizes.end())
        file->second = size;
}

void power_book::directory_synced(const std::string &directory)
{
    if (!is_tracking.load() || off())
        return;
    std::lock_guard<std::mutex> guard(mutex);
    for (const change &done : changes[directory]) {
        if (done.aside.empty())
            continue;
        unlink(done.aside.c_str());
        synced_sizes.erase(done.aside);
    }
    changes.erase(directory);
}

void power_book::undo(const change &done)
{
    switch (done.kind) {
    case change_kind::CREATED:
        unlink(done.path.c_str());
        synced_sizes.erase(done.path);
        break;
    case change_kind::RENAMED:
        CHECK(::rename(done.to.c_str(), done.path.c_str()) == 0);
        move_size(done.to, done.path);
        if (done.aside.empty())
            break;
        CHECK(::rename(done.aside.c_str(), done.to.c_str()) == 0);
        move_size(done.aside, done.to);
        break;
    case change_kind::REMOVED:
        CHECK(::rename(done.aside.c_str(), done.path.c_str()) == 0);
        move_size(done.aside, done.path);
        break;
    }
}

void power_book::apply(uint64_t seed)
{
    std::lock_guard<std::mutex> guard(mutex);
    struct random random;

    CHECK(is_tracking.load() && is_cut.load());
    random_init(&random, seed);
    for (auto &directory : changes) {
        std::vector<change> &list = directory.second;
        size_t kept = random_below(&random, list.size() + 1);

        for (size_t i = list.size(); i > kept; i--)
            undo(list[i - 1]);
        for (size_t i = 0; i < kept; i++)
            if (!list[i].aside.empty()) {
                unlink(list[i].aside.c_str());
                synced_sizes.erase(list[i].aside);
            }
    }
    changes.clear();
    for (const auto &file : synced_sizes) {
        struct stat stat;

        if (::stat(file.first.c_str(), &stat) != 0 || static_cast<uint64_t>(stat.st_size) <= file.second)
            continue;
        uint64_t rest = static_cast<uint64_t>(stat.st_size) - file.second;
        CHECK(truncate(file.first.c_str(), static_cast<off_t>(file.second + random_below(&random, rest + 1))) == 0);
    }
    /* What survived is durable now. */
    for (auto &file : synced_sizes) {
        struct stat stat;

        if (::stat(file.first.c_str(), &stat) == 0)
            file.second = static_cast<uint64_t>(stat.st_size);
    }
    is_cut.store(false);
}

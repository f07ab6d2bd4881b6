#include "store/store_faults.h"

#include <errno.h>
#include <unistd.h>

void fault_dice::set(const struct store_faults *wanted)
{
    std::lock_guard<std::mutex> guard(mutex);

    faults = wanted != nullptr ? *wanted : store_faults {};
    only = faults.only != nullptr ? faults.only : "";
    faults.only = nullptr;
    random_init(&random, faults.seed);
    on.store(wanted != nullptr, std::memory_order_release);
}

bool fault_dice::roll(int per_mille)
{
    return per_mille > 0 && random_below(&random, 1000) < static_cast<uint64_t>(per_mille);
}

bool fault_dice::concerns(const std::string &path) const
{
    return only.empty() || path.find(only) != std::string::npos;
}

write_fault fault_dice::on_write(const std::string &path)
{
    if (!on.load(std::memory_order_acquire))
        return write_fault::NONE;
    std::lock_guard<std::mutex> guard(mutex);
    if (!concerns(path))
        return write_fault::NONE;
    if (roll(faults.write_error))
        return write_fault::ERROR;
    if (roll(faults.write_no_space))
        return write_fault::NO_SPACE;
    if (roll(faults.write_short))
        return write_fault::SHORT;
    return roll(faults.write_late) ? write_fault::LATE : write_fault::NONE;
}

int fault_dice::on_sync(const std::string &path)
{
    if (!on.load(std::memory_order_acquire))
        return 0;
    std::lock_guard<std::mutex> guard(mutex);
    return concerns(path) && roll(faults.sync_error) ? EIO : 0;
}

int fault_dice::on_open(const std::string &path)
{
    if (!on.load(std::memory_order_acquire))
        return 0;
    std::lock_guard<std::mutex> guard(mutex);
    return concerns(path) && roll(faults.open_error) ? EIO : 0;
}

int fault_dice::on_read(const std::string &path)
{
    int delay_us, error;

    if (!on.load(std::memory_order_acquire))
        return 0;
    {
        std::lock_guard<std::mutex> guard(mutex);
        if (!concerns(path))
            return 0;
        delay_us = faults.read_delay_us;
        error = roll(faults.read_error) ? EIO : 0;
    }
    if (delay_us > 0)
        usleep(static_cast<useconds_t>(delay_us));
    return error;
}

void fault_dice::on_bytes(const std::string &path, char *bytes, size_t size)
{
    if (size == 0 || !on.load(std::memory_order_acquire))
        return;
    std::lock_guard<std::mutex> guard(mutex);
    if (concerns(path) && roll(faults.read_corrupt))
        bytes[random_below(&random, size)] ^= static_cast<char>(1u << random_below(&random, 8));
}

/* The dice behind store_env_set_faults (C++). Thread-safe; costs one atomic load while there are no faults. */
#ifndef KELVIN_STORE_STORE_FAULTS_H
#define KELVIN_STORE_STORE_FAULTS_H

#include <atomic>
#include <mutex>
#include <string>

#include "store/store_env.h"

extern "C" {
#include "base/random.h"
}

enum class write_fault { NONE, ERROR, NO_SPACE, SHORT, LATE };

class fault_dice {
public:
    void set(const struct store_faults *faults);

    write_fault on_write(const std::string &path);
    int on_sync(const std::string &path);       /* an errno, or 0 */
    int on_open(const std::string &path);
    int on_read(const std::string &path);       /* sleeps, too */
    void on_bytes(const std::string &path, char *bytes, size_t size);   /* may turn a bit */

private:
    bool roll(int per_mille);       /* holds the mutex */
    bool concerns(const std::string &path) const;

    std::atomic<bool> on { false };
    std::mutex mutex;               /* guards all below */
    struct store_faults faults {};
    std::string only;
    struct random random {};
};

#endif

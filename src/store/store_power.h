/* What a power cut would take away (C++): the changes of names that no sync of the directory made durable, and the ends
 * of files that no sync of the file did. Only keeps books once track() was called. Thread-safe.
 *
 * All functions that change the disk return an errno, or 0; EIO once power is cut.
 */
#ifndef KELVIN_STORE_STORE_POWER_H
#define KELVIN_STORE_STORE_POWER_H

#include <stdint.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

/* The directory part of a path: "." for a bare name. */
std::string path_directory(const std::string &path);
/* What is behind the last '/'. */
std::string path_name(const std::string &path);

class power_book {
public:
    void track();
    void cut() { is_cut.store(true); }
    void apply(uint64_t seed);

    bool off() const { return is_cut.load(std::memory_order_relaxed); }

    int remove(const std::string &path);
    int rename(const std::string &from, const std::string &to);
    int link(const std::string &from, const std::string &to);
    void created(const std::string &path);                      /* a new, empty file */
    void synced(const std::string &path, uint64_t size);        /* this many bytes of it are durable */
    void directory_synced(const std::string &directory);

    static bool is_aside(const std::string &name);              /* a file that is kept for undoing a removal */

private:
    enum class change_kind { CREATED, REMOVED, RENAMED };
    struct change {
        change_kind kind;
        std::string path;       /* created or removed, or the old name */
        std::string to;         /* the new name */
        std::string aside;      /* where the removed or replaced file is kept; empty: there was none */
    };

    std::string aside_name(const std::string &path);
    void move_size(const std::string &from, const std::string &to);
    void undo(const change &change);

    std::atomic<bool> is_tracking { false };
    std::atomic<bool> is_cut { false };
    std::mutex mutex;                                           /* guards all below */
    std::map<std::string, uint64_t> synced_sizes;               /* of files that were created since tracking began */
    std::map<std::string, std::vector<change>> changes;         /* by directory, oldest first; since its last sync */
    uint64_t aside_count = 0;
};

#endif

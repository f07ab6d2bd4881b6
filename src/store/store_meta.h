/* Store meta (C++): what an image says of its store, in a file of its own. docs/formats/store.md has the bytes. The working store has it in memory. */
#ifndef KELVIN_STORE_STORE_META_H
#define KELVIN_STORE_STORE_META_H

#include <string>
#include <vector>

#include "base/message.h"
#include "base/siphash.h"
#include "store/key_run.h"

extern "C" {
#include "base/bytes.h"
#include "base/disk.h"
#include "base/status.h"
}

extern const char META_NAME[];

struct store_meta {
    struct hash_seed seed {};
    bool by_slot = false;                       /* the hashes are */
    uint64_t number = 0;                        /* of batches that were written */
    std::vector<struct key_run_facts> runs;     /* the oldest first; of their facts, level and entries are not set (key_run_facts::complete) */
};

std::string meta_print(const struct store_meta &meta);
/* STATUS_CORRUPT; STATUS_VERSION: it is whole, but of a newer version. */
enum status meta_parse(struct bytes file, struct store_meta *meta);

/* The file in a directory. STATUS_NOT_FOUND: there is none. `message` is set on every other failure. */
enum status meta_read(const struct disk *disk, const std::string &dir, struct store_meta *meta, struct message *message);
/* Synced; the directory is not. */
enum status meta_write(const struct disk *disk, const std::string &dir, const struct store_meta &meta, struct message *message);

/* Reads the meta data of a store whose meta data LevelDB had (versions 4 and 5), from copies of LevelDB's files in a directory `scratch`, which is made
 * and removed. STATUS_NOT_FOUND: there is no such store in `dir`. STATUS_VERSION: of a newer version. STATUS_INVALID: of one that has records in
 * LevelDB; `message` says what to do. */
enum status meta_import(struct store_env *env, const std::string &dir, const std::string &scratch, struct store_meta *meta, struct message *message);
void meta_remove_scratch(const std::string &scratch);   /* nothing there is fine */
bool meta_is_of_leveldb(const std::string &name);       /* such a store has files of these names */

#endif

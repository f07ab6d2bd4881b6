/* The three kinds of files that LevelDB opens (C++): for sequential reads, for random reads, for writing. */
#ifndef KELVIN_STORE_STORE_FILE_H
#define KELVIN_STORE_STORE_FILE_H

#include <leveldb/env.h>

#include <memory>
#include <string>

#include "store/store_disk.h"

/* One of LevelDB's logs, by its name. */
bool file_is_log(const std::string &path);

/* Both own the descriptor from now on. */
leveldb::SequentialFile *file_reader(struct store_env *env, const std::string &path, int fd);
leveldb::RandomAccessFile *file_random_reader(struct store_env *env, const std::string &path, int fd);

/* `fd` is a new, empty file, which the writer owns from now on. */
leveldb::WritableFile *file_writer(struct store_env *env, const std::string &path, int fd,
    std::shared_ptr<disk_directory> directory);

#endif

/* Key merge (C++): several sorted sources as one. Of equal keys, that of the newest source counts. */
#ifndef KELVIN_STORE_KEY_MERGE_H
#define KELVIN_STORE_KEY_MERGE_H

#include <leveldb/iterator.h>
#include <stdint.h>

#include <memory>
#include <string>
#include <vector>

class key_merge {
public:
    /* The first source added is the newest. Before anything is read. */
    void add(std::unique_ptr<leveldb::Iterator> source) { sources.push_back({ std::move(source), leveldb::Slice(), 0 }); }

    void seek(const leveldb::Slice &target);        /* the empty one: the first key */
    void next();
    bool is_valid() const { return !heap.empty(); }
    leveldb::Slice key() const { return sources[heap[0]].key; }         /* valid until next() */
    leveldb::Slice value() const { return sources[heap[0]].iterator->value(); }
    /* The first error of a source. What could be read is there nevertheless, so an older entry of a key may have taken the place of one that
     * could not be read. */
    const leveldb::Status &status() const { return first_error; }
    size_t failed_source() const { return first_failed; }      /* whose error that is, if there is one */

private:
    struct input {
        std::unique_ptr<leveldb::Iterator> iterator;
        leveldb::Slice key;
        uint64_t prefix;            /* the first eight bytes of the key, which decide nearly always */
    };

    bool is_before(size_t a, size_t b) const;       /* sources; the newer one of equal keys is first */
    void sift_down(size_t at);
    bool take_key(size_t source);                   /* after its iterator was moved: whether it has a key */
    void advance_first();

    std::vector<struct input> sources;
    std::vector<size_t> heap;                       /* of sources that have a key */
    std::string last;
    leveldb::Status first_error;
    size_t first_failed = 0;
};

#endif

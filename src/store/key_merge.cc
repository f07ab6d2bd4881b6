#include "store/key_merge.h"

#include <endian.h>
#include <string.h>

using leveldb::Slice;

/* In the order of the bytes; a shorter key comes first, or compare() decides. */
static uint64_t prefix_of(const Slice &key)
{
    uint64_t prefix = 0;

    memcpy(&prefix, key.data(), key.size() < sizeof(prefix) ? key.size() : sizeof(prefix));
    return be64toh(prefix);
}

bool key_merge::is_before(size_t a, size_t b) const
{
    int order;

    if (sources[a].prefix != sources[b].prefix)
        return sources[a].prefix < sources[b].prefix;
    order = sources[a].key.compare(sources[b].key);
    return order < 0 || (order == 0 && a < b);
}

void key_merge::sift_down(size_t at)
{
    size_t moved = heap[at];

    for (;;) {
        size_t child = at * 2 + 1;

        if (child >= heap.size())
            break;
        if (child + 1 < heap.size() && is_before(heap[child + 1], heap[child]))
            child++;
        if (is_before(moved, heap[child]))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* LevelDB's iterators skip what they can't read, and stay valid. */
bool key_merge::take_key(size_t source)
{
    leveldb::Iterator *iterator = sources[source].iterator.get();

    if (first_error.ok() && !iterator->status().ok()) {
        first_error = iterator->status();
        first_failed = source;
    }
    if (!iterator->Valid())
        return false;
    sources[source].key = iterator->key();
    sources[source].prefix = prefix_of(sources[source].key);
    return true;
}

void key_merge::seek(const Slice &target)
{
    heap.clear();
    for (size_t i = 0; i < sources.size(); i++) {
        if (target.empty())
            sources[i].iterator->SeekToFirst();
        else
            sources[i].iterator->Seek(target);
        if (take_key(i))
            heap.push_back(i);
    }
    for (size_t i = heap.size() / 2; i-- > 0;)
        sift_down(i);
}

void key_merge::advance_first()
{
    sources[heap[0]].iterator->Next();
    if (!take_key(heap[0])) {
        heap[0] = heap.back();
        heap.pop_back();
    }
    if (!heap.empty())
        sift_down(0);
}

void key_merge::next()
{
    last.assign(key().data(), key().size());
    do
        advance_first();
    while (!heap.empty() && key() == Slice(last));
}

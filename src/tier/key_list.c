#include "tier/key_list.h"

#include "base/mem.h"
#include "keyspace/keyspace.h"

enum { TEXT_KEPT_MAX = 1 << 20 };

void key_list_release(struct key_list *list)
{
    mem_free(list->keys);
    buffer_release(&list->text);
    *list = (struct key_list){ 0 };
}

struct listed_key *key_list_add(struct key_list *list, const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    return key_list_add_in(list, keyspace->partition, keyspace->incarnation, hash, key);
}

struct listed_key *key_list_add_in(struct key_list *list, struct partition *partition, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity * 2 + 64;
        list->keys = mem_realloc(list->keys, list->capacity * sizeof(struct listed_key));
    }
    list->keys[list->count++] = (struct listed_key){
        .partition = partition, .incarnation = incarnation, .hash = hash, .key_at = list->text.size, .key_size = key.size,
    };
    buffer_reserve(&list->text, 1);     /* no key is without data, not even an empty one */
    buffer_append_bytes(&list->text, key);
    return &list->keys[list->count - 1];
}

void key_list_clear(struct key_list *list)
{
    list->count = 0;
    list->text.size = 0;
    buffer_shrink(&list->text, TEXT_KEPT_MAX);
}

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

void key_list_add(struct key_list *list, const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity * 2 + 64;
        list->keys = mem_realloc(list->keys, list->capacity * sizeof(struct listed_key));
    }
    list->keys[list->count++] = (struct listed_key){
        keyspace->partition, keyspace->incarnation, hash, list->text.size, key.size,
    };
    buffer_append_bytes(&list->text, key);
}

void key_list_clear(struct key_list *list)
{
    list->count = 0;
    list->text.size = 0;
    buffer_shrink(&list->text, TEXT_KEPT_MAX);
}

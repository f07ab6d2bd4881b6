#include "keyspace/scan_page.h"

#include "base/mem.h"

/* The text may move while the page grows: keys are stored as offsets, in place of pointers. */
void scan_page_add(struct scan_page *page, struct bytes key, enum value_type type, int64_t expire_ms)
{
    if (page->count == page->capacity) {
        page->capacity = page->capacity * 2 + 32;
        page->keys = mem_realloc(page->keys, page->capacity * sizeof(struct scan_key));
    }
    page->keys[page->count++] = (struct scan_key){ page->text.size, (uint32_t)key.size, type, expire_ms };
    buffer_append_bytes(&page->text, key);
}

struct bytes scan_page_key(const struct scan_page *page, size_t index)
{
    return bytes_of(page->text.data + page->keys[index].offset, page->keys[index].size);
}

void scan_page_release(struct scan_page *page)
{
    buffer_release(&page->text);
    mem_free(page->keys);
    *page = (struct scan_page){ 0 };
}

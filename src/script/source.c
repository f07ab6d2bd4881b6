#include "script/source.h"

#include "base/mem.h"
#include "script/shebang.h"

bool source_read_sha(struct bytes text, char sha[SCRIPT_SHA_SIZE])
{
    if (text.size != SCRIPT_SHA_SIZE)
        return false;
    for (int i = 0; i < SCRIPT_SHA_SIZE; i++) {
        char c = text.data[i];

        sha[i] = (char)(c >= 'A' && c <= 'F' ? c | 0x20 : c);
        if (!(sha[i] >= '0' && sha[i] <= '9') && !(sha[i] >= 'a' && sha[i] <= 'f'))
            return false;
    }
    return true;
}

struct source *source_create(const char sha[SCRIPT_SHA_SIZE], struct bytes text, struct buffer *error)
{
    struct source *source;
    uint32_t flags;
    size_t body;
    char *copy;

    if (!shebang_of_script(text, &body, &flags, error))
        return NULL;
    source = mem_zalloc(sizeof(*source) + text.size);
    copy = (char *)(source + 1);
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    memcpy(source->script.sha, sha, SCRIPT_SHA_SIZE);
    source->text = bytes_of(copy, text.size);
    source->script.code = bytes_of(copy + body, text.size - body);
    source->flags = flags;
    source->references = 1;
    return source;
}

struct source *source_hold(struct source *source)
{
    atomic_fetch_add_explicit(&source->references, 1, memory_order_relaxed);
    return source;
}

void source_release(struct source *source)
{
    if (source != NULL && atomic_fetch_sub_explicit(&source->references, 1, memory_order_acq_rel) == 1)
        mem_free(source);
}

size_t source_size(const struct source *source)
{
    return mem_size(source);
}

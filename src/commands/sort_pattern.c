#include "commands/sort_pattern.h"

#include "call/call.h"
#include "call/key.h"
#include "commands/string_access.h"
#include "value/hash.h"

/* As in Redis: "->" counts only after the star, and not at the end. */
struct sort_pattern sort_pattern_of(struct bytes pattern)
{
    struct sort_pattern parsed = { .is_element = bytes_equal(pattern, BYTES("#")) };
    const char *star = pattern.size > 0 ? memchr(pattern.data, '*', pattern.size) : NULL, *arrow;
    size_t before, after;

    if (star == NULL)
        return parsed;
    before = (size_t)(star - pattern.data);
    after = pattern.size - before - 1;
    parsed.has_star = true;
    parsed.before = bytes_of(pattern.data, before);
    parsed.after = bytes_of(star + 1, after);
    arrow = memmem(star + 1, after, "->", 2);
    if (arrow != NULL && arrow + 2 < star + 1 + after) {
        parsed.after.size = (size_t)(arrow - (star + 1));
        parsed.has_field = true;
        parsed.field = bytes_of(arrow + 2, after - parsed.after.size - 2);
    }
    return parsed;
}

struct bytes sort_pattern_name(const struct sort_pattern *pattern, struct call *call, struct bytes element)
{
    size_t size = pattern->before.size + element.size + pattern->after.size;
    char *name = arena_alloc(call->arena, size);

    memcpy(name, pattern->before.data, pattern->before.size);
    if (element.size > 0)
        memcpy(name + pattern->before.size, element.data, element.size);
    memcpy(name + pattern->before.size + element.size, pattern->after.data, pattern->after.size);
    return bytes_of(name, size);
}

bool sort_pattern_value(const struct sort_pattern *pattern, struct call *call, int arg, struct bytes *value)
{
    char digits[TEXT_INT_SIZE];
    struct key key;
    bool found;

    if (!key_open(call, arg, KEY_FOR_READING, &key) || key.value.type != (pattern->has_field ? VALUE_HASH : VALUE_STRING))
        return false;
    if (pattern->has_field) {
        found = hash_get(&key.value, pattern->field, value, digits);
    } else {
        *value = string_of(&key, digits);
        found = true;
    }
    /* The next key that is opened may have expired, and removing it would invalidate what is borrowed from others. */
    if (found)
        *value = arena_copy(call->arena, *value);
    return found;
}

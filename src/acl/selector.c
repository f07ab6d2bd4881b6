#include "acl/selector.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "base/text.h"

enum { PATTERN_HEAD = 8 };

void selector_init(struct selector *selector, const struct command_table *commands, bool all_channels)
{
    *selector = (struct selector){ .word_count = (command_row_count(commands) + 63) / 64, .all_channels = all_channels };
    selector->commands = mem_zalloc((selector->word_count + 1) * sizeof(*selector->commands));
}

static struct bytes own_copy(struct bytes text)
{
    return bytes_of(mem_string(text), text.size);
}

static void copy_patterns(struct pattern_list *list, const struct pattern_list *from)
{
    list->count = from->count;
    list->items = mem_alloc((from->count + 1) * sizeof(*list->items));
    for (size_t i = 0; i < from->count; i++) {
        list->items[i] = from->items[i];
        list->items[i].text = own_copy(from->items[i].text);
    }
}

void selector_copy(struct selector *selector, const struct selector *from)
{
    *selector = *from;
    selector->commands = mem_alloc((from->word_count + 1) * sizeof(*selector->commands));
    memcpy(selector->commands, from->commands, from->word_count * sizeof(*selector->commands));
    copy_patterns(&selector->keys, &from->keys);
    copy_patterns(&selector->channels, &from->channels);
    selector->first_args = mem_alloc((from->first_arg_count + 1) * sizeof(*selector->first_args));
    for (size_t i = 0; i < from->first_arg_count; i++)
        selector->first_args[i] = (struct first_arg){ from->first_args[i].command, own_copy(from->first_args[i].word) };
    selector->command_rules = mem_alloc((from->command_rule_count + 1) * sizeof(*selector->command_rules));
    for (size_t i = 0; i < from->command_rule_count; i++)
        selector->command_rules[i] = mem_string(bytes_of_string(from->command_rules[i]));
}

static void release_patterns(struct pattern_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        mem_free((char *)list->items[i].text.data);
    mem_free(list->items);
}

void selector_release(struct selector *selector)
{
    release_patterns(&selector->keys);
    release_patterns(&selector->channels);
    for (size_t i = 0; i < selector->first_arg_count; i++)
        mem_free((char *)selector->first_args[i].word.data);
    for (size_t i = 0; i < selector->command_rule_count; i++)
        mem_free(selector->command_rules[i]);
    mem_free(selector->first_args);
    mem_free(selector->command_rules);
    mem_free(selector->commands);
}

bool selector_allows_all(const struct selector *selector, const struct command_table *commands)
{
    size_t count = command_row_count(commands);

    if (!selector->all_keys || !selector->all_channels)
        return false;
    for (uint32_t id = 0; id < count; id++) {
        if (!selector_has(selector, id))
            return false;
    }
    return true;
}

static void finish_pattern(struct pattern *pattern)
{
    char head[PATTERN_HEAD] = { 0 }, mask[PATTERN_HEAD] = { 0 };
    size_t size = 0;

    while (size < sizeof(head) && size < pattern->text.size && strchr("*?[\\", pattern->text.data[size]) == NULL) {
        head[size] = pattern->text.data[size];
        mask[size++] = (char)0xff;
    }
    memcpy(&pattern->head, head, sizeof(head));
    memcpy(&pattern->head_mask, mask, sizeof(mask));
    pattern->is_head = pattern->form == PATTERN_PREFIX && size == pattern->text.size - 1;
}

static void finish_patterns(struct pattern_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        finish_pattern(&list->items[i]);
}

void selector_finish(struct selector *selector)
{
    finish_patterns(&selector->keys);
    finish_patterns(&selector->channels);
}

static inline bool pattern_matches(const struct pattern *pattern, struct bytes text)
{
    size_t size = pattern->text.size;
    uint64_t head;

    if (LIKELY(text.size >= PATTERN_HEAD)) {
        memcpy(&head, text.data, sizeof(head));
        if ((head ^ pattern->head) & pattern->head_mask)
            return false;
        if (pattern->is_head)
            return true;
    }

    switch ((enum pattern_form)pattern->form) {
    case PATTERN_LITERAL:
        return bytes_equal(pattern->text, text);
    case PATTERN_PREFIX:
        /* A star does not match an empty text, as in Redis' matcher. */
        return text.size > 0 && text.size >= size - 1 && memcmp(text.data, pattern->text.data, size - 1) == 0;
    case PATTERN_ANY:
        break;
    }
    return text_matches(pattern->text, text, TEXT_CASE_EXACT);
}

static bool allows_command(const struct selector *selector, const struct acl_request *request)
{
    uint32_t id = request->command->id;

    if (selector_has(selector, id) || request->command->flags & COMMAND_NO_AUTH)
        return true;
    for (size_t i = 0; i < selector->first_arg_count; i++) {
        const struct first_arg *rule = &selector->first_args[i];

        if (rule->command == id && request->arg_count > 1 && bytes_is(request->args[1], rule->word.data))
            return true;
    }
    return false;
}

/* EXISTS, TYPE and others look at a key but neither read nor write its value: any pattern will do. */
static inline uint8_t needed_flags(uint32_t key_flags)
{
    return (uint8_t)((key_flags & KEY_ACCESS ? PATTERN_READ : 0) |
        (key_flags & (KEY_INSERT | KEY_DELETE | KEY_UPDATE) ? PATTERN_WRITE : 0));
}

static inline bool allows_key(const struct selector *selector, struct bytes key, uint8_t needed)
{
    const struct pattern *end = selector->keys.items + selector->keys.count;

    for (const struct pattern *pattern = selector->keys.items; pattern < end; pattern++) {
        if ((pattern->flags & needed) == needed && pattern_matches(pattern, key))
            return true;
    }
    return false;
}

bool selector_allows_channel(const struct selector *selector, struct bytes channel, enum acl_channel kind)
{
    if (selector->all_channels)
        return true;
    for (size_t i = 0; i < selector->channels.count; i++) {
        const struct pattern *pattern = &selector->channels.items[i];

        if (kind == ACL_CHANNEL_PATTERN ? bytes_equal(pattern->text, channel) : pattern_matches(pattern, channel))
            return true;
    }
    return false;
}

/* Index of the first argument that is denied; 0: none. */
static int denied_key(const struct selector *selector, const struct acl_request *request)
{
    for (int i = 0; !selector->all_keys && i < request->key_count; i++) {
        const struct call_key *key = &request->keys[i];

        if (!allows_key(selector, request->args[key->arg], needed_flags(key->flags)))
            return key->arg;
    }
    return 0;
}

bool selector_allows_keys(const struct selector *selector, const struct acl_request *request)
{
    const struct call_key *end = request->keys + request->key_count;

    for (const struct call_key *key = request->keys; key < end; key++) {
        if (!allows_key(selector, request->args[key->arg], needed_flags(key->flags)))
            return false;
    }
    return true;
}

static int denied_channel(const struct selector *selector, const struct acl_request *request)
{
    enum command_channels channels = request->command->channels;
    int last = channels == CHANNELS_NONE || selector->all_channels ? 0 : channels == CHANNELS_FIRST ? 1 : request->arg_count - 1;
    enum acl_channel kind = channels == CHANNELS_ALL_PATTERNS ? ACL_CHANNEL_PATTERN : ACL_CHANNEL;

    for (int i = 1; i <= last && i < request->arg_count; i++) {
        if (!selector_allows_channel(selector, request->args[i], kind))
            return i;
    }
    return 0;
}

enum acl_verdict selector_check(const struct selector *selector, const struct acl_request *request, int *argument)
{
    *argument = 0;
    if (!allows_command(selector, request))
        return ACL_DENIED_COMMAND;
    *argument = denied_key(selector, request);
    if (*argument != 0)
        return ACL_DENIED_KEY;
    *argument = denied_channel(selector, request);
    return *argument != 0 ? ACL_DENIED_CHANNEL : ACL_ALLOWED;
}

bool selector_reads_every_key(const struct selector *selector)
{
    if (selector->all_keys)
        return true;
    for (size_t i = 0; i < selector->keys.count; i++) {
        const struct pattern *pattern = &selector->keys.items[i];

        if (pattern->flags & PATTERN_READ && bytes_equal(pattern->text, BYTES("*")))
            return true;
    }
    return false;
}

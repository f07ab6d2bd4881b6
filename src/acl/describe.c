#include "acl/describe.h"

#include "acl/rules_private.h"
#include "base/text.h"

static void append_pattern(struct buffer *out, const char *sign, struct bytes text, size_t index)
{
    if (index > 0)
        buffer_append_u8(out, ' ');
    buffer_append_string(out, sign);
    buffer_append_bytes(out, text);
}

static const char *key_sign(uint8_t flags)
{
    return flags == PATTERN_READ_WRITE ? "~" : flags == PATTERN_READ ? "%R~" : "%W~";
}

/* Redis prints "~*" also for "%RW~*" before other patterns, and then refuses to load its own text: nothing may follow "~*". */
static void print_keys(struct buffer *out, const struct selector *selector)
{
    const struct pattern_list *keys = &selector->keys;

    if (selector->all_keys)
        buffer_append_string(out, "~*");
    for (size_t i = 0; i < keys->count; i++) {
        const char *sign = key_sign(keys->items[i].flags);

        if (i + 1 < keys->count && sign[0] == '~' && bytes_equal(keys->items[i].text, BYTES("*")))
            sign = "%RW~";
        append_pattern(out, sign, keys->items[i].text, i);
    }
}

static void print_channels(struct buffer *out, const struct selector *selector)
{
    if (selector->all_channels)
        buffer_append_string(out, "&*");
    for (size_t i = 0; i < selector->channels.count; i++)
        append_pattern(out, "&", selector->channels.items[i].text, i);
}

static void print_commands(struct buffer *out, const struct selector *selector)
{
    buffer_append_string(out, selector->starts_with_all ? "+@all" : "-@all");
    for (size_t i = 0; i < selector->command_rule_count; i++)
        buffer_append_format(out, " %s", selector->command_rules[i]);
}

static void print_selector(struct buffer *out, const struct selector *selector)
{
    if (selector->all_keys || selector->keys.count > 0) {
        print_keys(out, selector);
        buffer_append_u8(out, ' ');
    }
    if (!selector->all_channels)
        buffer_append_string(out, "resetchannels ");
    if (selector->all_channels || selector->channels.count > 0) {
        print_channels(out, selector);
        buffer_append_u8(out, ' ');
    }
    print_commands(out, selector);
}

size_t acl_describe_flags(const struct acl_rules *rules, const char *names[ACL_FLAG_COUNT])
{
    size_t count = 0;

    names[count++] = rules->enabled ? "on" : "off";
    if (rules->needs_no_password)
        names[count++] = "nopass";
    names[count++] = rules->skips_sanitizing ? "skip-sanitize-payload" : "sanitize-payload";
    return count;
}

void acl_describe(struct buffer *out, const struct acl_user *user)
{
    const struct acl_rules *rules = acl_user_rules(user);
    const char *flags[ACL_FLAG_COUNT];
    size_t flag_count = acl_describe_flags(rules, flags);
    char hex[SHA256_HEX_SIZE];

    buffer_append_string(out, "user ");
    buffer_append_bytes(out, acl_user_name(user));
    for (size_t i = 0; i < flag_count; i++)
        buffer_append_format(out, " %s", flags[i]);
    for (size_t i = 0; i < rules->password_count; i++) {
        acl_password_hash(rules, i, hex);
        buffer_append_string(out, " #");
        buffer_append(out, hex, sizeof(hex));
    }
    for (size_t i = 0; i < rules->selector_count; i++) {
        buffer_append_string(out, i == 0 ? " " : " (");
        print_selector(out, &rules->selectors[i]);
        buffer_append_string(out, i == 0 ? "" : ")");
    }
}

size_t acl_password_count(const struct acl_rules *rules)
{
    return rules->password_count;
}

void acl_password_hash(const struct acl_rules *rules, size_t index, char hex[SHA256_HEX_SIZE])
{
    text_of_bytes(rules->passwords[index].digest, SHA256_SIZE, hex);
}

size_t acl_selector_count(const struct acl_rules *rules)
{
    return rules->selector_count;
}

void acl_describe_commands(struct buffer *out, const struct acl_rules *rules, size_t selector)
{
    print_commands(out, &rules->selectors[selector]);
}

void acl_describe_keys(struct buffer *out, const struct acl_rules *rules, size_t selector)
{
    print_keys(out, &rules->selectors[selector]);
}

void acl_describe_channels(struct buffer *out, const struct acl_rules *rules, size_t selector)
{
    print_channels(out, &rules->selectors[selector]);
}

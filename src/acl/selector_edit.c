/* The rules of SETUSER that change a selector. Error texts are those of Redis. */
#include <ctype.h>

#include "acl/selector.h"
#include "base/mem.h"
#include "call/command_category.h"

#define SYNTAX "Syntax error"

/* ---- commands */

static void set_bit(struct selector *selector, uint32_t id, bool allowed)
{
    uint64_t bit = (uint64_t)1 << (id % 64);

    if (allowed)
        selector->commands[id / 64] |= bit;
    else
        selector->commands[id / 64] &= ~bit;
}

static void forget_first_args(struct selector *selector, const struct command *command)
{
    size_t kept = 0;

    for (size_t i = 0; i < selector->first_arg_count; i++) {
        if (command == NULL || selector->first_args[i].command == command->id)
            mem_free((char *)selector->first_args[i].word.data);
        else
            selector->first_args[kept++] = selector->first_args[i];
    }
    selector->first_arg_count = kept;
}

/* The command with its subcommands. */
static void set_command(struct selector *selector, const struct command *command, bool allowed)
{
    set_bit(selector, command->id, allowed);
    forget_first_args(selector, command);
    for (struct command **child = command->children; child != NULL && *child != NULL; child++)
        set_bit(selector, (*child)->id, allowed);
}

static void set_all_commands(struct selector *selector, const struct command_table *commands, bool allowed)
{
    size_t count = command_row_count(commands);

    for (uint32_t id = 0; id < count; id++)
        set_bit(selector, id, allowed);
    forget_first_args(selector, NULL);
    selector->starts_with_all = allowed;
    for (size_t i = 0; i < selector->command_rule_count; i++)
        mem_free(selector->command_rules[i]);
    selector->command_rule_count = 0;
}

/* A container that is in the category takes all its subcommands with it. */
static void set_category(struct selector *selector, const struct command_table *commands, uint32_t category, bool allowed)
{
    for (size_t i = 0; i < command_row_count(commands); i++) {
        const struct command *command = command_row_at(commands, i);

        if (command_categories(command) & category)
            set_command(selector, command, allowed);
    }
}

/* The rule concerns the name, or a part of the command that it names. */
static bool is_covered(const char *rule, struct bytes name)
{
    const char *named = rule + 1;
    size_t size = strlen(named);

    return size >= name.size && memcmp(named, name.data, name.size) == 0 &&
        (size == name.size || (named[name.size] == '|' && name.data[0] != '@'));
}

/* Adds a rule to the text, and removes those that it makes meaningless. */
static void note_rule(struct selector *selector, struct bytes name, bool allowed)
{
    struct buffer text = { 0 };
    size_t kept = 0;

    for (size_t i = 0; i < selector->command_rule_count; i++) {
        if (is_covered(selector->command_rules[i], name))
            mem_free(selector->command_rules[i]);
        else
            selector->command_rules[kept++] = selector->command_rules[i];
    }
    buffer_append_u8(&text, allowed ? '+' : '-');
    buffer_append_bytes(&text, name);
    buffer_append_u8(&text, 0);
    selector->command_rules = mem_realloc(selector->command_rules, (kept + 1) * sizeof(*selector->command_rules));
    selector->command_rules[kept] = text.data;
    selector->command_rule_count = kept + 1;
}

static const char *apply_category(struct selector *selector, const struct command_table *commands, struct bytes name, bool allowed)
{
    uint32_t category;

    if (bytes_is(name, "@all")) {
        set_all_commands(selector, commands, allowed);
        return NULL;
    }
    category = command_category_of(bytes_of(name.data + 1, name.size - 1));
    if (category == 0)
        return SELECTOR_UNKNOWN;
    set_category(selector, commands, category, allowed);
    note_rule(selector, name, allowed);
    return NULL;
}

static bool has_first_arg(const struct selector *selector, const struct command *command, struct bytes word)
{
    for (size_t i = 0; i < selector->first_arg_count; i++) {
        if (selector->first_args[i].command == command->id && bytes_equal(selector->first_args[i].word, word))
            return true;
    }
    return false;
}

/* "+select|0": `bar` is the index of the last "|" in the name. */
static const char *allow_first_arg(struct selector *selector, const struct command_table *commands, struct bytes name, size_t bar)
{
    const struct command *command = command_find_own_full(commands, bytes_of(name.data, bar));
    struct bytes word = bytes_of(name.data + bar + 1, name.size - bar - 1);

    if (command == NULL)
        return SELECTOR_UNKNOWN;
    if (command->parent != NULL)
        return "Allowing first-arg of a subcommand is not supported";
    if (word.size == 0)
        return SYNTAX;
    if (command->children != NULL)
        return SELECTOR_UNKNOWN;
    if (!has_first_arg(selector, command, word)) {
        selector->first_args = mem_realloc(selector->first_args, (selector->first_arg_count + 1) * sizeof(*selector->first_args));
        selector->first_args[selector->first_arg_count++] = (struct first_arg){ command->id, bytes_of(mem_string(word), word.size) };
    }
    note_rule(selector, name, true);
    return NULL;
}

/* The last "|"; the name's size: there is none. */
static size_t last_bar(struct bytes name)
{
    size_t bar = name.size;

    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] == '|')
            bar = i;
    }
    return bar;
}

/* `name` is in lower case. */
static const char *apply_command(struct selector *selector, const struct command_table *commands, struct bytes name, bool allowed)
{
    const struct command *command = command_find_own_full(commands, name);
    size_t bar = last_bar(name);

    if (command == NULL)
        return bar < name.size && allowed ? allow_first_arg(selector, commands, name, bar) : SELECTOR_UNKNOWN;
    set_command(selector, command, allowed);
    note_rule(selector, name, allowed);
    return NULL;
}

static const char *apply_command_rule(struct selector *selector, const struct command_table *commands, struct bytes rule)
{
    bool allowed = rule.data[0] == '+';
    char *name = mem_string(bytes_of(rule.data + 1, rule.size - 1));
    struct bytes lower = bytes_of(name, rule.size - 1);
    const char *error;

    for (char *letter = name; *letter != '\0'; letter++)
        *letter = (char)tolower((unsigned char)*letter);
    if (strlen(name) != lower.size)
        error = SELECTOR_UNKNOWN;        /* a NUL */
    else if (name[0] == '@')
        error = apply_category(selector, commands, lower, allowed);
    else
        error = apply_command(selector, commands, lower, allowed);
    mem_free(name);
    return error;
}

/* ---- keys and channels */

static bool is_plain(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (memchr("*?[]\\", text.data[i], 5) != NULL)
            return false;
    }
    return true;
}

static enum pattern_form form_of(struct bytes text)
{
    if (is_plain(text))
        return PATTERN_LITERAL;
    if (text.data[text.size - 1] == '*' && is_plain(bytes_of(text.data, text.size - 1)))
        return PATTERN_PREFIX;
    return PATTERN_ANY;
}

static void clear_patterns(struct pattern_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        mem_free((char *)list->items[i].text.data);
    list->count = 0;
}

/* Adds a pattern; the permissions of one that is given again add up. */
static const char *add_pattern(struct pattern_list *list, struct bytes text, uint8_t flags)
{
    for (size_t i = 0; i < text.size; i++) {
        if (isspace((unsigned char)text.data[i]) || text.data[i] == '\0')
            return SYNTAX;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (bytes_equal(list->items[i].text, text)) {
            list->items[i].flags |= flags;
            return NULL;
        }
    }
    list->items = mem_realloc(list->items, (list->count + 1) * sizeof(*list->items));
    list->items[list->count++] = (struct pattern){
        .text = bytes_of(mem_string(text), text.size), .flags = flags, .form = (uint8_t)form_of(text) };
    return NULL;
}

static void allow_all_keys(struct selector *selector, bool allowed)
{
    selector->all_keys = allowed;
    clear_patterns(&selector->keys);
}

static void allow_all_channels(struct selector *selector, bool allowed)
{
    selector->all_channels = allowed;
    clear_patterns(&selector->channels);
}

/* "~pattern", "%R~pattern" ... */
static const char *apply_key_rule(struct selector *selector, struct bytes rule)
{
    uint8_t flags = rule.data[0] == '~' ? PATTERN_READ_WRITE : 0;
    size_t at = 1;

    if (selector->all_keys && bytes_equal(rule, BYTES("~*")))
        return NULL;
    if (selector->all_keys)
        return "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. "
            "Try 'resetkeys' to start with an empty list of patterns";
    while (rule.data[0] == '%' && at < rule.size && rule.data[at] != '~') {
        char letter = (char)toupper((unsigned char)rule.data[at++]);
        uint8_t flag = letter == 'R' ? PATTERN_READ : letter == 'W' ? PATTERN_WRITE : 0;

        if (flag == 0 || flags & flag)
            return SYNTAX;
        flags |= flag;
    }
    if (flags == 0)
        return SYNTAX;
    if (rule.data[0] == '%' && at < rule.size)
        at++;
    return add_pattern(&selector->keys, bytes_of(rule.data + at, rule.size - at), flags);
}

static const char *apply_channel_rule(struct selector *selector, struct bytes rule)
{
    if (selector->all_channels && bytes_equal(rule, BYTES("&*")))
        return NULL;
    if (selector->all_channels)
        return "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. "
            "Try 'resetchannels' to start with an empty list of channels";
    return add_pattern(&selector->channels, bytes_of(rule.data + 1, rule.size - 1), PATTERN_READ_WRITE);
}

const char *selector_apply(struct selector *selector, const struct command_table *commands, struct bytes rule)
{
    if (bytes_is(rule, "allkeys") || (bytes_equal(rule, BYTES("~*")) && !selector->all_keys))
        allow_all_keys(selector, true);
    else if (bytes_is(rule, "resetkeys"))
        allow_all_keys(selector, false);
    else if (bytes_is(rule, "allchannels") || bytes_equal(rule, BYTES("&*")))
        allow_all_channels(selector, true);
    else if (bytes_is(rule, "resetchannels"))
        allow_all_channels(selector, false);
    else if (bytes_is(rule, "allcommands") || bytes_is(rule, "nocommands"))
        set_all_commands(selector, commands, bytes_is(rule, "allcommands"));
    else if (rule.size > 0 && (rule.data[0] == '~' || rule.data[0] == '%'))
        return apply_key_rule(selector, rule);
    else if (rule.size > 0 && rule.data[0] == '&')
        return apply_channel_rule(selector, rule);
    else if (rule.size > 0 && (rule.data[0] == '+' || rule.data[0] == '-'))
        return apply_command_rule(selector, commands, rule);
    else if (rule.size > 0)
        return SYNTAX;
    return NULL;
}

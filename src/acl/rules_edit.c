/* The words of SETUSER. Error texts are those of Redis. */
#include <ctype.h>

#include "acl/rules_private.h"
#include "base/mem.h"

#define BAD_HASH "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
#define NO_SUCH_PASSWORD "The password you are trying to remove from the user does not exist"
#define SYNTAX "Syntax error"

/* ---- passwords */

static bool read_digit(char digit, unsigned char *value)
{
    if (digit >= '0' && digit <= '9')
        *value = (unsigned char)(digit - '0');
    else if (digit >= 'a' && digit <= 'f')
        *value = (unsigned char)(digit - 'a' + 10);
    else
        return false;
    return true;
}

static bool read_hash(struct bytes hex, struct password *password)
{
    unsigned char high, low;

    if (hex.size != SHA256_HEX_SIZE)
        return false;
    for (size_t i = 0; i < SHA256_SIZE; i++) {
        if (!read_digit(hex.data[2 * i], &high) || !read_digit(hex.data[2 * i + 1], &low))
            return false;
        password->digest[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* Returns the password's index, or the number of passwords if it is not there. */
static size_t find_password(const struct acl_rules *rules, const struct password *password)
{
    size_t i = 0;

    while (i < rules->password_count && !digest_sha256_equal(rules->passwords[i].digest, password->digest))
        i++;
    return i;
}

static void add_password(struct acl_rules *rules, const struct password *password)
{
    rules->needs_no_password = false;
    if (find_password(rules, password) < rules->password_count)
        return;
    rules->passwords = mem_realloc(rules->passwords, (rules->password_count + 1) * sizeof(*password));
    rules->passwords[rules->password_count++] = *password;
}

static const char *remove_password(struct acl_rules *rules, const struct password *password)
{
    size_t at = find_password(rules, password);

    if (at == rules->password_count)
        return NO_SUCH_PASSWORD;
    rules->password_count--;
    memmove(&rules->passwords[at], &rules->passwords[at + 1], (rules->password_count - at) * sizeof(*password));
    return NULL;
}

/* ">text", "<text", "#hash", "!hash" */
static const char *apply_password(struct acl_rules *rules, struct bytes word)
{
    struct bytes rest = bytes_of(word.data + 1, word.size - 1);
    struct password password;

    if (word.data[0] == '>' || word.data[0] == '<')
        digest_sha256(rest, password.digest);
    else if (!read_hash(rest, &password))
        return BAD_HASH;
    if (word.data[0] == '<' || word.data[0] == '!')
        return remove_password(rules, &password);
    add_password(rules, &password);
    return NULL;
}

/* ---- selectors */

/* The words between parentheses. */
static const char *fill_selector(struct selector *selector, const struct command_table *commands, struct bytes words)
{
    const char *at = words.data, *end = words.data + words.size, *error = NULL;

    while (at < end && error == NULL) {
        const char *begin;

        while (at < end && isspace((unsigned char)*at))
            at++;
        begin = at;
        while (at < end && !isspace((unsigned char)*at))
            at++;
        error = selector_apply(selector, commands, bytes_of(begin, (size_t)(at - begin)));
    }
    return error;
}

static const char *add_selector(struct acl_rules *rules, struct bytes word)
{
    struct selector selector;
    const char *error;

    selector_init(&selector, rules->commands, rules->channels_by_default);
    error = fill_selector(&selector, rules->commands, bytes_of(word.data + 1, word.size - 2));
    if (error != NULL) {
        selector_release(&selector);
        return error;
    }
    rules->selectors = mem_realloc(rules->selectors, (rules->selector_count + 1) * sizeof(selector));
    rules->selectors[rules->selector_count++] = selector;
    return NULL;
}

static void clear_selectors(struct acl_rules *rules)
{
    for (size_t i = 1; i < rules->selector_count; i++)
        selector_release(&rules->selectors[i]);
    rules->selector_count = 1;
}

/* ---- words */

static void clear_passwords(struct acl_rules *rules, bool needs_none)
{
    rules->needs_no_password = needs_none;
    rules->password_count = 0;
}

static void reset(struct acl_rules *rules)
{
    clear_selectors(rules);
    clear_passwords(rules, false);
    selector_release(&rules->selectors[0]);
    selector_init(&rules->selectors[0], rules->commands, rules->channels_by_default);
    rules->enabled = false;
    rules->skips_sanitizing = false;
}

const char *rules_apply_word(struct acl_rules *rules, struct bytes word)
{
    if (bytes_is(word, "on") || bytes_is(word, "off"))
        rules->enabled = bytes_is(word, "on");
    else if (bytes_is(word, "nopass") || bytes_is(word, "resetpass"))
        clear_passwords(rules, bytes_is(word, "nopass"));
    else if (bytes_is(word, "sanitize-payload") || bytes_is(word, "skip-sanitize-payload"))
        rules->skips_sanitizing = bytes_is(word, "skip-sanitize-payload");
    else if (bytes_is(word, "reset"))
        reset(rules);
    else if (bytes_is(word, "clearselectors"))
        clear_selectors(rules);
    else if (word.size > 0 && memchr("><#!", word.data[0], 4) != NULL)
        return apply_password(rules, word);
    else if (word.size > 1 && word.data[0] == '(' && word.data[word.size - 1] == ')')
        return add_selector(rules, word);
    else
        return selector_apply(&rules->selectors[0], rules->commands, word);
    return NULL;
}

static bool is_open(struct bytes word)
{
    return word.size > 0 && word.data[0] == '(' && word.data[word.size - 1] != ')';
}

int rules_join(const struct bytes *words, int count, struct buffer *joined)
{
    joined->size = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0)
            buffer_append_u8(joined, ' ');
        buffer_append_bytes(joined, words[i]);
        if (i == 0 ? !is_open(words[i]) : words[i].size > 0 && words[i].data[words[i].size - 1] == ')')
            return i + 1;
    }
    return 0;
}

/* False: `error` was filled. All parentheses are checked before any rule. */
static bool check_parentheses(const struct bytes *words, int count, struct buffer *error)
{
    struct buffer joined = { 0 };
    bool closed = true;

    for (int i = 0; i < count && closed;) {
        int used = rules_join(words + i, count - i, &joined);

        closed = used > 0;
        if (!closed) {
            buffer_append_string(error, "Unmatched parenthesis in acl selector starting at '");
            buffer_append_bytes(error, words[i]);
            buffer_append_string(error, "'.");
        }
        i += used;
    }
    buffer_release(&joined);
    return closed;
}

bool rules_apply(struct acl_rules *rules, const struct bytes *words, int count, struct buffer *error)
{
    struct buffer joined = { 0 };
    const char *problem = NULL;

    if (!check_parentheses(words, count, error))
        return false;
    for (int i = 0; i < count && problem == NULL;) {
        i += rules_join(words + i, count - i, &joined);
        problem = rules_apply_word(rules, buffer_bytes(&joined));
        if (problem != NULL) {
            buffer_append_string(error, "Error in ACL SETUSER modifier '");
            buffer_append_format(error, "%.*s': %s", (int)joined.size, joined.data, problem);   /* up to a NUL, as in Redis */
        }
    }
    buffer_release(&joined);
    return problem == NULL;
}

#include "workload.h"

#include <strings.h>

#include "base/check.h"
#include "base/mem.h"
#include "keys.h"
#include "options.h"
#include "replies.h"
#include "values.h"

enum expect {
    EXPECT_ANYTHING,        /* except an error */
    EXPECT_OK,
    EXPECT_VALUE,           /* the key's value, or nil */
    EXPECT_VALUES,          /* an array with a value or nil for each key drawn */
};

#define TEN(x) x x x x x x x x x x

/* `letter` is between a key's prefix and its number, so that tests of different types use different keys. */
struct test {
    const char *name, *read, *write, *letter;
    enum expect expect_read, expect_write;
    const char *help;
};

static const struct test tests[] = {
    { "ping", "PING", NULL, "", EXPECT_ANYTHING, 0, "PING" },
    { "load", NULL, "SET __key__ __value__", "", 0, EXPECT_OK, "SET of every key exactly once, in order" },
    { "set", NULL, "SET __key__ __value__", "", 0, EXPECT_OK, "SET" },
    { "get", "GET __key__", NULL, "", EXPECT_VALUE, 0, "GET" },
    { "mixed", "GET __key__", "SET __key__ __value__", "", EXPECT_VALUE, EXPECT_OK, "GET and SET in the proportion of --ratio" },
    { "mset", NULL, "MSET" TEN(" __key__ __value__"), "", 0, EXPECT_OK, "MSET of ten keys" },
    { "mget", "MGET" TEN(" __key__"), NULL, "", EXPECT_VALUES, 0, "MGET of ten keys" },
    { "exists", "EXISTS __key__", NULL, "", EXPECT_ANYTHING, 0, "EXISTS" },
    { "del", NULL, "DEL __key__", "", 0, EXPECT_ANYTHING, "DEL" },
    { "incr", NULL, "INCR __key__", "c", 0, EXPECT_ANYTHING, "INCR" },
    { "hset", NULL, "HSET __key__ __member__ __value__", "h", 0, EXPECT_ANYTHING, "HSET of one field" },
    { "hget", "HGET __key__ __member__", NULL, "h", EXPECT_VALUE, 0, "HGET" },
    { "hgetall", "HGETALL __key__", NULL, "h", EXPECT_ANYTHING, 0, "HGETALL" },
    { "lpush", NULL, "LPUSH __key__ __value__", "l", 0, EXPECT_ANYTHING, "LPUSH" },
    { "rpush", NULL, "RPUSH __key__ __value__", "l", 0, EXPECT_ANYTHING, "RPUSH" },
    { "lpop", NULL, "LPOP __key__", "l", 0, EXPECT_ANYTHING, "LPOP" },
    { "rpop", NULL, "RPOP __key__", "l", 0, EXPECT_ANYTHING, "RPOP" },
    { "lrange", "LRANGE __key__ 0 99", NULL, "l", EXPECT_ANYTHING, 0, "LRANGE 0 99" },
    { "sadd", NULL, "SADD __key__ __member__", "s", 0, EXPECT_ANYTHING, "SADD of one member" },
    { "sismember", "SISMEMBER __key__ __member__", NULL, "s", EXPECT_ANYTHING, 0, "SISMEMBER" },
    { "spop", NULL, "SPOP __key__", "s", 0, EXPECT_ANYTHING, "SPOP" },
    { "zadd", NULL, "ZADD __key__ __rand_int__ __member__", "z", 0, EXPECT_ANYTHING, "ZADD of one member" },
    { "zscore", "ZSCORE __key__ __member__", NULL, "z", EXPECT_ANYTHING, 0, "ZSCORE" },
    { "zrange", "ZRANGE __key__ 0 99", NULL, "z", EXPECT_ANYTHING, 0, "ZRANGE 0 99" },
    { "zpopmin", NULL, "ZPOPMIN __key__", "z", 0, EXPECT_ANYTHING, "ZPOPMIN" },
};

enum field { FIELD_NONE, FIELD_KEY, FIELD_VALUE, FIELD_VALUE_SIZED, FIELD_MEMBER, FIELD_RANDOM };

enum { MEMBER_DIGITS = 10, RANDOM_DIGITS = 12 };

/* Fixed text, and the field that follows it. */
struct part {
    size_t text_size;
    enum field field;
};

/* An encoded command: `text` has the texts of all parts, one after the other. */
struct command {
    struct buffer text, parts;
    size_t part_count, key_count, request_size_max;
    enum expect expect;
};

struct workload {
    const struct options *options;
    const struct key_space *keys;
    char name[32];
    bool is_load;
    unsigned digits;                /* of a key's number */
    const char *letter;
    struct command commands[REQUEST_CLASSES];
    uint64_t read_share, write_share;
};

/* ---- from words to parts */

static void part_end(struct command *command, enum field field, size_t field_size)
{
    const struct part *parts = (const struct part *)(const void *)command->parts.data;
    struct part part = { command->text.size, field };

    for (size_t i = 0; i < command->part_count; i++)
        part.text_size -= parts[i].text_size;
    buffer_append(&command->parts, &part, sizeof(part));
    command->part_count++;
    command->key_count += field == FIELD_KEY;
    command->request_size_max += part.text_size + field_size;
}

static const struct placeholder {
    const char *name;
    enum field field;
} placeholders[] = {
    { "__key__", FIELD_KEY },
    { "__value__", FIELD_VALUE },
    { "__member__", FIELD_MEMBER },
    { "__rand_int__", FIELD_RANDOM },
};

static const struct placeholder *placeholder_at(const char *text)
{
    for (size_t i = 0; i < sizeof(placeholders) / sizeof(placeholders[0]); i++)
        if (strncmp(text, placeholders[i].name, strlen(placeholders[i].name)) == 0)
            return &placeholders[i];
    return NULL;
}

static size_t field_size(const struct workload *workload, enum field field)
{
    switch (field) {
    case FIELD_KEY: return (size_t)workload->options->key_size;
    case FIELD_MEMBER: return 1 + MEMBER_DIGITS;
    case FIELD_RANDOM: return RANDOM_DIGITS;
    case FIELD_VALUE: return (size_t)workload->options->values.size_max;
    case FIELD_NONE: case FIELD_VALUE_SIZED: break;
    }
    return 0;
}

static size_t argument_size(const struct workload *workload, const char *word)
{
    size_t size = 0;

    while (*word) {
        const struct placeholder *found = placeholder_at(word);

        size += found ? field_size(workload, found->field) : 1;
        word += found ? strlen(found->name) : 1;
    }
    return size;
}

static void field_append(const struct workload *workload, struct command *command, enum field field)
{
    const struct options *options = workload->options;
    size_t zeros;

    switch (field) {
    case FIELD_KEY:
        zeros = options->key_size - strlen(options->key_prefix) - strlen(workload->letter) - workload->digits;
        buffer_append_string(&command->text, options->key_prefix);
        buffer_append_string(&command->text, workload->letter);
        memset(buffer_reserve(&command->text, zeros), '0', zeros);
        command->text.size += zeros;
        part_end(command, field, workload->digits);
        return;
    case FIELD_MEMBER:
        buffer_append_string(&command->text, "m");
        part_end(command, field, MEMBER_DIGITS);
        return;
    default: part_end(command, field, field_size(workload, field)); return;
    }
}

static void argument_append(const struct workload *workload, struct command *command, const char *word)
{
    const struct value_rule *values = &workload->options->values;

    if (values->size_min < values->size_max && strcmp(word, "__value__") == 0) {
        part_end(command, FIELD_VALUE_SIZED, (size_t)values->size_max + 32);
        return;
    }
    buffer_append_format(&command->text, "$%zu\r\n", argument_size(workload, word));
    while (*word) {
        const struct placeholder *found = placeholder_at(word);

        if (found)
            field_append(workload, command, found->field);
        else
            buffer_append(&command->text, word, 1);
        word += found ? strlen(found->name) : 1;
    }
    buffer_append_string(&command->text, "\r\n");
}

static void command_compile(const struct workload *workload, struct command *command, char *const *words)
{
    size_t count = 0;

    while (words[count])
        count++;
    buffer_append_format(&command->text, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
        argument_append(workload, command, words[i]);
    part_end(command, FIELD_NONE, 0);
}

/* The same from one string of words that are separated by single spaces. */
static void line_compile(const struct workload *workload, struct command *command, const char *line)
{
    enum { WORDS_MAX = 32 };
    char *copy = mem_string(bytes_of_string(line)), *words[WORDS_MAX + 1], *rest = copy;
    size_t count = 0;

    while ((words[count] = strsep(&rest, " ")) != NULL)
        CHECK(++count <= WORDS_MAX);
    command_compile(workload, command, words);
    mem_free(copy);
}

static void test_compile(struct workload *workload, const struct test *test)
{
    uint64_t ttl = workload->options->ttl_s;

    if (test->read) {
        workload->commands[REQUEST_READ].expect = test->expect_read;
        line_compile(workload, &workload->commands[REQUEST_READ], test->read);
    }
    if (test->write) {
        char line[512];
        bool expires = ttl > 0 && strncmp(test->write, "SET ", 4) == 0;

        workload->commands[REQUEST_WRITE].expect = test->expect_write;
        snprintf(line, sizeof(line), expires ? "%s EX %llu" : "%s", test->write, (unsigned long long)ttl);
        line_compile(workload, &workload->commands[REQUEST_WRITE], line);
    }
    workload->read_share = test->read == NULL ? 0 : test->write == NULL ? 1 : workload->options->read_share;
    workload->write_share = test->write == NULL ? 0 : test->read == NULL ? 1 : workload->options->write_share;
}

static const struct test *test_find(const char *name)
{
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        if (strcasecmp(tests[i].name, name) == 0)
            return &tests[i];
    return NULL;
}

/* Returns NULL, or why keys or values can't be generated. */
static const char *workload_problem(const struct workload *workload, char *const *words)
{
    const struct options *options = workload->options;
    const struct value_rule *values = &options->values;

    if (strlen(options->key_prefix) + strlen(workload->letter) + workload->digits > options->key_size)
        return "--key-size: too small for prefix and number";
    for (size_t i = 0; words && words[i]; i++)
        if (values->size_min < values->size_max && strcmp(words[i], "__value__") != 0 && strstr(words[i], "__value__"))
            return "__value__ must be a whole argument if -d is a range";
    return NULL;
}

struct workload *workload_create(const char *name, const struct options *options, const struct key_space *keys,
    char *error, size_t error_size)
{
    const struct test *test = name ? test_find(name) : NULL;
    struct workload *workload;
    const char *problem;

    if (name && test == NULL) {
        snprintf(error, error_size, "unknown test '%s' (see --help)", name);
        return NULL;
    }
    workload = mem_zalloc(sizeof(*workload));
    workload->options = options;
    workload->keys = keys;
    workload->digits = key_space_digits(keys);
    workload->letter = test ? test->letter : "";
    workload->is_load = test && strcmp(test->name, "load") == 0;
    snprintf(workload->name, sizeof(workload->name), "%s", test ? test->name : options->command[0]);
    problem = workload_problem(workload, test ? NULL : options->command);
    if (problem) {
        snprintf(error, error_size, "%s", problem);
        workload_destroy(workload);
        return NULL;
    }
    if (test) {
        test_compile(workload, test);
    } else {
        command_compile(workload, &workload->commands[REQUEST_READ], options->command);
        workload->read_share = 1;
    }
    return workload;
}

void workload_destroy(struct workload *workload)
{
    if (workload == NULL)
        return;
    for (int i = 0; i < REQUEST_CLASSES; i++) {
        buffer_release(&workload->commands[i].text);
        buffer_release(&workload->commands[i].parts);
    }
    mem_free(workload);
}

const char *workload_name(const struct workload *workload)
{
    return workload->name;
}

bool workload_is_load(const struct workload *workload)
{
    return workload->is_load;
}

void workload_help(FILE *out)
{
    fputs("\nTests (keys of types other than string have a letter between prefix and number):\n", out);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        fprintf(out, "  %-10s %s\n", tests[i].name, tests[i].help);
    fputs("\nIn a command, these placeholders are replaced: __key__ (each draws another key), __value__ (the value of the\n"
          "key before it), __member__, __rand_int__.\n", out);
}

size_t workload_keys_max(const struct workload *workload)
{
    size_t reads = workload->commands[REQUEST_READ].key_count, writes = workload->commands[REQUEST_WRITE].key_count;

    return reads > writes ? reads : writes;
}

/* ---- requests */

static enum request_class class_draw(const struct workload *workload, struct random *random)
{
    if (workload->write_share == 0)
        return REQUEST_READ;
    if (workload->read_share == 0)
        return REQUEST_WRITE;
    return random_below(random, workload->read_share + workload->write_share) < workload->read_share ? REQUEST_READ
                                                                                                     : REQUEST_WRITE;
}

static char *value_put(const struct value_rule *values, uint64_t key, char *at)
{
    size_t size = value_size(values, key);

    value_write(values, key, size, at);
    return at + size;
}

static char *value_put_sized(const struct value_rule *values, uint64_t key, char *at)
{
    at += sprintf(at, "$%zu\r\n", value_size(values, key));
    at = value_put(values, key, at);
    memcpy(at, "\r\n", 2);
    return at + 2;
}

enum request_class workload_request(const struct workload *workload, struct random *random, uint64_t ticket,
    uint64_t *drawn, struct buffer *out)
{
    enum request_class class = class_draw(workload, random);
    const struct command *command = &workload->commands[class];
    const struct part *parts = (const struct part *)(const void *)command->parts.data;
    const struct options *options = workload->options;
    const char *text = command->text.data;
    char *at = buffer_reserve(out, command->request_size_max);
    uint64_t key = 0, key_index = 0;

    for (size_t i = 0; i < command->part_count; i++) {
        memcpy(at, text, parts[i].text_size);
        at += parts[i].text_size;
        text += parts[i].text_size;
        switch (parts[i].field) {
        case FIELD_NONE: break;
        case FIELD_KEY:
            key = workload->is_load ? ticket
                                    : key_space_draw(workload->keys, random, ticket * command->key_count + key_index);
            drawn[key_index++] = key;
            digits_write(at, workload->digits, key);
            at += workload->digits;
            break;
        case FIELD_VALUE: at = value_put(&options->values, key, at); break;
        case FIELD_VALUE_SIZED: at = value_put_sized(&options->values, key, at); break;
        case FIELD_MEMBER:
            digits_write(at, MEMBER_DIGITS, random_below(random, options->members));
            at += MEMBER_DIGITS;
            break;
        case FIELD_RANDOM:
            digits_write(at, RANDOM_DIGITS, random_below(random, options->keys.count));
            at += RANDOM_DIGITS;
            break;
        }
    }
    out->size = (size_t)(at - out->data);
    return class;
}

/* ---- replies */

static void value_judge(const struct workload *workload, uint64_t key, const struct reply_element *element,
    struct verdict *verdict, char *reason, size_t reason_size)
{
    const struct options *options = workload->options;
    size_t expected, differs;

    if (element->is_nil) {
        verdict->missing++;
        return;
    }
    verdict->found++;
    if (!options->verify || verdict->wrong)
        return;
    expected = value_size(&options->values, key);
    differs = element->type == '$' ? value_difference(&options->values, key, element->text) : 0;
    if (element->type == '$' && element->text.size == expected && differs == expected)
        return;
    verdict->wrong = true;
    if (element->type != '$')
        snprintf(reason, reason_size, "key number %llu: a reply of type '%c' instead of a string",
            (unsigned long long)key, element->type);
    else if (element->text.size != expected)
        snprintf(reason, reason_size, "key number %llu: %zu bytes instead of %zu, the first %zu are correct",
            (unsigned long long)key, element->text.size, expected, differs);
    else
        snprintf(reason, reason_size, "key number %llu: byte %zu of %zu is wrong", (unsigned long long)key, differs,
            expected);
}

struct verdict workload_judge(const struct workload *workload, enum request_class class, const uint64_t *drawn,
    struct bytes reply, char *reason, size_t reason_size)
{
    const struct command *command = &workload->commands[class];
    struct verdict verdict = { 0 };
    struct bytes rest = reply;
    struct reply_element element;

    if (reply.data[0] == '-' || reply.data[0] == '!') {
        verdict.error = true;
        return verdict;
    }
    switch (command->expect) {
    case EXPECT_ANYTHING: break;
    case EXPECT_OK:
        if (workload->options->verify && !bytes_equal(reply, BYTES("+OK\r\n"))) {
            verdict.wrong = true;
            snprintf(reason, reason_size, "key number %llu: reply %.*s instead of OK",
                (unsigned long long)drawn[0], (int)strcspn(reply.data, "\r"), reply.data);
        }
        break;
    case EXPECT_VALUE:
        element = reply_next(&rest);
        value_judge(workload, drawn[0], &element, &verdict, reason, reason_size);
        break;
    case EXPECT_VALUES:
        element = reply_next(&rest);
        if (element.type != '*' || element.count != command->key_count) {
            verdict.wrong = workload->options->verify;
            snprintf(reason, reason_size, "%zu keys requested, %llu values returned", command->key_count,
                (unsigned long long)element.count);
            break;
        }
        for (size_t i = 0; i < command->key_count; i++) {
            element = reply_next(&rest);
            value_judge(workload, drawn[i], &element, &verdict, reason, reason_size);
        }
        break;
    }
    return verdict;
}

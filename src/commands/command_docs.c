/* COMMAND DOCS: the description of a row's arguments (commands/README.md has the language) is parsed into a tree of nodes, and
 * the tree is written to the reply. */
#include "commands/command_docs.h"

#include "base/check.h"

enum node_kind { NODE_ARGUMENT, NODE_TOKEN, NODE_ONE_OF, NODE_BLOCK };

struct node {
    enum node_kind kind;
    struct bytes name, type;        /* type: of an argument */
    struct bytes shown;             /* the name in help texts, if it is another */
    struct bytes since, deprecated; /* versions; data NULL: none */
    struct bytes token;             /* the token itself, or the one before it; data NULL: none */
    bool optional, multiple, multiple_token;
    bool alone;                     /* in parentheses: a block that begins with it does not take its token */
    struct node *children, *next;
};

struct parser {
    const char *cursor;             /* ends with NUL */
    struct arena *arena;
};

/* A list that is being built. */
struct list {
    struct node *first, **end;
    size_t count;
};

static struct node *node_create(struct parser *parser, enum node_kind kind)
{
    struct node *node = arena_alloc(parser->arena, sizeof(*node));

    *node = (struct node){ .kind = kind };
    return node;
}

static void list_add(struct list *list, struct node *node)
{
    if (list->count++ == 0)
        list->first = node;
    else
        *list->end = node;
    list->end = &node->next;
}

static void skip_spaces(struct parser *parser)
{
    while (*parser->cursor == ' ')
        parser->cursor++;
}

static bool accept(struct parser *parser, const char *text)
{
    size_t size = strlen(text);

    if (strncmp(parser->cursor, text, size) != 0)
        return false;
    parser->cursor += size;
    return true;
}

/* Up to a space, a bracket, a bar, a version, or "...". */
static struct bytes parse_word(struct parser *parser)
{
    const char *from = parser->cursor;

    while (*parser->cursor != '\0' && strchr(" ()[]|@", *parser->cursor) == NULL && strncmp(parser->cursor, "...", 3) != 0)
        parser->cursor++;
    CHECK(parser->cursor > from);
    return bytes_of(from, (size_t)(parser->cursor - from));
}

/* A name may contain colons ("ip:port:string"): the type is after the last one. */
static size_t name_size(struct bytes word)
{
    size_t size = word.size;

    while (size > 0 && word.data[size - 1] != ':')
        size--;
    return size == 0 ? 0 : size - 1;
}

static bool is_type(struct bytes type)
{
    static const char *const types[] = { "key", "string", "integer", "double", "pattern", "key-pattern", "unix-time" };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (bytes_equal(type, bytes_of_string(types[i])))
            return true;
    }
    return false;
}

static struct bytes lower_case(struct parser *parser, struct bytes word)
{
    char *copy = arena_alloc(parser->arena, word.size + 1);

    for (size_t i = 0; i < word.size; i++)
        copy[i] = word.data[i] >= 'A' && word.data[i] <= 'Z' ? (char)(word.data[i] + 'a' - 'A') : word.data[i];
    return bytes_of(copy, word.size);
}

/* A word with a colon: its name, and what is after it: the type of an argument; the token of that name; or nothing, if a group follows. */
static bool split(struct bytes word, struct bytes *name, struct bytes *rest)
{
    size_t size = name_size(word);

    if (size == 0)
        return false;
    *name = bytes_of(word.data, size);
    *rest = bytes_of(word.data + size + 1, word.size - size - 1);
    return true;
}

/* Whether an argument or a group follows the WORD, so that the word is its token. */
static bool has_follower(const struct parser *parser)
{
    struct parser ahead = *parser;
    struct bytes name, rest;

    if (*ahead.cursor != ' ')
        return false;
    skip_spaces(&ahead);
    if (*ahead.cursor == '(')
        return true;
    if (*ahead.cursor == '\0' || strchr(")]|[", *ahead.cursor) != NULL)
        return false;
    return split(parse_word(&ahead), &name, &rest) && (rest.size == 0 || is_type(rest));
}

static struct node *parse_item(struct parser *parser);
static struct node *parse_group(struct parser *parser, struct bytes name);

static struct node *parse_argument(struct parser *parser, struct bytes name, struct bytes type)
{
    struct node *node = node_create(parser, NODE_ARGUMENT);
    const char *slash = memchr(name.data, '/', name.size);

    node->name = node->shown = name;
    node->type = type;
    if (slash != NULL) {
        node->name.size = (size_t)(slash - name.data);
        node->shown = bytes_of(slash + 1, name.size - node->name.size - 1);
    }
    return node;
}

static struct node *parse_token(struct parser *parser, struct bytes word)
{
    struct node *node = node_create(parser, NODE_TOKEN);
    struct bytes name = { 0 };

    if (split(word, &name, &word)) {
        for (size_t i = 0; i < word.size; i++)
            CHECK(word.data[i] < 'a' || word.data[i] > 'z');      /* a type that does not exist */
    }
    node->token = bytes_equal(word, BYTES("\"\"")) ? BYTES("") : word;
    node->name = name.data != NULL ? name : lower_case(parser, word);
    return node;
}

static struct node *parse_words(struct parser *parser)
{
    struct bytes word = parse_word(parser), name, rest;
    bool has_name = split(word, &name, &rest);
    struct node *node;

    if (has_name && rest.size == 0)
        return parse_group(parser, name);
    if (has_name && is_type(rest))
        return parse_argument(parser, name, rest);
    if (has_name || !has_follower(parser))
        return parse_token(parser, word);
    skip_spaces(parser);
    node = parse_item(parser);
    CHECK(node->token.data == NULL);
    node->token = word;
    return node;
}

static struct bytes parse_version(struct parser *parser)
{
    const char *from = parser->cursor;

    parser->cursor += strspn(from, "0123456789.");
    return bytes_of(from, (size_t)(parser->cursor - from));
}

static struct node *parse_item(struct parser *parser)
{
    bool is_group = *parser->cursor == '(' || *parser->cursor == '[';
    struct node *node = is_group ? parse_group(parser, bytes_of(NULL, 0)) : parse_words(parser);

    if (accept(parser, "...")) {
        node->multiple = true;
        node->multiple_token = node->token.data != NULL && node->kind != NODE_TOKEN;
    }
    if (accept(parser, "@!"))
        node->deprecated = parse_version(parser);
    else if (accept(parser, "@"))
        node->since = parse_version(parser);
    return node;
}

static struct list parse_sequence(struct parser *parser)
{
    struct list list = { 0 };

    for (;;) {
        skip_spaces(parser);
        if (*parser->cursor == '\0' || strchr(")]|", *parser->cursor) != NULL)
            return list;
        list_add(&list, parse_item(parser));
    }
}

/* Joins the names of parts: "offset_count". */
static struct bytes joined_name(struct parser *parser, const struct node *children)
{
    size_t size = 0;
    char *name, *out;

    for (const struct node *child = children; child != NULL; child = child->next)
        size += child->name.size + 1;
    out = name = arena_alloc(parser->arena, size);
    for (const struct node *child = children; child != NULL; child = child->next) {
        memcpy(out, child->name.data, child->name.size);
        out += child->name.size;
        *out++ = '_';
    }
    return bytes_of(name, size - 1);
}

static struct node *group_of(struct parser *parser, enum node_kind kind, struct node *children)
{
    struct node *node = node_create(parser, kind);

    node->children = children;
    node->name = joined_name(parser, children);
    return node;
}

/* One node for a sequence: the item itself if it is the only one, else a block, which takes the token at its beginning. */
static struct node *node_of_sequence(struct parser *parser, struct list list)
{
    struct node *block;

    if (list.count == 1)
        return list.first;
    block = group_of(parser, NODE_BLOCK, list.first);
    if (list.first->kind == NODE_ARGUMENT && !list.first->alone && list.first->token.data != NULL && !list.first->optional) {
        block->token = list.first->token;
        list.first->token = (struct bytes){ 0 };
    }
    return block;
}

/* In brackets. A group with a name is a group even if it has one item. */
static struct node *parse_group(struct parser *parser, struct bytes name)
{
    bool optional = accept(parser, "[");
    struct list alternatives = { 0 };
    struct node *node;

    CHECK(optional || accept(parser, "("));
    do {
        struct list sequence = parse_sequence(parser);

        CHECK(sequence.count > 0);
        if (name.data != NULL && alternatives.count == 0 && *parser->cursor != '|')
            list_add(&alternatives, group_of(parser, NODE_BLOCK, sequence.first));
        else
            list_add(&alternatives, node_of_sequence(parser, sequence));
    } while (accept(parser, "|"));
    CHECK(accept(parser, optional ? "]" : ")"));
    node = alternatives.count == 1 ? alternatives.first : group_of(parser, NODE_ONE_OF, alternatives.first);
    if (name.data != NULL)
        node->name = name;
    if (optional)
        node->optional = true;
    else
        node->alone = true;
    return node;
}

static size_t node_count(const struct node *nodes)
{
    size_t count = 0;

    for (; nodes != NULL; nodes = nodes->next)
        count++;
    return count;
}

/* Which key specification the next argument of type key belongs to. Patterns of keys share one. */
struct key_counter {
    int next, count;
    int of_patterns;        /* -1: none yet */
};

static bool is_key_pattern(const struct node *node)
{
    return node->kind == NODE_ARGUMENT && bytes_equal(node->type, BYTES("key-pattern"));
}

static int key_spec_of(const struct node *node, struct key_counter *keys)
{
    int index = is_key_pattern(node) && keys->of_patterns >= 0 ? keys->of_patterns : keys->next;

    if (is_key_pattern(node))
        keys->of_patterns = index;
    if (index == keys->next && keys->next + 1 < keys->count)
        keys->next++;
    return index;
}

static void reply_pair(struct reply *reply, const char *name, struct bytes value)
{
    reply_bulk_string(reply, name);
    reply_bulk(reply, value);
}

static void reply_node_flags(struct reply *reply, const struct node *node)
{
    reply_bulk_string(reply, "flags");
    reply_set(reply, (size_t)node->optional + node->multiple + node->multiple_token);
    if (node->optional)
        reply_status(reply, BYTES("optional"));
    if (node->multiple)
        reply_status(reply, BYTES("multiple"));
    if (node->multiple_token)
        reply_status(reply, BYTES("multiple_token"));
}

static struct bytes type_of(const struct node *node)
{
    switch (node->kind) {
    case NODE_ARGUMENT:
        return is_key_pattern(node) ? BYTES("pattern") : node->type;
    case NODE_TOKEN:
        return BYTES("pure-token");
    case NODE_ONE_OF:
        return BYTES("oneof");
    case NODE_BLOCK:
        break;
    }
    return BYTES("block");
}

static void reply_node(struct reply *reply, const struct node *node, struct key_counter *keys)
{
    bool is_key = node->kind == NODE_ARGUMENT && (bytes_equal(node->type, BYTES("key")) || is_key_pattern(node)) && keys->count > 0;
    bool has_token = node->token.data != NULL, has_flags = node->optional || node->multiple;
    bool is_leaf = node->children == NULL;

    reply_map(reply, 2 + (size_t)is_leaf + is_key + has_token + (node->since.data != NULL) + (node->deprecated.data != NULL) + has_flags + !is_leaf);
    reply_pair(reply, "name", node->name);
    reply_pair(reply, "type", type_of(node));
    if (is_leaf)
        reply_pair(reply, "display_text", node->shown.data != NULL ? node->shown : node->name);
    if (is_key) {
        reply_bulk_string(reply, "key_spec_index");
        reply_integer(reply, key_spec_of(node, keys));
    }
    if (has_token)
        reply_pair(reply, "token", node->token);
    if (node->since.data != NULL)
        reply_pair(reply, "since", node->since);
    if (node->deprecated.data != NULL)
        reply_pair(reply, "deprecated_since", node->deprecated);
    if (has_flags)
        reply_node_flags(reply, node);
    if (is_leaf)
        return;
    reply_bulk_string(reply, "arguments");
    reply_array(reply, node_count(node->children));
    for (const struct node *child = node->children; child != NULL; child = child->next)
        reply_node(reply, child, keys);
}

static void reply_arguments(struct reply *reply, const struct command *command, const struct node *nodes)
{
    struct key_counter keys = { .of_patterns = -1 };

    while (command->keys != NULL && command->keys[keys.count].flags != 0)
        keys.count++;
    reply_bulk_string(reply, "arguments");
    reply_array(reply, node_count(nodes));
    for (; nodes != NULL; nodes = nodes->next)
        reply_node(reply, nodes, &keys);
}

static void reply_text(struct reply *reply, const char *name, const char *text)
{
    if (text != NULL)
        reply_pair(reply, name, bytes_of_string(text));
}

static struct node *parse_arguments(struct arena *arena, const char *text)
{
    struct parser parser = { text == NULL ? "" : text, arena };
    struct list list = parse_sequence(&parser);

    CHECK(*parser.cursor == '\0');      /* a closing bracket without an opening one */
    return list.first;
}

void command_docs_reply(struct reply *reply, struct arena *arena, const struct command *command)
{
    struct node *arguments = parse_arguments(arena, command->arguments);
    bool has_flags = command->deprecated_since != NULL || command->for_developers;
    size_t child_count = 0;

    while (command->children != NULL && command->children[child_count] != NULL)
        child_count++;
    reply_map(reply, (size_t)(command->summary != NULL) + (command->since != NULL) + (command->group != NULL) +
        (command->complexity != NULL) + (size_t)has_flags + (command->deprecated_since != NULL) +
        (command->replaced_by != NULL) + (arguments != NULL) + (child_count > 0));
    reply_text(reply, "summary", command->summary);
    reply_text(reply, "since", command->since);
    reply_text(reply, "group", command->group);
    reply_text(reply, "complexity", command->complexity);
    if (has_flags) {
        reply_bulk_string(reply, "doc_flags");
        reply_set(reply, 1);
        reply_status(reply, command->for_developers ? BYTES("syscmd") : BYTES("deprecated"));
    }
    reply_text(reply, "deprecated_since", command->deprecated_since);
    reply_text(reply, "replaced_by", command->replaced_by);
    if (arguments != NULL)
        reply_arguments(reply, command, arguments);
    if (child_count == 0)
        return;
    reply_bulk_string(reply, "subcommands");
    reply_map(reply, child_count);
    for (size_t i = 0; i < child_count; i++) {
        reply_bulk_string(reply, command->children[i]->name);
        command_docs_reply(reply, arena, command->children[i]);
    }
}

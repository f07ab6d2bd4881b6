#include "server/tier_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "call/key.h"
#include "commands/admin.h"
#include "config/config_words.h"
#include "engine/access.h"
#include "engine/engine.h"
#include "server/tier_commands.h"
#include "tier/key_rules.h"

static const char file_name[] = "tier.rules";

enum {
    FILE_SIZE_MAX = 64 << 20,       /* what a start reads, so no more is saved */
    IDLE_MAX_S = 30 * 24 * 3600,    /* an entry's idle time is 16 bits of minutes (keyspace/heat.h) */
};

/* --- as words --- */

static const struct {
    const char *word;
    enum key_rule_kind kind;
} kinds[] = {
    { "never-cold", KEY_RULE_NEVER_COLD },
    { "cold-first", KEY_RULE_COLD_FIRST },
    { "min-idle", KEY_RULE_MIN_IDLE },
};

static const char *kind_word(enum key_rule_kind kind)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (kinds[i].kind == kind)
            return kinds[i].word;
    }
    return NULL;
}

/* PATTERN KIND [SECONDS]. NULL, or what is wrong. The pattern is borrowed. */
static const char *read_rule(const struct bytes *words, int count, struct key_rule *rule)
{
    int64_t seconds = 0;
    size_t i = 0;

    if (count < 2)
        return "syntax error";
    while (i < sizeof(kinds) / sizeof(kinds[0]) && !bytes_is(words[1], kinds[i].word))
        i++;
    if (i == sizeof(kinds) / sizeof(kinds[0]))
        return "a rule is never-cold, cold-first, or min-idle and seconds";
    if (count != (kinds[i].kind == KEY_RULE_MIN_IDLE ? 3 : 2))
        return "syntax error";
    if (kinds[i].kind == KEY_RULE_MIN_IDLE && (!text_to_int(words[2], &seconds) || seconds < 1 || seconds > IDLE_MAX_S))
        return "min-idle is a number of seconds, from 1 to 2592000";
    *rule = (struct key_rule){ words[0], kinds[i].kind, seconds };
    return NULL;
}

static void print_pin(void *context, int db, struct bytes key)
{
    struct buffer *out = context;

    buffer_append_format(out, "pin %d ", db);
    config_words_quote(out, key);
    buffer_append_u8(out, '\n');
}

static void print_rules(struct buffer *out, const struct key_rules *rules)
{
    for (size_t i = 0; i < key_rules_count(rules); i++) {
        const struct key_rule *rule = key_rules_at(rules, i);

        buffer_append_string(out, "rule ");
        config_words_quote(out, rule->pattern);
        buffer_append_format(out, " %s", kind_word(rule->kind));
        if (rule->kind == KEY_RULE_MIN_IDLE)
            buffer_append_format(out, " %" PRId64, rule->idle_s);
        buffer_append_u8(out, '\n');
    }
    key_rules_visit_pins(rules, print_pin, out);
}

static const char *read_words(const struct bytes *words, int count, struct key_rules *rules)
{
    const char *wrong = NULL;
    struct key_rule rule;
    int64_t db;

    if (count == 0 || (words[0].size > 0 && words[0].data[0] == '#'))
        return NULL;
    if (bytes_is(words[0], "rule")) {
        wrong = read_rule(words + 1, count - 1, &rule);
        return wrong == NULL && !key_rules_add(rules, &rule) ? "too many rules" : wrong;
    }
    if (!bytes_is(words[0], "pin") || count != 3 || !text_to_int(words[1], &db) || db < 0 || db > INT32_MAX)
        return "it is neither 'rule PATTERN KIND' nor 'pin DATABASE KEY'";
    return key_rules_pin(rules, (int)db, words[2]) == KEY_RULES_PINS_FULL ? "too many pins" : NULL;
}

static bool read_text(struct bytes text, struct key_rules *rules, struct message *message)
{
    const char *wrong = NULL;
    struct bytes line;

    for (int number = 1; wrong == NULL && config_line_next(&text, &line); number++) {
        struct config_words words;

        if (!config_words_split(line, &words)) {
            wrong = "unbalanced quotes";
        } else {
            wrong = read_words(words.items, words.count, rules);
            config_words_release(&words);
        }
        if (wrong != NULL)
            message_set(message, "%s, line %d: %s", file_name, number, wrong);
    }
    return wrong == NULL;
}

bool tier_rules_load(struct engine *engine, struct message *message)
{
    struct buffer text = { 0 };
    struct key_rules *rules;
    enum status status = file_read_all(disk_system(), AT_FDCWD, file_name, FILE_SIZE_MAX, &text);
    bool is_good = status == STATUS_OK;

    if (!is_good && errno == ENOENT)
        return true;
    rules = key_rules_create();
    if (!is_good)
        message_set(message, "%s can't be read: %s", file_name, strerror(errno));
    else
        is_good = read_text(buffer_bytes(&text), rules, message);
    buffer_release(&text);
    if (is_good)
        rulebook_replace(tier_rules(engine->tier), rules);
    else
        key_rules_release(rules);
    return is_good;
}

/* --- changing --- */

struct change {
    struct job job;
    /* Changes a copy of the rules. Returns how many changes it has made; -1: `error` says why not. */
    int64_t (*make)(struct change *change, struct key_rules *rules);
    int db;
    struct bytes *words;
    int word_count;
    /* Results. */
    int64_t result;
    struct message error;
};

static void release_change(struct job *job)
{
    struct change *change = (struct change *)job;

    mem_free(change->words);
    mem_free(change);
}

static bool save_rules(const struct key_rules *rules, struct message *error)
{
    struct file_replacement place = { .dir = AT_FDCWD, .path = file_name, .aside = "tier.rules.tmp" };
    struct buffer text = { 0 };
    bool renamed, is_saved = false;

    print_rules(&text, rules);
    if (text.size > FILE_SIZE_MAX) {
        message_set(error, "%s would be larger than %d MB: use TIER RULE ADD <pattern> never-cold", file_name, FILE_SIZE_MAX >> 20);
    } else {
        is_saved = file_replace(disk_system(), &place, buffer_bytes(&text), &renamed) == STATUS_OK;
        if (!is_saved)
            message_set(error, "%s can't be written: %s", file_name, strerror(errno));
    }
    buffer_release(&text);
    return is_saved;
}

static void run_change(struct job *job, struct engine *engine)
{
    struct change *change = (struct change *)job;
    struct rulebook *book = tier_rules(engine->tier);
    const struct key_rules *old;
    struct key_rules *rules;

    mutex_lock(&book->changing);
    old = rulebook_hold(book);
    rules = key_rules_copy(old);
    key_rules_release(old);
    change->result = change->make(change, rules);
    if (change->result > 0 && !save_rules(rules, &change->error))
        change->result = -1;
    if (change->result > 0)
        rulebook_replace(book, rules);
    else
        key_rules_release(rules);
    mutex_unlock(&book->changing);
}

/* With the call's arguments from `first` on that `wants` says. The finished change; NULL: the call waits, or has its reply. */
static const struct change *change_of(struct call *call, int first, bool (*wants)(struct call *call, int arg), int64_t (*make)(struct change *, struct key_rules *))
{
    struct change *change = call_job(call);
    struct bytes *words;
    size_t size;

    if (change != NULL) {
        if (change->result < 0)
            reply_errorf(call, "ERR %s", change->error.text);
        return change->result < 0 ? NULL : change;
    }
    change = mem_zalloc(sizeof(*change));
    change->job = (struct job){ .run = run_change, .release = release_change };
    change->make = make;
    change->db = call->db;
    words = arena_alloc(call->arena, (size_t)(call->arg_count - first + 1) * sizeof(*words));
    for (int arg = first; arg < call->arg_count; arg++) {
        if (wants == NULL || wants(call, arg))
            words[change->word_count++] = call->args[arg];
    }
    change->words = mem_copy_array(words, change->word_count, &size);
    call_start_job(call, &change->job);
    return NULL;
}

/* --- pins --- */

static int64_t make_pins(struct change *change, struct key_rules *rules)
{
    int64_t count = 0;

    for (int i = 0; i < change->word_count; i++) {
        switch (key_rules_pin(rules, change->db, change->words[i])) {
        case KEY_RULES_PINNED: count++; break;
        case KEY_RULES_WAS_PINNED: break;
        case KEY_RULES_PINS_FULL:
            message_set(&change->error, "at most %d keys can be pinned: use TIER RULE ADD <pattern> never-cold", KEY_RULES_PINS_MAX);
            return -1;
        }
    }
    return count;
}

static int64_t make_unpins(struct change *change, struct key_rules *rules)
{
    int64_t count = 0;

    for (int i = 0; i < change->word_count; i++)
        count += key_rules_unpin(rules, change->db, change->words[i]);
    return count;
}

static bool is_there(struct call *call, int arg)
{
    struct key key;

    return key_open(call, arg, KEY_FOR_LOOKING, &key);
}

/* The keys were loaded before the first look at them, and are again when their pins are saved: from then on they stay. */
void tier_pin_command(struct call *call)
{
    const struct change *done;
    int64_t count = 0;

    if (!tier_commands_may_run(call))
        return;
    done = change_of(call, 2, is_there, make_pins);
    if (done == NULL)
        return;
    for (int arg = 2; arg < call->arg_count; arg++)
        count += is_there(call, arg);
    reply_integer(call->reply, count);
}

void tier_unpin_command(struct call *call)
{
    const struct change *done;

    if (!tier_commands_may_run(call) || !access_allows_arguments(call, 2))
        return;
    done = change_of(call, 2, NULL, make_unpins);
    if (done != NULL)
        reply_integer(call->reply, done->result);
}

struct pin_list {
    struct call *call;
    size_t count;
};

static void list_pin(void *context, int db, struct bytes key)
{
    struct pin_list *list = context;

    if (db != list->call->db)
        return;
    reply_bulk(list->call->reply, key);
    list->count++;
}

void tier_pinned_command(struct call *call)
{
    struct pin_list list = { call, 0 };
    const struct key_rules *rules;
    struct reply_later later;

    if (!tier_commands_may_run(call))
        return;
    rules = rulebook_hold(tier_rules(call->engine->tier));
    later = reply_later_begin(call->reply);
    key_rules_visit_pins(rules, list_pin, &list);
    reply_later_array(call->reply, later, list.count);
    key_rules_release(rules);
}

/* --- rules --- */

static int64_t make_rule(struct change *change, struct key_rules *rules)
{
    struct key_rule rule;

    (void)read_rule(change->words, change->word_count, &rule);      /* the command has looked */
    if (key_rules_add(rules, &rule))
        return 1;
    message_set(&change->error, "there are %d rules, which is the most", KEY_RULES_MAX);
    return -1;
}

static int64_t remove_rule(struct change *change, struct key_rules *rules)
{
    return key_rules_remove(rules, change->words[0]);
}

static void list_rules(struct call *call)
{
    const struct key_rules *rules = rulebook_hold(tier_rules(call->engine->tier));

    reply_array(call->reply, key_rules_count(rules));
    for (size_t i = 0; i < key_rules_count(rules); i++) {
        const struct key_rule *rule = key_rules_at(rules, i);

        reply_array(call->reply, rule->kind == KEY_RULE_MIN_IDLE ? 3 : 2);
        reply_bulk(call->reply, rule->pattern);
        reply_bulk_string(call->reply, kind_word(rule->kind));
        if (rule->kind == KEY_RULE_MIN_IDLE)
            reply_integer(call->reply, rule->idle_s);
    }
    key_rules_release(rules);
}

void tier_rule_command(struct call *call)
{
    const struct change *done;
    const char *wrong;
    struct key_rule rule;

    if (!tier_commands_may_run(call))
        return;
    if (arg_is(call, 2, "add")) {
        wrong = call_job(call) == NULL ? read_rule(call->args + 3, call->arg_count - 3, &rule) : NULL;
        if (wrong != NULL)
            reply_errorf(call, "ERR %s", wrong);
        else if (change_of(call, 3, NULL, make_rule) != NULL)
            reply_ok(call->reply);
    } else if (arg_is(call, 2, "del") && call->arg_count == 4) {
        done = change_of(call, 3, NULL, remove_rule);
        if (done != NULL)
            reply_integer(call->reply, done->result);
    } else if (arg_is(call, 2, "list") && call->arg_count == 3) {
        list_rules(call);
    } else {
        reply_error(call, ERR_SYNTAX);
    }
}

#include <math.h>

#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/string_access.h"
#include "containers/hll.h"

static void reply_corrupt(struct call *call)
{
    reply_errorf(call, "INVALIDOBJ Corrupted HLL object detected");
}

/* False: the error was replied. */
static bool open_hll(struct call *call, int arg, enum key_access access, struct key *key)
{
    char digits[TEXT_INT_SIZE];

    if (!key_open_as(call, arg, access, VALUE_STRING, key))
        return false;
    if (!key->present || hll_is_one(string_of(key, digits)))
        return true;
    reply_errorf(call, "WRONGTYPE Key is not a valid HyperLogLog string value.");
    return false;
}

/* The bytes of a present key; an integer is no HyperLogLog. */
static struct bytes hll_of(const struct key *key)
{
    return string_of(key, NULL);
}

/* A change: a large dense one is changed in place, others in a copy, because a sparse one may turn out to be corrupt half way.
 * `held` is the memory of the copy. */
struct edit {
    struct key *key;
    struct buffer held, *hll;
};

static void edit_begin(struct edit *edit, struct key *key)
{
    *edit = (struct edit){ .key = key, .hll = &edit->held };
    if (!key->present) {
        hll_create(edit->hll);
    } else if (key->value.encoding == STRING_BIG && !hll_is_sparse(hll_of(key)) && !blob_is_shared(key->value.object)) {
        edit->hll = &((struct blob *)key->value.object)->buffer;
    } else {
        buffer_append_bytes(edit->hll, hll_of(key));
    }
}

/* Puts the copy, if there is one, into the key; the caller calls key_changed. It is borrowed until then. */
static void edit_put(struct edit *edit)
{
    if (edit->hll == &edit->held)
        key_replace(edit->key, string_value_raw(buffer_bytes(edit->hll)));
}

static void edit_end(struct edit *edit)
{
    if (edit->hll == &edit->held)
        buffer_release(&edit->held);
}

/* If nothing changed, an embedded string becomes raw all the same, as in Redis. */
static void edit_store(struct edit *edit, uint64_t changes)
{
    struct key *key = edit->key;
    uint64_t before = key->call->change_count;

    if (changes > 0) {
        edit_put(edit);
        key_changed(key, EVENT_PFADD);
        key->call->change_count = before + changes;
    } else if (key->value.encoding == STRING_EMBEDDED) {
        edit_put(edit);
        key_recode(key);
    }
}

void pfadd_command(struct call *call)
{
    enum hll_result result = HLL_SAME;
    uint64_t changes;
    struct edit edit;
    struct key key;

    if (!open_hll(call, 1, KEY_FOR_WRITING, &key))
        return;
    edit_begin(&edit, &key);
    changes = !key.present;
    for (int i = 2; i < call->arg_count && result != HLL_CORRUPT; i++) {
        result = hll_add(edit.hll, call->args[i], call->turn->hll_sparse_size_max);
        changes += result == HLL_CHANGED;
    }
    if (result == HLL_CORRUPT) {        /* all or nothing: what failed is not in the log */
        edit_end(&edit);
        reply_corrupt(call);
        return;
    }
    if (changes > 0)
        hll_forget_count(edit.hll->data);
    edit_store(&edit, changes);
    edit_end(&edit);
    reply_integer(call->reply, changes > 0);
}

/* Reading an embedded string makes it raw, as in Redis. */
static void make_raw(struct key *key)
{
    struct edit edit;

    if (key->value.encoding != STRING_EMBEDDED)
        return;
    edit_begin(&edit, key);
    edit_store(&edit, 0);
    edit_end(&edit);
}

/* The estimate is cached in the value: a change that is logged, but that no client is notified of. */
static void keep_count(struct key *key, uint64_t count)
{
    struct edit edit;

    edit_begin(&edit, key);
    hll_keep_count(edit.hll->data, count);
    edit_put(&edit);
    key_changed(key, EVENT_SILENT);
    edit_end(&edit);
}

static void count_one(struct call *call)
{
    uint64_t count = 0;
    struct key key;

    if (!open_hll(call, 1, KEY_FOR_READING, &key))
        return;
    if (key.present && !hll_kept_count(hll_of(&key), &count)) {
        if (!hll_count(hll_of(&key), &count)) {
            reply_corrupt(call);
            return;
        }
        key_open(call, 1, KEY_FOR_WRITING, &key);
        keep_count(&key, count);
    } else if (key.present && key.value.encoding == STRING_EMBEDDED) {
        key_open(call, 1, KEY_FOR_WRITING, &key);
        make_raw(&key);
    }
    reply_integer(call->reply, (int64_t)count);
}

/* Raises the registers to those of argument `arg`. False: the error was replied. */
static bool add_registers(struct call *call, int arg, uint8_t *registers, bool *is_dense)
{
    struct key key;

    if (!open_hll(call, arg, KEY_FOR_READING, &key))
        return false;
    if (!key.present)
        return true;
    *is_dense |= !hll_is_sparse(hll_of(&key));
    if (hll_read(hll_of(&key), registers))
        return true;
    reply_corrupt(call);
    return false;
}

static void count_several(struct call *call)
{
    uint8_t registers[HLL_REGISTERS] = { 0 };
    bool is_dense = false;

    for (int i = 1; i < call->arg_count; i++) {
        if (!add_registers(call, i, registers, &is_dense))
            return;
    }
    reply_integer(call->reply, (int64_t)hll_count_registers(registers));
}

void pfcount_command(struct call *call)
{
    if (call->arg_count == 2)
        count_one(call);
    else
        count_several(call);
}

void pfmerge_command(struct call *call)
{
    uint8_t registers[HLL_REGISTERS] = { 0 };
    bool is_dense = false;
    struct edit edit;
    struct key key;

    for (int i = 1; i < call->arg_count; i++) {
        if (!add_registers(call, i, registers, &is_dense))
            return;
    }
    key_open(call, 1, KEY_FOR_WRITING, &key);
    edit_begin(&edit, &key);
    if ((is_dense && hll_to_dense(edit.hll) == HLL_CORRUPT) ||
        hll_raise(edit.hll, registers, call->turn->hll_sparse_size_max) == HLL_CORRUPT) {
        reply_corrupt(call);        /* cannot happen: it was read before */
    } else {
        hll_forget_count(edit.hll->data);
        edit_store(&edit, 1);
        reply_ok(call->reply);
    }
    edit_end(&edit);
}

/* False: the error was replied. */
static bool make_dense(struct key *key, bool *was_sparse)
{
    enum hll_result result;
    struct edit edit;

    edit_begin(&edit, key);
    result = hll_to_dense(edit.hll);
    *was_sparse = result == HLL_CHANGED;
    if (*was_sparse) {
        edit_put(&edit);
        key_recode(key);
        key->call->change_count++;
    }
    edit_end(&edit);
    if (result == HLL_CORRUPT)
        reply_corrupt(key->call);
    return result != HLL_CORRUPT;
}

static void debug_registers(struct key *key)
{
    uint8_t registers[HLL_REGISTERS] = { 0 };
    struct reply *reply = key->call->reply;
    bool was_sparse;

    if (!make_dense(key, &was_sparse))
        return;
    hll_read(hll_of(key), registers);
    reply_array(reply, HLL_REGISTERS);
    for (size_t i = 0; i < HLL_REGISTERS; i++)
        reply_integer(reply, registers[i]);
}

static void debug_runs(struct key *key)
{
    struct buffer text = { 0 };

    if (!hll_is_sparse(hll_of(key))) {
        reply_errorf(key->call, "ERR HLL encoding is not sparse");
        return;
    }
    hll_describe(hll_of(key), &text);
    reply_bulk(key->call->reply, buffer_bytes(&text));
    buffer_release(&text);
}

void pfdebug_command(struct call *call)
{
    bool was_sparse;
    struct key key;

    if (!key_open(call, 2, KEY_FOR_WRITING, &key)) {
        reply_errorf(call, "ERR The specified key does not exist");
        return;
    }
    if (!open_hll(call, 2, KEY_FOR_WRITING, &key))
        return;
    make_raw(&key);
    if (arg_is(call, 1, "getreg")) {
        debug_registers(&key);
    } else if (arg_is(call, 1, "decode")) {
        debug_runs(&key);
    } else if (arg_is(call, 1, "encoding")) {
        reply_status(call->reply, bytes_of_string(hll_is_sparse(hll_of(&key)) ? "sparse" : "dense"));
    } else if (arg_is(call, 1, "todense")) {
        if (make_dense(&key, &was_sparse))
            reply_integer(call->reply, was_sparse);
    } else {
        reply_errorf(call, "ERR Unknown PFDEBUG subcommand '%.*s'", (int)call->args[1].size, call->args[1].data);
    }
}

/* Adds 100,000 elements to a sparse and a dense one: both must agree, and the estimate must be within four standard errors. */
void pfselftest_command(struct call *call)
{
    struct buffer sparse = { 0 }, dense = { 0 };
    const char *problem = NULL;

    hll_create(&sparse);
    hll_create(&dense);
    hll_to_dense(&dense);
    for (uint64_t i = 1; i <= 100000 && problem == NULL; i++) {
        char digits[TEXT_INT_SIZE];
        struct bytes element = bytes_of(digits, text_of_int((int64_t)i * 7919, digits));
        uint64_t one = 0, other = 0;

        if (hll_add(&sparse, element, call->turn->hll_sparse_size_max) != hll_add(&dense, element, 0))
            problem = "sparse and dense differ";
        if (i % 1000 != 0)
            continue;
        if (!hll_count(buffer_bytes(&sparse), &one) || !hll_count(buffer_bytes(&dense), &other) || one != other)
            problem = "sparse and dense count differently";
        if (fabs((double)one - (double)i) > 4 * 1.04 / 128 * (double)i + 10)
            problem = "the estimate is too inaccurate";
    }
    buffer_release(&sparse);
    buffer_release(&dense);
    if (problem != NULL)
        reply_errorf(call, "TESTFAILED %s", problem);
    else
        reply_ok(call->reply);
}

/* BITFIELD: integers of 1 to 64 bits at any offset of a string. */
#include "call/call.h"
#include "call/key.h"
#include "commands/bitmap.h"
#include "commands/bits.h"
#include "commands/handlers.h"
#include "commands/string_access.h"

enum field_action { FIELD_GET, FIELD_SET, FIELD_INCRBY };
enum field_overflow { OVERFLOW_WRAP, OVERFLOW_SAT, OVERFLOW_FAIL };

struct field_step {
    enum field_action action;
    enum field_overflow overflow;
    bool is_signed;
    int width;                  /* bits: 1 to 64, or 63 if unsigned */
    uint64_t offset;
    int64_t operand;            /* the new value, or the increment */
};

struct field_plan {
    struct field_step *steps;
    int count;
    bool writes;
    size_t size_min;            /* bytes up to the last bit that may be written */
};

static bool read_type(struct call *call, int arg, struct field_step *step)
{
    struct bytes text = call->args[arg];
    int64_t width = 0;

    step->is_signed = text.size > 0 && text.data[0] == 'i';
    if (text.size > 0 && (step->is_signed || text.data[0] == 'u') &&
        text_to_int(bytes_of(text.data + 1, text.size - 1), &width) && width >= 1 && width <= (step->is_signed ? 64 : 63)) {
        step->width = (int)width;
        return true;
    }
    reply_errorf(call, "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.");
    return false;
}

static bool read_overflow(struct call *call, int arg, enum field_overflow *overflow)
{
    static const char *const names[] = { "WRAP", "SAT", "FAIL" };

    for (int i = 0; i < 3; i++)
        if (arg_is(call, arg, names[i])) {
            *overflow = (enum field_overflow)i;
            return true;
        }
    reply_errorf(call, "ERR Invalid OVERFLOW type specified");
    return false;
}

/* Parses the step that begins at `arg`. Returns how many arguments it has, its word included, or 0: the error was replied. */
static int read_step(struct call *call, int arg, struct field_step *step)
{
    int left = call->arg_count - arg - 1, need = 3;

    if (arg_is(call, arg, "GET") && left >= 2) {
        step->action = FIELD_GET;
        need = 2;
    } else if (arg_is(call, arg, "SET") && left >= 3) {
        step->action = FIELD_SET;
    } else if (arg_is(call, arg, "INCRBY") && left >= 3) {
        step->action = FIELD_INCRBY;
    } else {
        reply_error(call, ERR_SYNTAX);
        return 0;
    }
    if (!read_type(call, arg + 1, step) || !bit_offset_arg(call, arg + 2, step->width, &step->offset) ||
        (need == 3 && !arg_integer(call, arg + 3, &step->operand)))
        return 0;
    return need + 1;
}

static bool read_plan(struct call *call, struct field_plan *plan)
{
    enum field_overflow overflow = OVERFLOW_WRAP;

    *plan = (struct field_plan){ .steps = arena_alloc(call->arena, (size_t)call->arg_count * sizeof(struct field_step)) };
    for (int arg = 2; arg < call->arg_count;) {
        struct field_step *step = &plan->steps[plan->count];
        int size;

        if (arg_is(call, arg, "OVERFLOW") && arg + 1 < call->arg_count) {
            if (!read_overflow(call, arg + 1, &overflow))
                return false;
            arg += 2;
            continue;
        }
        *step = (struct field_step){ .overflow = overflow };
        size = read_step(call, arg, step);
        if (size == 0)
            return false;
        if (step->action != FIELD_GET) {
            size_t end = (size_t)((step->offset + (uint64_t)step->width - 1) / 8 + 1);

            plan->writes = true;
            plan->size_min = end > plan->size_min ? end : plan->size_min;
        }
        plan->count++;
        arg += size;
    }
    return true;
}

static int64_t sign_extended(uint64_t bits, int width)
{
    return (int64_t)(bits << (64 - width)) >> (64 - width);
}

/* The new value of the field. False if it does not fit and the step is to fail then. */
static bool value_after(const struct field_step *step, uint64_t before, uint64_t *after)
{
    __int128 high = step->is_signed ? ((__int128)1 << (step->width - 1)) - 1 : ((__int128)1 << step->width) - 1;
    __int128 low = step->is_signed ? -high - 1 : 0;
    __int128 sum;
    bool over;

    if (step->action == FIELD_INCRBY)
        sum = (step->is_signed ? (__int128)sign_extended(before, step->width) : (__int128)before) + step->operand;
    else
        sum = step->is_signed ? (__int128)step->operand : (__int128)(uint64_t)step->operand;
    over = sum > high;
    /* If the distance of a value below the range does not fit into int64, Redis takes it for one above the range; SAT shows this. */
    if (step->action == FIELD_SET && step->is_signed && step->width < 64 && high - sum > INT64_MAX)
        over = true;
    *after = (uint64_t)sum & UINT64_MAX >> (64 - step->width);
    if (!over && sum >= low)
        return true;
    if (step->overflow == OVERFLOW_SAT)
        *after = (uint64_t)(over ? high : low) & UINT64_MAX >> (64 - step->width);
    return step->overflow != OVERFLOW_FAIL;
}

static void reply_field(struct reply *reply, const struct field_step *step, uint64_t bits)
{
    reply_integer(reply, step->is_signed ? sign_extended(bits, step->width) : (int64_t)bits);
}

/* True if it changed something. `*writes` counts those that did not fail. */
static bool run_step(struct call *call, const struct field_step *step, struct string_edit *edit, int *writes)
{
    uint64_t before = string_edit_bits(edit, step->offset, step->width), after;

    if (step->action == FIELD_GET) {
        reply_field(call->reply, step, before);
        return false;
    }
    if (!value_after(step, before, &after)) {
        reply_null(call->reply);
        return false;
    }
    ++*writes;
    reply_field(call->reply, step, step->action == FIELD_SET ? before : after);
    if (after == before)
        return false;
    string_edit_set_bits(edit, step->offset, step->width, after);
    return true;
}

/* False: parts of the string are not there. One that grows may be read where it had its end. */
static bool ask_for_fields(const struct key *key, const struct field_plan *plan)
{
    bool has = true;

    if (!key->present)
        return true;
    for (int i = 0; i < plan->count; i++) {
        const struct field_step *step = &plan->steps[i];
        uint64_t first = step->offset / 8, size = (step->offset % 8 + (uint64_t)step->width + 7) / 8;

        has = (plan->writes ? string_has_change(&key->value, first, size) : string_has(&key->value, first, size)) && has;
    }
    if (!has)
        key_ask(key);
    return has;
}

static void run_writing(struct call *call, const struct field_plan *plan)
{
    struct string_edit edit;
    uint64_t changes = 0;
    int writes = 0;
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STRING, &key))
        return;
    if (!ask_for_fields(&key, plan) || !string_edit_begin(&key, plan->size_min, 0, &edit))
        return;
    reply_array(call->reply, (size_t)plan->count);
    for (int i = 0; i < plan->count; i++)
        changes += run_step(call, &plan->steps[i], &edit, &writes);
    /* The string has grown even if all writes failed. */
    string_edit_end(&edit, changes > 0, writes > 0 ? EVENT_SETBIT : EVENT_SILENT);
    if (changes > 1)
        call->change_count += changes - 1;      /* Redis counts each change, and key_changed has counted one */
}

static void run_reading(struct call *call, const struct field_plan *plan)
{
    struct key key;

    if (!string_open_part(call, KEY_FOR_READING, &key) || !ask_for_fields(&key, plan))
        return;
    reply_array(call->reply, (size_t)plan->count);
    for (int i = 0; i < plan->count; i++) {
        const struct field_step *step = &plan->steps[i];

        reply_field(call->reply, step, string_bits(&key, step->offset, step->width));
    }
}

void bitfield_command(struct call *call)
{
    struct field_plan plan;

    if (!read_plan(call, &plan))
        return;
    if (plan.writes)
        run_writing(call, &plan);
    else
        run_reading(call, &plan);
}

void bitfield_ro_command(struct call *call)
{
    struct field_plan plan;

    if (!read_plan(call, &plan))
        return;
    if (plan.writes)
        reply_errorf(call, "ERR BITFIELD_RO only supports the GET subcommand");
    else
        run_reading(call, &plan);
}

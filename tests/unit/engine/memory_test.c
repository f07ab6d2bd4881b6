/* The memory gate: its one predicate, and a model of all that holds memory: in no state does everybody wait for ever. */
#include "engine/memory.h"

#include "support/unit.h"

#include "base/mem.h"
#include "base/message.h"
#include "support/engine_box.h"

enum {
    LIMIT = 8,
    HOT_MAX = 4,            /* can be demoted, a unit a step */
    FIXED_MAX = 10,         /* can't: a backlog, scripts, the record map, buffers of clients */
    ASIDE_MAX = 3,          /* what is resident and unused, and what the memtable will take */
    LOG_MAX = 3,            /* of the log's tail: other threads free it */
    GROWTH_STEP = 2,        /* memory that has grown by this is worth another pass of demotion (tier/stuck.c) */
    STEPS_MAX = HOT_MAX + 4,
};

/* What holds memory, in units, and what the writer has found. */
struct model {
    unsigned hot, fixed, aside, log;
    bool has_tier, lazy;
    bool is_stuck;
    unsigned stuck_at;
};

static unsigned used(const struct model *model)
{
    return model->hot + model->fixed + model->log + (model->lazy ? 1 : 0);
}

static bool can_demote(const struct model *model)
{
    return model->has_tier && !(model->is_stuck && used(model) + model->aside < model->stuck_at + GROWTH_STEP);
}

static enum memory_state judge(const struct model *model)
{
    struct memory_view view = { LIMIT, used(model), model->aside, 0, can_demote(model) };

    if (!view.can_demote && view.used > view.limit && model->has_tier)
        view.leaving = model->lazy ? UINT64_MAX : model->log;
    return memory_judge(&view);
}

/* The threads that need no client go on: each step is one that they are sure to take. */
static void step(struct model *model)
{
    if (model->log > 0) {
        model->log = 0;
    } else if (model->lazy) {
        model->lazy = false;
    } else if (model->has_tier && model->hot > 0) {
        model->hot--;
    } else if (model->has_tier) {           /* a pass over all hot keys found nothing */
        model->is_stuck = true;
        model->stuck_at = used(model) + model->aside;
    }
}

static void check(struct model model)
{
    int steps = 0;

    while (judge(&model) == MEMORY_COMES) {
        assert_true(steps++ < STEPS_MAX);
        step(&model);
    }
    if (judge(&model) == MEMORY_OUT)
        assert_true(used(&model) > LIMIT && !can_demote(&model) && model.log + model.fixed > 0);
    else if (!can_demote(&model))
        assert_true(used(&model) <= LIMIT);             /* what is set aside refuses no write */
}

static void of_every_mixture_of_holders_none_lets_all_wait_for_ever(void **state)
{
    unsigned mixtures = 0;

    (void)state;
    for (unsigned bits = 0; bits < 8; bits++)
        for (unsigned hot = 0; hot <= HOT_MAX; hot++)
            for (unsigned fixed = 0; fixed <= FIXED_MAX; fixed++)
                for (unsigned aside = 0; aside <= ASIDE_MAX; aside++)
                    for (unsigned log = 0; log <= LOG_MAX; log++)
                        for (unsigned stuck_at = 0; stuck_at <= (bits & 4 ? HOT_MAX + FIXED_MAX + ASIDE_MAX : 0); stuck_at++, mixtures++)
                            check((struct model){ hot, fixed, aside, log, bits & 1, bits & 2, bits & 4, stuck_at });
    assert_true(mixtures > 20000);
}

static enum memory_state state_of(uint64_t used, uint64_t set_aside, uint64_t leaving, bool can_demote)
{
    struct memory_view view = { LIMIT, used, set_aside, leaving, can_demote };

    return memory_judge(&view);
}

/* With appendonly yes: the log's tail is empty, and what is set aside is all that is over the limit. */
static void with_nothing_left_to_demote_what_is_set_aside_does_not_count(void **state)
{
    (void)state;
    assert_int_equal(state_of(LIMIT - 1, 5, 0, true), MEMORY_COMES);
    assert_int_equal(state_of(LIMIT - 1, 5, 0, false), MEMORY_ENOUGH);
    assert_int_equal(state_of(LIMIT, 5, 3, false), MEMORY_ENOUGH);
}

static void over_the_limit_only_what_leaves_is_waited_for(void **state)
{
    (void)state;
    assert_int_equal(state_of(LIMIT + 2, 0, 0, false), MEMORY_OUT);
    assert_int_equal(state_of(LIMIT + 2, 0, 1, false), MEMORY_OUT);
    assert_int_equal(state_of(LIMIT + 2, 0, 2, false), MEMORY_COMES);
    assert_int_equal(state_of(LIMIT + 2, 0, UINT64_MAX, false), MEMORY_COMES);
    assert_int_equal(state_of(LIMIT + 2, 0, 0, true), MEMORY_COMES);
}

static void without_maxmemory_there_is_enough(void **state)
{
    struct memory_view view = { 0, UINT64_MAX / 2, 5, 0, true };

    (void)state;
    assert_int_equal(memory_judge(&view), MEMORY_ENOUGH);
}

enum { SECOND_US = 1000000, NO_EXCESS = 77 };

/* Each look sets `excess`: here to a third of the limit at most, which is less than NO_EXCESS. */
static bool has_looked(struct engine *engine, int64_t now_us)
{
    engine->memory.excess = NO_EXCESS;
    memory_watch_excess(engine, now_us);
    return engine->memory.excess != NO_EXCESS;
}

static void resident_memory_is_looked_at_when_what_is_used_has_changed(void **state)
{
    struct bytes name = BYTES("maxmemory"), value = BYTES("30");
    struct engine_box *box = mem_zalloc(sizeof(*box));
    struct engine *engine = &box->engine;
    struct message message;
    int64_t now_us = SECOND_US;

    (void)state;
    engine_box_open(box, (const struct command *const[]){ NULL }, 1);
    assert_true(config_set(engine->config, &name, &value, 1, &message));
    assert_true(has_looked(engine, now_us));
    assert_false(has_looked(engine, now_us += SECOND_US / 10));
    engine->memory.stacks += 1 << 20;
    assert_true(has_looked(engine, now_us += SECOND_US / 10));
    assert_false(has_looked(engine, now_us += SECOND_US / 10));
    engine->memory.stacks -= 1 << 20;
    assert_true(has_looked(engine, now_us += SECOND_US / 10));
    assert_false(has_looked(engine, now_us += SECOND_US * 9 / 10));
    assert_true(has_looked(engine, now_us += SECOND_US / 10));
    engine_box_close(box);
    mem_free(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_every_mixture_of_holders_none_lets_all_wait_for_ever),
        cmocka_unit_test(with_nothing_left_to_demote_what_is_set_aside_does_not_count),
        cmocka_unit_test(over_the_limit_only_what_leaves_is_waited_for),
        cmocka_unit_test(without_maxmemory_there_is_enough),
        cmocka_unit_test(resident_memory_is_looked_at_when_what_is_used_has_changed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "support/unit.h"

#include <stdio.h>

#include "base/fiber.h"
#include "resp/reply.h"
#include "support/fake_host.h"

/* Scripts that do not want to end. Each is stopped at several moments: at once, and when it is well under way. */
static const char *const endless[] = {
    "while true do end",
    "local function f() while true do end end while true do pcall(f) end",
    "while true do pcall(function() while true do end end) end",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "xpcall(function() error('x') end, function() while true do end end)",
    "while true do xpcall(function() local x = nil; x() end, function(e) while true do pcall(error) end end) end",
    "while true do redis.pcall('get','x') end",
    "while true do pcall(redis.call,'get','x') end",
    "local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "local function nest(d) while true do local co = coroutine.create(nest) coroutine.resume(co, d+1) end end nest(1)",
    "local function nest(d) while true do pcall(coroutine.wrap(nest), d+1) end end nest(1)",
    "local function nest(d) while true do pcall(nest, d+1) end end nest(1)",
    "local t = setmetatable({}, {__index=function(t,k) while true do end end}) while true do pcall(function() return "
    "t.x end) end",
    "local t = setmetatable({}, {__lt=function() while true do end end}) while true do pcall(function() return t < t "
    "end) end",
    "local t = setmetatable({}, {__eq=function() while true do end end}) local u = setmetatable({}, getmetatable(t)) "
    "while true do pcall(function() return t == u end) end",
    "local t = setmetatable({}, {__tostring=function() while true do end end}) while true do pcall(tostring, t) end",
    "local t = setmetatable({}, {__concat=function() while true do end end}) while true do pcall(function() return "
    "t..'x' end) end",
    "local t = setmetatable({}, {__call=function() while true do end end}) while true do pcall(t) end",
    "while true do pcall(string.gsub, 'aaa', 'a', function() while true do end end) end",
    "while true do ('x'):rep(1000):gsub('x', pcall) end",
    "while true do pcall(table.sort, {3,2,1}, function(a,b) while true do end end) end",
    "while true do pcall(table.foreach, {1,2,3}, function() while true do end end) end",
    "while true do pcall(load, function() while true do end end) end",
    "while true do load(function() return ' ' end) end",
    "local s = ('a'):rep(100) while true do pcall(string.find, s, ('a*'):rep(20)..'b') end",
    "return ('a'):rep(200):find(('a?'):rep(200)..('a'):rep(200))",
    "return ('a'):rep(100000):find('.-.-.-.-b')",
    "return ('('):rep(1000000):find('%b()')",
    "while true do pcall(string.rep, '', 2147483647) end",
    "table.insert({}, -2147483648, 1)",
    "local t = {} for i=1,1000000 do t[i]=-i end while true do table.sort(t) end",
    "local t = {} for i=1,1000000 do t[i]=-i end while true do table.sort(t, rawequal) end",
    "local t = {} for i=1,100000 do t[i]=i end while true do pcall(cjson.encode, t) pcall(cmsgpack.pack, t) end",
    "while true do pcall(cjson.decode, '['..('1,'):rep(10000)..'1]') end",
    "while true do pcall(loadstring('while true do end')) end",
    "local function f() return f() end f()",
    "local function f() return pcall(f) end while true do f() end",
    "while true do pcall(function() error = nil end) end",
    "while true do pcall(error, {}) pcall(error) end",
    "for i = 1, 1/0 do pcall(redis.setresp, 3) redis.sha1hex('x') end",
    "while true do redis.log(1, 'x') end",
    "while true do pcall(redis.log, 1, 'x') pcall(redis.acl_check_cmd, 'get') pcall(redis.set_repl, 3) end",
    "while true do collectgarbage() end",
    "while true do for k in pairs(_G) do end for k in ('x y'):gmatch('%a') do end end",
    "repeat until false",
    "local co co = coroutine.create(function() while true do pcall(coroutine.resume, co) end end) coroutine.resume(co)",
    "local x = setmetatable({}, {__gc=function() while true do end end}) x = nil collectgarbage() while true do end",
    "while true do local ok = xpcall(coroutine.wrap(function() error({}) end), function(e) while true do end end) end",
    "local t = setmetatable({}, {__index=function(t,k) return t[k] end}) while true do pcall(function() return t.x end) end",
    "while true do pcall(next, {}, setmetatable({}, {})) select('#', unpack({}, 1, 7000)) end",
};

static struct interpreter *create(void)
{
    struct interpreter_options options = { .heap_size_max = (size_t)256 << 20, .cached_scripts_max = 100 };

    return interpreter_create(&options);
}

/* All that a script can do after it was stopped is to raise errors: it does not reach its host again. */
static void require_stopped(struct interpreter *interpreter, const char *code, int questions)
{
    struct fake_host fake;
    struct reply reply;
    enum script_result result;

    fake_host_init(&fake);
    fake.questions_max = questions;
    reply_init(&reply, 2);
    result = fake_host_eval(&fake, interpreter, bytes_of_string(code), &reply);
    if (result != SCRIPT_STOPPED || reply.out.size != 0 || fake.question_count > questions)
        fail_msg("%s: result %d after %d of %d questions: %.*s", code, result, fake.question_count, questions, (int)reply.out.size, reply.out.data);
    reply_release(&reply);
    fake_host_release(&fake);
}

static void require_works(struct interpreter *interpreter)
{
    struct fake_host fake;
    struct reply reply;

    fake_host_init(&fake);
    reply_init(&reply, 2);
    assert_int_equal(fake_host_eval(&fake, interpreter,
        BYTES("local n = 0 for i = 1, 100000 do n = n + 1 end return {n, redis.call('get', 'k')}"), &reply), SCRIPT_OK);
    assert_true(bytes_equal(buffer_bytes(&reply.out), BYTES("*2\r\n:100000\r\n$5\r\nvalue\r\n")));
    assert_int_equal(fake.question_count > 10, true);
    reply_release(&reply);
    fake_host_release(&fake);
}

static void a_stopped_script_ends_whatever_it_does(void **state)
{
    static const int questions[] = { 1, 2, 7, 30 };
    struct interpreter *interpreter = create();

    for (size_t i = 0; i < sizeof(endless) / sizeof(endless[0]); i++) {
        for (size_t j = 0; j < sizeof(questions) / sizeof(questions[0]); j++)
            require_stopped(interpreter, endless[i], questions[j]);
    }
    require_works(interpreter);
    interpreter_destroy(interpreter);
}

/* Two runs, each on a fiber of its own, that are suspended in their calls and entered in turn. */

static _Atomic uint64_t stack_memory;

struct party {
    struct fiber_pool *pool;
    struct interpreter *interpreter;
    struct fiber *fiber;
    struct fake_host fake;
    struct reply reply;
    struct script_run run;
    struct script_source source;
    enum script_result result;
    bool suspends;
};

static void suspend_party(struct fake_host *fake)
{
    struct party *party = fake->context;

    if (party->suspends)
        fiber_suspend(party->pool);
}

static void run_party(void *context)
{
    struct party *party = context;

    party->result = interpreter_run(party->interpreter, &party->run, &party->reply);
}

static void party_begin(struct party *party, struct fiber_pool *pool, struct interpreter *interpreter, const char *sha, const char *code,
                        const struct bytes *key, const struct bytes *arg)
{
    *party = (struct party){ .pool = pool, .interpreter = interpreter, .suspends = true };
    fake_host_init(&party->fake);
    party->fake.on_call = suspend_party;
    party->fake.on_question = suspend_party;
    party->fake.context = party;
    reply_init(&party->reply, 2);
    memset(party->source.sha, '0', sizeof(party->source.sha));
    memcpy(party->source.sha, sha, strlen(sha));
    party->source.code = bytes_of_string(code);
    party->run = (struct script_run){ .source = &party->source, .keys = key, .key_count = 1, .args = arg, .arg_count = 1, .host = &party->fake.host };
    party->fiber = fiber_create(pool, run_party, party);
}

static void party_end(struct party *party)
{
    reply_release(&party->reply);
    fake_host_release(&party->fake);
}

static void party_require(const struct party *party, const char *reply)
{
    if (!bytes_equal(buffer_bytes(&party->reply.out), bytes_of_string(reply)))
        fail_msg("expected %s got %.*s", reply, (int)party->reply.out.size, party->reply.out.data);
}

static const struct bytes names[] = { { "a", 1 }, { "b", 1 }, { "c", 1 } };

/* The same script three times, so that it is in use when the others begin; they go on in an order that is not that of a stack. */
static void runs_in_progress_do_not_disturb_each_other(void **state)
{
    static const char code[] =
        "if ARGV[1] == 'b' then redis.setresp(3) math.randomseed(5) end "
        "local first = math.random() "
        "local r = {KEYS[1], ARGV[1]} "
        "for i = 1, 5 do redis.call('echo', KEYS[1]) r[#r+1] = KEYS[1]..ARGV[1]..redis.call('echo', i) end "
        "r[#r+1] = tostring(redis.call('get', 'nokey')) "
        "local co = coroutine.wrap(function() r[#r+1] = redis.call('echo', 'co') coroutine.yield() end) co() co(); "
        "('xy'):gsub('.', function(c) r[#r+1] = redis.call('echo', c) end) "
        "pcall(function() redis.call('nonsense') end) "
        "return table.concat(r, ' ')";
    static const char *const expected[] = {
        "$36\r\na a aa1 aa2 aa3 aa4 aa5 false co x y\r\n",
        "$34\r\nb b bb1 bb2 bb3 bb4 bb5 nil co x y\r\n",
        "$36\r\nc c cc1 cc2 cc3 cc4 cc5 false co x y\r\n",
    };
    struct interpreter *interpreter = create();
    struct fiber_pool pool;
    struct party parties[3];
    bool alive[3] = { true, true, true };

    fiber_pool_init(&pool, &stack_memory);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            party_begin(&parties[i], &pool, interpreter, "1", code, &names[i], &names[i]);
            alive[i] = true;
        }
        for (int step = 0; alive[0] || alive[1] || alive[2]; step++) {
            int next = (step * 7 + round) % 3;

            if (alive[next])
                alive[next] = fiber_enter(&pool, parties[next].fiber);
        }
        for (int i = 0; i < 3; i++) {
            party_require(&parties[i], expected[i]);
            assert_int_equal(parties[i].result, SCRIPT_OK);
            assert_int_equal(parties[i].fake.protocol, i == 1 ? 3 : 2);
            party_end(&parties[i]);
        }
    }
    fiber_pool_release(&pool);
    interpreter_destroy(interpreter);
}

static void party_finish(struct party *party, struct fiber_pool *pool)
{
    while (fiber_enter(pool, party->fiber))
        ;
    party_end(party);
}

/* More runs in progress than are kept for the next: the one that ends last is freed, and its memory is the next one's. */
static void a_run_never_has_the_environment_of_a_freed_one(void **state)
{
    static const char waits[] = "redis.call('ping') return 1";
    static const char code[] = "local name = KEYS[1]..ARGV[1] redis.call('ping') return name..KEYS[1]..ARGV[1]..loadstring('return KEYS[1]')()";
    static const char *const expected[] = { "$5\r\naaaaa\r\n", "$5\r\nbbbbb\r\n", "$5\r\nccccc\r\n" };
    struct interpreter *interpreter = create();
    struct fiber_pool pool;
    struct party others[4], party;

    fiber_pool_init(&pool, &stack_memory);
    for (int round = 0; round < 9; round++) {
        const struct bytes *name = &names[round % 3];

        for (int i = 0; i < 4; i++) {
            party_begin(&others[i], &pool, interpreter, i < 2 ? "1" : "2", waits, name, name);
            assert_true(fiber_enter(&pool, others[i].fiber));
        }
        party_begin(&party, &pool, interpreter, "3", code, name, name);
        assert_true(fiber_enter(&pool, party.fiber));
        for (int i = 0; i < 4; i++)
            party_finish(&others[i], &pool);
        while (fiber_enter(&pool, party.fiber))
            ;
        party_require(&party, expected[round % 3]);
        party_end(&party);
    }
    fiber_pool_release(&pool);
    interpreter_destroy(interpreter);
}

/* Runs that functions have used, with their globals, and then copies of one script: each sees its own. */
static void each_run_has_its_own_environment_after_functions(void **state)
{
    static const char code[] = "redis.call('ping') return KEYS[1]..ARGV[1]..loadstring('return KEYS[1]')()";
    static const char functions[] =
        "redis.register_function('f', function(keys) redis.call('ping') "
        "return keys[1]..tostring(rawget(_G, 'KEYS'))..tostring(loadstring('return rawget(_G, \"KEYS\")')()) end)";
    static const struct script_library library = { { "l", 1 }, 1, { functions, sizeof(functions) - 1 } };
    static const char *const expected[][3] = {
        { "$7\r\nanilnil\r\n", "$7\r\nbnilnil\r\n", "$7\r\ncnilnil\r\n" }, { "$3\r\naaa\r\n", "$3\r\nbbb\r\n", "$3\r\nccc\r\n" },
    };
    struct interpreter *interpreter = create();
    struct fiber_pool pool;
    struct party parties[3];

    fiber_pool_init(&pool, &stack_memory);
    for (int round = 0; round < 4; round++) {
        bool of_function = round % 2 == 0;

        for (int i = 0; i < 3; i++) {
            party_begin(&parties[i], &pool, interpreter, "1", code, &names[i], &names[i]);
            if (of_function) {
                parties[i].run.source = NULL;
                parties[i].run.library = &library;
                parties[i].run.function = BYTES("f");
            }
            assert_true(fiber_enter(&pool, parties[i].fiber));
        }
        for (int i = 0; i < 3; i++) {
            while (fiber_enter(&pool, parties[i].fiber))
                ;
            party_require(&parties[i], expected[!of_function][i]);
            party_end(&parties[i]);
        }
    }
    fiber_pool_release(&pool);
    interpreter_destroy(interpreter);
}

/* CVE-2026-23631: a library is replaced, and all are deleted, while functions of it run. */
static void the_replacement_of_a_library_leaves_its_runs_alone(void **state)
{
    static const char functions[] =
        "local kept = {} redis.register_function('f', function(keys) local t = {} "
        "for i = 1, 20 do kept[#kept + 1] = keys[1] t[i] = redis.call('echo', i) end return #kept..table.concat(t) end)";
    static const char churn[] = "local t = {} for i = 1, 20000 do t[i] = {'AAAAAAA'..i} end collectgarbage() return 1";
    static const char expected[] = "$33\r\n201234567891011121314151617181920\r\n";
    struct script_library libraries[2] = { { BYTES("l"), 1, BYTES(functions) }, { BYTES("l"), 2, BYTES(functions) } };
    struct interpreter *interpreter = create();
    struct fiber_pool pool;
    struct party parties[3];

    fiber_pool_init(&pool, &stack_memory);
    for (int i = 0; i < 2; i++) {
        party_begin(&parties[i], &pool, interpreter, "1", "", &names[i], &names[i]);
        parties[i].run.source = NULL;
        parties[i].run.library = &libraries[i];
        parties[i].run.function = BYTES("f");
        assert_true(fiber_enter(&pool, parties[i].fiber));
    }
    interpreter_unload_all(interpreter);
    party_begin(&parties[2], &pool, interpreter, "2", churn, &names[2], &names[2]);
    while (fiber_enter(&pool, parties[2].fiber))
        ;
    for (int i = 0; i < 2; i++) {
        while (fiber_enter(&pool, parties[i].fiber))
            ;
        party_require(&parties[i], expected);
    }
    for (int i = 0; i < 3; i++)
        party_end(&parties[i]);
    fiber_pool_release(&pool);
    interpreter_destroy(interpreter);
}

/* One is stopped, one runs out of memory, one goes on. */
static void the_end_of_one_run_leaves_the_others_alone(void **state)
{
    static const char patient[] = "local t = {} for i = 1, 200 do t[i] = KEYS[1]..redis.call('echo', i) end return #t..t[200]";
    static const char greedy[] = "local t = {} for i = 1, 1e9 do t[i] = {i, i, i, i, i, i, i, i} if i % 1000 == 0 then redis.call('ping') end end";
    static const char endless_one[] = "while true do pcall(redis.call, 'ping') end";
    struct interpreter *interpreter = create();
    struct fiber_pool pool;
    struct party parties[3];
    bool alive[3] = { true, true, true };

    fiber_pool_init(&pool, &stack_memory);
    party_begin(&parties[0], &pool, interpreter, "1", patient, &names[0], &names[0]);
    party_begin(&parties[1], &pool, interpreter, "2", greedy, &names[1], &names[1]);
    party_begin(&parties[2], &pool, interpreter, "3", endless_one, &names[2], &names[2]);
    parties[2].fake.questions_max = 50;
    for (int step = 0; alive[0] || alive[1] || alive[2]; step++) {
        int next = step % 3;

        if (next == 0 && (alive[1] || alive[2]) && step > 300)
            continue;       /* it waits until the others have ended */
        if (alive[next])
            alive[next] = fiber_enter(&pool, parties[next].fiber);
    }
    assert_int_equal(parties[0].result, SCRIPT_OK);
    party_require(&parties[0], "$7\r\n200a200\r\n");
    assert_int_equal(parties[1].result, SCRIPT_ERROR);
    party_require(&parties[1], "-ERR not enough memory\r\n");
    assert_int_equal(parties[2].result, SCRIPT_STOPPED);
    assert_true(interpreter_memory(interpreter) < (size_t)16 << 20);
    for (int i = 0; i < 3; i++)
        party_end(&parties[i]);
    fiber_pool_release(&pool);
    require_works(interpreter);
    interpreter_destroy(interpreter);
}

static void eval_random(struct interpreter *interpreter, uint64_t *start, int questions_max, char out[64])
{
    static const char code[] = "local r = {} for i = 1, 3 do r[i] = math.random(1000000) redis.call('ping') end return table.concat(r, ' ')";
    struct fake_host fake;
    struct reply reply;
    struct script_source source = { .code = BYTES(code) };
    struct script_run run = { .source = &source, .host = &fake.host, .random_start = start };

    memset(source.sha, '7', sizeof(source.sha));
    fake_host_init(&fake);
    fake.questions_max = questions_max;
    reply_init(&reply, 2);
    assert_int_equal(interpreter_run(interpreter, &run, &reply), questions_max > 0 ? SCRIPT_STOPPED : SCRIPT_OK);
    snprintf(out, 64, "%.*s", (int)reply.out.size, reply.out.data);
    reply_release(&reply);
    fake_host_release(&fake);
}

/* The first numbers are those of a redis-server that has just started. */
static void attempts_draw_the_same_numbers(void **state)
{
    struct interpreter *interpreter = create();
    char first[64], other[64], repeated[64];
    uint64_t start = 0;

    eval_random(interpreter, NULL, 0, first);
    assert_string_equal(first, "$20\r\n396465 840486 353337\r\n");
    eval_random(interpreter, &start, 2, other);         /* stopped */
    eval_random(interpreter, NULL, 0, other);           /* another script meanwhile */
    assert_string_not_equal(first, other);
    eval_random(interpreter, &start, 0, repeated);
    assert_string_equal(other, repeated);               /* both began where the first one ended */
    eval_random(interpreter, NULL, 0, other);
    assert_string_not_equal(other, repeated);
    interpreter_destroy(interpreter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_script_ends_whatever_it_does),
        cmocka_unit_test(runs_in_progress_do_not_disturb_each_other),
        cmocka_unit_test(a_run_never_has_the_environment_of_a_freed_one),
        cmocka_unit_test(each_run_has_its_own_environment_after_functions),
        cmocka_unit_test(the_replacement_of_a_library_leaves_its_runs_alone),
        cmocka_unit_test(the_end_of_one_run_leaves_the_others_alone),
        cmocka_unit_test(attempts_draw_the_same_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

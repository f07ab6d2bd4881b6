#include "support/unit.h"

#include <stdio.h>

#include "resp/reply.h"
#include "support/fake_host.h"

struct box {
    struct interpreter *interpreter;
    struct fake_host fake;
    struct buffer found, error;     /* what was registered; the text of an error */
    struct reply reply;
};

static void box_init(struct box *box)
{
    struct interpreter_options options = { .heap_size_max = (size_t)64 << 20, .cached_scripts_max = 10, .load_ms_max = 100 };

    *box = (struct box){ .interpreter = interpreter_create(&options) };
    fake_host_init(&box->fake);
    reply_init(&box->reply, 2);
}

static void box_release(struct box *box)
{
    interpreter_destroy(box->interpreter);
    fake_host_release(&box->fake);
    buffer_release(&box->found);
    buffer_release(&box->error);
    reply_release(&box->reply);
}

static void note_function(void *context, struct bytes name, struct bytes description, unsigned flags)
{
    struct box *box = context;

    if (description.data == NULL)
        description = BYTES("-");
    buffer_append_format(&box->found, "%.*s(%.*s)%x ", (int)name.size, name.data, (int)description.size, description.data, flags);
}

static bool load(struct box *box, const char *name, uint64_t version, const char *code)
{
    struct script_library library = { bytes_of_string(name), version, bytes_of_string(code) };

    box->found.size = box->error.size = 0;
    return interpreter_load(box->interpreter, &library, &box->fake.host, note_function, box, &box->error);
}

static enum script_result call(struct box *box, const char *name, uint64_t version, const char *code, const char *function)
{
    static const struct bytes keys[] = { { "k", 1 } }, args[] = { { "a", 1 }, { "b", 1 } };
    struct script_library library = { bytes_of_string(name), version, bytes_of_string(code) };
    struct script_run run = { .library = &library, .function = bytes_of_string(function), .keys = keys, .key_count = 1,
                              .args = args, .arg_count = 2, .host = &box->fake.host };

    box->reply.out.size = 0;
    return interpreter_run(box->interpreter, &run, &box->reply);
}

static void require_text(const struct buffer *buffer, const char *expected, const char *code)
{
    if (!bytes_equal(buffer_bytes(buffer), bytes_of_string(expected)))
        fail_msg("%s: %.*s, not %s", code, (int)buffer->size, buffer->data, expected);
}

/* Texts of redis-server. */
static void a_library_that_is_wrong_is_refused_as_in_redis(void **state)
{
#define REGISTERING "ERR Error registering functions: "
    static const struct { const char *code, *error; } cases[] = {
        { "", "ERR No functions registered" },
        { "\nsyntax err", "ERR Error compiling function: user_function:2: '=' expected near 'err'" },
        { "redis.register_function()", REGISTERING "ERR wrong number of arguments to redis.register_function" },
        { "redis.register_function('f')", REGISTERING "ERR calling redis.register_function with a single argument is only applicable "
            "to Lua table (representing named arguments)." },
        { "redis.register_function(1,2,3)", REGISTERING "ERR wrong number of arguments to redis.register_function" },
        { "redis.register_function('f',5)", REGISTERING "ERR second argument to redis.register_function must be a function" },
        { "redis.register_function({},function() end)", REGISTERING "ERR first argument to redis.register_function must be a string" },
        { "redis.register_function('a b',function() end)", REGISTERING "ERR Library names can only contain letters, numbers, or "
            "underscores(_) and must be at least one character long" },
        { "redis.register_function('f\\0g',function() end)", REGISTERING "ERR Library names can only contain letters, numbers, or "
            "underscores(_) and must be at least one character long" },
        { "redis.register_function('',function() end)", REGISTERING "ERR Library names can only contain letters, numbers, or "
            "underscores(_) and must be at least one character long" },
        { "redis.register_function{}", REGISTERING "ERR redis.register_function must get a function name argument" },
        { "redis.register_function{function_name='f'}", REGISTERING "ERR redis.register_function must get a callback argument" },
        { "redis.register_function{function_name='f',callback=5}", REGISTERING "ERR callback argument given to redis.register_function "
            "must be a function" },
        { "redis.register_function{function_name={},callback=function() end}", REGISTERING "ERR function_name argument given to "
            "redis.register_function must be a string" },
        { "redis.register_function{function_name='f',callback=function() end,flags=5}", REGISTERING "ERR flags argument to "
            "redis.register_function must be a table representing function flags" },
        { "redis.register_function{function_name='f',callback=function() end,flags={'x'}}", REGISTERING "ERR unknown flag given" },
        { "redis.register_function{function_name='f',callback=function() end,flags={1}}", REGISTERING "ERR unknown flag given" },
        { "redis.register_function{function_name='f',callback=function() end,description={}}", REGISTERING "ERR description argument "
            "given to redis.register_function must be a string" },
        { "redis.register_function{function_name='f',callback=function() end,foo=1}", REGISTERING "ERR unknown argument given to "
            "redis.register_function" },
        { "redis.register_function{'f',function() end}", REGISTERING "ERR unknown argument given to redis.register_function" },
        { "redis.register_function('f',function() end) redis.register_function('f',function() end)",
            REGISTERING "ERR Function already exists in the library" },
        { "redis.register_function('f',function() end) error('x')", REGISTERING "ERR user_function:1: Script attempted to access "
            "nonexistent global variable 'error'" },
        { "redis.call('ping')", REGISTERING "ERR user_function:1: Script attempted to access nonexistent global variable 'call'" },
        { "x=1", REGISTERING "ERR user_function:1: Attempt to modify a readonly table" },
        { "redis.x=1", REGISTERING "ERR user_function:1: Attempt to modify a readonly table" },
        { "math.random()", REGISTERING "ERR user_function:1: Script attempted to access nonexistent global variable 'math'" },
        { "return KEYS", REGISTERING "ERR user_function:1: Script attempted to access nonexistent global variable 'KEYS'" },
        { "redis.log('x')", REGISTERING "ERR redis.log() requires two arguments or more." },
        { "redis.setresp(3)", REGISTERING "ERR user_function:1: Script attempted to access nonexistent global variable 'setresp'" },
    };
    struct box box;

    box_init(&box);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_false(load(&box, "lib", i + 1, cases[i].code));
        require_text(&box.error, cases[i].error, cases[i].code);
        assert_int_equal(box.found.size, 0);
    }
    box_release(&box);
}

static void functions_are_reported_with_their_flags(void **state)
{
    struct box box;

    box_init(&box);
    assert_true(load(&box, "lib", 1, "redis.register_function('f', function() end) redis.register_function(5, redis.log) "
        "redis.register_function{function_name='g', callback=function() end, description='d d', "
        "flags={'no-writes', 'allow-oom', 'allow-stale', 'no-cluster', 'allow-cross-slot-keys'}} redis.log(redis.LOG_NOTICE, 'a', 'b')"));
    require_text(&box.found, "f(-)0 5(-)0 g(d d)1f ", "load");
    require_text(&box.fake.log, "2:a b\n", "load");
    box_release(&box);
}

static void a_library_that_does_not_end_is_stopped(void **state)
{
    static const char *const endless[] = { "while true do end", "local function f() return f() end f()", "for i = 1, 1/0 do end" };
    struct box box;

    box_init(&box);
    for (size_t i = 0; i < sizeof(endless) / sizeof(endless[0]); i++) {
        assert_false(load(&box, "lib", 1, endless[i]));
        require_text(&box.error, "ERR Error registering functions: ERR FUNCTION LOAD timeout", endless[i]);
    }
    assert_int_equal(box.fake.question_count, 0);
    assert_true(load(&box, "lib", 2, "redis.register_function('f', function() end)"));
    box_release(&box);
}

/* Replies of redis-server. */
static void functions_reply_as_in_redis(void **state)
{
    static const struct { const char *code, *reply; } cases[] = {
        { "return {keys[1], args[1], args[2], #keys, #args}", "*5\r\n$1\r\nk\r\n$1\r\na\r\n$1\r\nb\r\n:1\r\n:2\r\n" },
        { "return foo", "-ERR user_function:2: Script attempted to access nonexistent global variable 'foo' script: f, on @user_function:2.\r\n" },
        { "x=1", "-ERR user_function:2: Attempt to modify a readonly table script: f, on @user_function:2.\r\n" },
        { "_G.x=1", "-ERR user_function:2: Attempt to modify a readonly table script: f, on @user_function:2.\r\n" },
        { "return redis.call('foo')", "-ERR Unknown Redis command called from script script: f, on @user_function:2.\r\n" },
        { "return redis.pcall('foo')", "-ERR Unknown Redis command called from script\r\n" },
        { "return redis.call('ping')", "+PONG\r\n" },
        { "return KEYS", "-ERR user_function:2: Script attempted to access nonexistent global variable 'KEYS' script: f, on @user_function:2.\r\n" },
        { "error({err='E'})", "-E script: f, on @user_function:2.\r\n" },
        { "return tostring(redis == R)", "$5\r\nfalse\r\n" },
        { "return tostring(redis.register_function)", "$3\r\nnil\r\n" },
        { "R.register_function('g', function() end)",
            "-ERR redis.register_function can only be called on FUNCTION LOAD command script: f, on @user_function:2.\r\n" },
        { "return tostring(R.call)", "-ERR user_function:2: Script attempted to access nonexistent global variable 'call' script: f, on @user_function:2.\r\n" },
        { "return redis.breakpoint()", "-ERR user_function:2: attempt to call field 'breakpoint' (a nil value) script: f, on @user_function:2.\r\n" },
        { "return loadstring('return x')()",
            "-ERR [string \"return x\"]:1: Script attempted to access nonexistent global variable 'x' script: f, on return x:1.\r\n" },
        { "return tostring(_G.redis == redis)", "$4\r\ntrue\r\n" },
        { "return {err='x'}", "-x\r\n" },
        { "keys[1] = 2 return keys", "*1\r\n:2\r\n" },
        { "return loadstring('return redis.call(\"echo\", 5)')()", "$1\r\n5\r\n" },
    };
    struct box box;

    box_init(&box);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char code[512];

        snprintf(code, sizeof(code), "local R = redis redis.register_function('f', function(keys, args)\n%s end)", cases[i].code);
        call(&box, "lib", i + 1, code, "f");
        require_text(&box.reply.out, cases[i].reply, cases[i].code);
    }
    box_release(&box);
}

static void a_library_is_loaded_once_for_each_version(void **state)
{
    static const char one[] = "local n = 0 redis.register_function('f', function() n = n + 1 return n end)";
    static const char two[] = "redis.register_function('g', function() return 'two' end)";
    struct box box;

    box_init(&box);
    assert_int_equal(call(&box, "lib", 1, one, "f"), SCRIPT_OK);
    assert_int_equal(call(&box, "lib", 1, one, "f"), SCRIPT_OK);
    require_text(&box.reply.out, ":2\r\n", "state of the library");
    assert_int_equal(call(&box, "lib", 2, two, "f"), SCRIPT_NO_FUNCTION);
    assert_int_equal(box.reply.out.size, 0);
    assert_int_equal(call(&box, "lib", 2, two, "g"), SCRIPT_OK);
    require_text(&box.reply.out, "$3\r\ntwo\r\n", "version 2");
    assert_int_equal(call(&box, "other", 3, one, "f"), SCRIPT_OK);
    require_text(&box.reply.out, ":1\r\n", "another library");
    assert_int_equal(call(&box, "lib", 4, one, "f"), SCRIPT_OK);
    require_text(&box.reply.out, ":1\r\n", "a new version");
    interpreter_unload(box.interpreter, BYTES("lib"));
    call(&box, "lib", 4, one, "f");
    require_text(&box.reply.out, ":1\r\n", "after it was unloaded");
    call(&box, "other", 3, one, "f");
    require_text(&box.reply.out, ":2\r\n", "the other stays");
    interpreter_unload_all(box.interpreter);
    call(&box, "other", 3, one, "f");
    require_text(&box.reply.out, ":1\r\n", "after all were unloaded");
    box_release(&box);
}

static void a_library_that_cannot_be_loaded_is_an_error_of_the_run(void **state)
{
    struct box box;

    box_init(&box);
    assert_int_equal(call(&box, "lib", 1, "x = 1", "f"), SCRIPT_ERROR);
    require_text(&box.reply.out, "-ERR Error registering functions: ERR user_function:1: Attempt to modify a readonly table\r\n", "x = 1");
    box_release(&box);
}

/* Functions of a coroutine that is kept between runs: the run that was stopped in it leaves it usable or dead, not endless. */
static void a_run_that_was_stopped_leaves_the_library_usable(void **state)
{
    static const char code[] =
        "local co = nil redis.register_function('f', function(keys, args) "
        "co = co or coroutine.create(function() while true do coroutine.yield(redis.call('ping')) end end) "
        "local ok, r = coroutine.resume(co) if not ok then co = nil end return tostring(ok) end) "
        "redis.register_function('loop', function() while true do pcall(redis.call, 'ping') end end)";
    struct box box;

    box_init(&box);
    for (int i = 0; i < 10; i++) {
        enum script_result result;

        box.fake.questions_max = 0;
        do
            result = call(&box, "lib", 1, code, "f");
        while (result == SCRIPT_OK && bytes_equal(buffer_bytes(&box.reply.out), BYTES("$5\r\nfalse\r\n")));
        require_text(&box.reply.out, "$4\r\ntrue\r\n", "f");
        box.fake.question_count = 0;
        box.fake.questions_max = 1 + i % 3;
        assert_int_equal(call(&box, "lib", 1, code, i % 2 == 0 ? "loop" : "f"), i % 2 == 1 && i % 3 != 0 ? SCRIPT_OK : SCRIPT_STOPPED);
    }
    box_release(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_is_wrong_is_refused_as_in_redis),
        cmocka_unit_test(functions_are_reported_with_their_flags),
        cmocka_unit_test(a_library_that_does_not_end_is_stopped),
        cmocka_unit_test(functions_reply_as_in_redis),
        cmocka_unit_test(a_library_is_loaded_once_for_each_version),
        cmocka_unit_test(a_library_that_cannot_be_loaded_is_an_error_of_the_run),
        cmocka_unit_test(a_run_that_was_stopped_leaves_the_library_usable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

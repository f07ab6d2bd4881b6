#include "support/unit.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands/command_docs.h"

static const struct key_spec two_keys[] = { KEY_RANGE(1, 0, 1, KEY_RO), KEY_RANGE(2, 0, 1, KEY_OW), { .flags = 0 } };

static void docs_of(struct reply *reply, const char *arguments)
{
    struct command command = { .name = "x", .keys = two_keys, .arguments = arguments };
    struct arena arena;

    arena_init(&arena);
    command_docs_reply(reply, &arena, &command);
    arena_release(&arena);
}

/* The lines of the reply after "arguments", joined by spaces, without the sizes of strings: "*2 name k type key ...". */
static void assert_docs(const char *arguments, const char *expected)
{
    struct reply reply;
    struct buffer text = { 0 };
    char *at, *end;

    reply_init(&reply, 2);
    docs_of(&reply, arguments);
    buffer_append(&reply.out, "", 1);
    at = strstr(reply.out.data, "arguments\r\n");
    assert_non_null(at);
    at += strlen("arguments\r\n");
    for (; (end = strstr(at, "\r\n")) != NULL; at = end + 2) {
        if (*at == '$' && at[1] >= '0' && at[1] <= '9')
            continue;
        if (text.size > 0)
            buffer_append(&text, " ", 1);
        buffer_append(&text, at, (size_t)(end - at));
    }
    buffer_append(&text, "", 1);
    assert_string_equal(text.data, expected);
    buffer_release(&text);
    reply_release(&reply);
}

#define ARGUMENT(size, name, type) "*" #size " name " name " type " type " display_text " name
#define TOKEN(size, name, word) ARGUMENT(size, name, "pure-token") " token " word
#define INT(name) ARGUMENT(6, name, "integer")

static void arguments_are_in_order(void **state)
{
    assert_docs("a:integer b:unix-time", "*2 " INT("a") " " ARGUMENT(6, "b", "unix-time"));
    assert_docs("  a:integer   b:integer ", "*2 " INT("a") " " INT("b"));
    assert_docs("ip:port:string", "*1 " ARGUMENT(6, "ip:port", "string"));
}

static void the_nth_key_belongs_to_the_nth_specification(void **state)
{
    assert_docs("a:key b:key c:key", "*3 " ARGUMENT(8, "a", "key") " key_spec_index :0 " ARGUMENT(8, "b", "key")
        " key_spec_index :1 " ARGUMENT(8, "c", "key") " key_spec_index :1");
}

static void a_word_is_a_token_and_may_precede_an_argument(void **state)
{
    assert_docs("WITH", "*1 " TOKEN(8, "with", "WITH"));
    assert_docs("A B", "*2 " TOKEN(8, "a", "A") " " TOKEN(8, "b", "B"));
    assert_docs("COUNT n:integer", "*1 " ARGUMENT(8, "n", "integer") " token COUNT");
    assert_docs("* $", "*2 " TOKEN(8, "*", "*") " " TOKEN(8, "$", "$"));
    assert_docs("A [n:integer]", "*2 " TOKEN(8, "a", "A") " " ARGUMENT(8, "n", "integer") " flags *1 +optional");
}

static void tokens_and_groups_may_have_names(void **state)
{
    assert_docs("change:CH", "*1 " TOKEN(8, "change", "CH"));
    assert_docs("(equal:=|id:*)", "*1 *6 name equal_id type oneof arguments *2 " TOKEN(8, "equal", "=") " " TOKEN(8, "id", "*"));
    assert_docs("empty:\"\"", "*1 " ARGUMENT(8, "empty", "pure-token") " token ");
    assert_docs("x:[A|B]", "*1 *8 name x type oneof flags *1 +optional arguments *2 " TOKEN(8, "a", "A") " " TOKEN(8, "b", "B"));
    assert_docs("W x:(a:integer b:integer)", "*1 *8 name x type block token W arguments *2 " INT("a") " " INT("b"));
    assert_docs("x:(a:integer)", "*1 *6 name x type block arguments *1 " INT("a"));
    assert_docs("a/shown:integer", "*1 *6 name a type integer display_text shown");
}

static void versions_follow_an_item(void **state)
{
    assert_docs("[A]@6.2.0", "*1 " TOKEN(12, "a", "A") " since 6.2.0 flags *1 +optional");
    assert_docs("W a:integer...@7.0.0", "*1 " ARGUMENT(12, "a", "integer") " token W since 7.0.0 flags *1 +multiple");
    assert_docs("(A@1.2|B)", "*1 *6 name a_b type oneof arguments *2 " TOKEN(10, "a", "A") " since 1.2 " TOKEN(8, "b", "B"));
    assert_docs("a:integer@!2.8.12", "*1 " ARGUMENT(8, "a", "integer") " deprecated_since 2.8.12");
}

static void alternatives_are_one_of(void **state)
{
    assert_docs("(A|B)", "*1 *6 name a_b type oneof arguments *2 " TOKEN(8, "a", "A") " " TOKEN(8, "b", "B"));
    assert_docs("[A|B]", "*1 *8 name a_b type oneof flags *1 +optional arguments *2 " TOKEN(8, "a", "A") " " TOKEN(8, "b", "B"));
    assert_docs("[(A|B)]", "*1 *8 name a_b type oneof flags *1 +optional arguments *2 " TOKEN(8, "a", "A") " " TOKEN(8, "b", "B"));
    assert_docs("TYPE (A|B)", "*1 *8 name a_b type oneof token TYPE arguments *2 " TOKEN(8, "a", "A") " " TOKEN(8, "b", "B"));
}

static void several_together_are_a_block(void **state)
{
    assert_docs("(a:integer b:integer)...",
        "*1 *8 name a_b type block flags *1 +multiple arguments *2 " INT("a") " " INT("b"));
    assert_docs("[LIMIT a:integer b:integer]",
        "*1 *10 name a_b type block token LIMIT flags *1 +optional arguments *2 " INT("a") " " INT("b"));
    assert_docs("(A a:integer b:integer|C)", "*1 *6 name a_b_c type oneof arguments *2 "
        "*8 name a_b type block token A arguments *2 " INT("a") " " INT("b") " " TOKEN(8, "c", "C"));
    assert_docs("(a:integer)", "*1 " INT("a"));
    assert_docs("[(COUNT a:integer) [ANY]]", "*1 *8 name a_any type block flags *1 +optional arguments *2 "
        ARGUMENT(8, "a", "integer") " token COUNT " TOKEN(10, "any", "ANY") " flags *1 +optional");
}

static void repetition_says_whether_the_word_is_repeated(void **state)
{
    assert_docs("a:integer...", "*1 " ARGUMENT(8, "a", "integer") " flags *1 +multiple");
    assert_docs("W a:integer...", "*1 " ARGUMENT(10, "a", "integer") " token W flags *1 +multiple");
    assert_docs("[W a:integer...]", "*1 " ARGUMENT(10, "a", "integer") " token W flags *2 +optional +multiple");
    assert_docs("[W a:integer]...", "*1 " ARGUMENT(10, "a", "integer") " token W flags *3 +optional +multiple +multiple_token");
}

static void a_command_without_arguments_has_no_such_field(void **state)
{
    static const char *const nothing[] = { NULL, "", "  " };

    for (size_t i = 0; i < 3; i++) {
        struct reply reply;

        reply_init(&reply, 3);
        docs_of(&reply, nothing[i]);
        assert_int_equal(reply.out.size, 4);
        assert_memory_equal(reply.out.data, "%0\r\n", 4);
        reply_release(&reply);
    }
}

/* A row that breaks the rules is a bug; the first client that asks for its documentation finds it. */
static void a_row_that_breaks_the_rules_stops_the_process(void **state)
{
    static const char *const bad[] = { "(a:integer", "a:integer)", "[a:integer", "[]", "()", "(A|)", "a:number", "...", "W W2 a:integer" };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]) - 1; i++) {
        pid_t child = fork();
        int status;

        assert_true(child >= 0);
        if (child == 0) {
            struct reply reply;

            fclose(stderr);
            reply_init(&reply, 2);
            docs_of(&reply, bad[i]);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status) && WEXITSTATUS(status) == 0)
            fail_msg("taken for good: %s", bad[i]);
    }
    assert_docs(bad[8], "*2 " TOKEN(8, "w", "W") " " ARGUMENT(8, "a", "integer") " token W2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_in_order),
        cmocka_unit_test(the_nth_key_belongs_to_the_nth_specification),
        cmocka_unit_test(a_word_is_a_token_and_may_precede_an_argument),
        cmocka_unit_test(tokens_and_groups_may_have_names),
        cmocka_unit_test(versions_follow_an_item),
        cmocka_unit_test(alternatives_are_one_of),
        cmocka_unit_test(several_together_are_a_block),
        cmocka_unit_test(repetition_says_whether_the_word_is_repeated),
        cmocka_unit_test(a_command_without_arguments_has_no_such_field),
        cmocka_unit_test(a_row_that_breaks_the_rules_stops_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

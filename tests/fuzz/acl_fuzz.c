/* Hostile rules and files of users: any bytes, or rules made at random and damaged.
 *
 * Rules that are refused change nothing. What is accepted prints as a text that makes the same rules; a check never allows what no rule
 * could allow. A file that is accepted prints as one that makes the same users; one that is refused changes nothing.
 */
#include <string.h>

#include "acl/acl_file.h"
#include "acl/describe.h"
#include "base/check.h"
#include "base/mem.h"
#include "support/acl_box.h"
#include "support/fuzz.h"

enum { TEXT_MAX = 4000, WORDS_MAX = 24 };

static const struct bytes alphabet = BYTES("user default on off ~&%RW+-@()|#!<>* \n\r\t\0\xffgetall|config");

static const char *const pieces[] = {
    "on", "off", "nopass", "resetpass", "reset", "clearselectors", "allkeys", "resetkeys", "allchannels", "resetchannels", "allcommands", "nocommands",
    "+get", "-get", "+config|get", "-config|set", "+config", "-client|kill", "+select|0", "+get|a", "+@all", "-@all", "+@read", "-@write", "+@slow", "-@fast",
    "~*", "~a", "%R~b*", "%W~*", "%RW~c[de]", "&n", "&*", "&m*", ">one", "<one", "#5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",
    "(+set ~z)", "(", ")", "(~a", "+ping)", "sanitize-payload", "skip-sanitize-payload", "~", "&", "+", "-@", "%", "", "~a b", "+nosuch", "foo",
};
enum { PIECE_COUNT = sizeof(pieces) / sizeof(pieces[0]) };

static void append_word(struct fuzz_input *input, struct buffer *out)
{
    buffer_append_string(out, pieces[fuzz_below(input, PIECE_COUNT)]);
}

static void describe_all(struct acl *acl, struct buffer *out)
{
    out->size = 0;
    acl_file_print(out, acl);
}

/* The line of `name` makes the same user again. */
static void check_line(struct acl_box *box, struct bytes name)
{
    struct acl_user *user = acl_find(box->acl, name);
    struct buffer line = { 0 }, again = { 0 }, text = { 0 };
    struct acl_change *change;

    CHECK(user != NULL);
    acl_describe(&line, user);
    buffer_append_string(&text, "user copy reset ");
    buffer_append(&text, line.data + 5 + name.size + 1, line.size - 5 - name.size - 1);
    box->text.size = 0;
    change = acl_change_load(box->acl, "line", buffer_bytes(&text), false, &box->text);
    CHECK(change != NULL);
    acl_change_publish(change);
    acl_change_release(change);
    acl_user_release(user);
    user = acl_find(box->acl, BYTES("copy"));
    acl_describe(&again, user);
    acl_user_release(user);
    CHECK(bytes_equal(bytes_of(line.data + 5 + name.size, line.size - 5 - name.size), bytes_of(again.data + 9, again.size - 9)));
    buffer_release(&line);
    buffer_release(&again);
    buffer_release(&text);
}

/* Verdicts and the argument that they name fit together. */
static void check_verdicts(struct acl_box *box)
{
    static const char *const calls[] = { "get a", "set zz v", "config get x", "mget a b cd", "subscribe n q", "psubscribe m*", "publish n x", "sort a by b" };
    struct acl_user *user = acl_find(box->acl, BYTES("u"));
    const struct acl_rules *rules = acl_user_rules(user);

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct acl_box_call parsed;
        enum acl_verdict verdict;
        int argument;

        acl_box_parse(box, calls[i], &parsed);
        verdict = acl_check(rules, &parsed.request, &argument);
        CHECK(argument >= 0 && argument < parsed.request.arg_count);
        CHECK((argument > 0) == (verdict == ACL_DENIED_KEY || verdict == ACL_DENIED_CHANNEL));
        CHECK(verdict == ACL_ALLOWED || !acl_rules_allow_all(rules));
        CHECK(verdict == ACL_ALLOWED || !acl_rules_read_every_key(rules, &parsed.request));
    }
    acl_user_release(user);
}

static void run_rules(struct fuzz_input *input)
{
    struct acl_box box;
    struct buffer before = { 0 }, after = { 0 };

    acl_box_create(&box);
    for (uint64_t round = 1 + fuzz_below(input, 6); round > 0; round--) {
        struct buffer words[WORDS_MAX] = { { 0 } };
        struct bytes given[WORDS_MAX];
        int count = (int)fuzz_below(input, WORDS_MAX);
        struct acl_change *change;

        for (int i = 0; i < count; i++) {
            append_word(input, &words[i]);
            if (fuzz_below(input, 3) == 0)
                fuzz_damage(input, &words[i], alphabet, 3, TEXT_MAX);
            given[i] = fuzz_exact_copy(buffer_bytes(&words[i]));
        }
        describe_all(box.acl, &before);
        box.text.size = 0;
        change = acl_change_set_user(box.acl, BYTES("u"), given, count, fuzz_below(input, 2), &box.text);
        describe_all(box.acl, &after);
        CHECK(bytes_equal(buffer_bytes(&before), buffer_bytes(&after)));
        CHECK((change == NULL) == (box.text.size > 0));
        if (change != NULL && fuzz_below(input, 8) != 0) {
            acl_change_publish(change);
            check_verdicts(&box);
            check_line(&box, BYTES("u"));           /* replaces u by its copy */
        }
        acl_change_release(change);
        for (int i = 0; i < count; i++) {
            mem_free((void *)given[i].data);
            buffer_release(&words[i]);
        }
    }
    buffer_release(&before);
    buffer_release(&after);
    acl_box_destroy(&box);
}

static void make_file(struct fuzz_input *input, struct buffer *text)
{
    for (uint64_t lines = fuzz_below(input, 8); lines > 0; lines--) {
        buffer_append_format(text, "user %c", (char)('a' + fuzz_below(input, 6)));
        for (uint64_t words = fuzz_below(input, 10); words > 0; words--) {
            buffer_append_u8(text, ' ');
            append_word(input, text);
        }
        buffer_append_u8(text, '\n');
    }
}

static void run_file(struct fuzz_input *input, bool made)
{
    struct acl_box box;
    struct buffer text = { 0 }, before = { 0 }, after = { 0 }, again = { 0 };
    struct acl_change *change;
    struct bytes copy;

    acl_box_create(&box);
    if (made) {
        make_file(input, &text);
        fuzz_damage(input, &text, alphabet, 4, TEXT_MAX);
    } else {
        fuzz_rest(input, &text);
    }
    copy = fuzz_exact_copy(buffer_bytes(&text));
    describe_all(box.acl, &before);
    change = acl_change_load(box.acl, "file", copy, false, &box.text);
    CHECK((change == NULL) == (box.text.size > 0));
    if (change != NULL)
        acl_change_publish(change);
    acl_change_release(change);
    describe_all(box.acl, &after);
    CHECK(box.text.size == 0 || bytes_equal(buffer_bytes(&before), buffer_bytes(&after)));
    box.text.size = 0;
    change = acl_change_load(box.acl, "file", buffer_bytes(&after), false, &box.text);
    CHECK(change != NULL);
    acl_change_publish(change);
    acl_change_release(change);
    describe_all(box.acl, &again);
    CHECK(bytes_equal(buffer_bytes(&after), buffer_bytes(&again)));
    mem_free((void *)copy.data);
    buffer_release(&text);
    buffer_release(&before);
    buffer_release(&after);
    buffer_release(&again);
    acl_box_destroy(&box);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input;

    fuzz_begin(&input, data, size);
    switch (fuzz_below(&input, 4)) {
    case 0: run_file(&input, false); break;
    case 1: run_file(&input, true); break;
    default: run_rules(&input); break;
    }
    return 0;
}

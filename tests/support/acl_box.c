#include "support/acl_box.h"

#include "acl/describe.h"
#include "base/check.h"
#include "base/mem.h"
#include "call/command_keys.h"
#include "server/families.h"

void acl_box_create(struct acl_box *box)
{
    *box = (struct acl_box){ .commands = command_table_create(families_of_commands()) };
    box->acl = acl_create(box->commands);
}

void acl_box_destroy(struct acl_box *box)
{
    acl_destroy(box->acl);
    command_table_destroy(box->commands);
    buffer_release(&box->text);
}

static int split(const char *text, struct bytes *words)
{
    int count = 0;

    while (*text != '\0') {
        size_t size = strcspn(text, " ");

        CHECK(count < ACL_BOX_WORDS);
        words[count++] = bytes_of(text, size);
        text += size + (text[size] == ' ');
    }
    return count;
}

static const char *text_of(struct acl_box *box)
{
    buffer_append_u8(&box->text, 0);
    return box->text.data;
}

const char *acl_box_set(struct acl_box *box, const char *name, const char *words)
{
    struct bytes split_words[ACL_BOX_WORDS];
    struct acl_change *change;

    box->text.size = 0;
    change = acl_change_set_user(box->acl, bytes_of_string(name), split_words, split(words, split_words), false, &box->text);
    if (change == NULL)
        return text_of(box);
    acl_change_publish(change);
    acl_change_release(change);
    return NULL;
}

const char *acl_box_line(struct acl_box *box, const char *name)
{
    struct acl_user *user = acl_find(box->acl, bytes_of_string(name));

    if (user == NULL)
        return NULL;
    box->text.size = 0;
    acl_describe(&box->text, user);
    acl_user_release(user);
    return text_of(box);
}

void acl_box_parse(struct acl_box *box, const char *call, struct acl_box_call *parsed)
{
    int count = split(call, parsed->words), key_count;
    const struct command *command = command_find(box->commands, parsed->words[0]);

    if (command->children != NULL && count > 1)
        command = command_find_child(command, parsed->words[1]);
    CHECK(command != NULL);
    key_count = command_keys(command, parsed->words, count, parsed->keys, ACL_BOX_WORDS);
    parsed->request = (struct acl_request){ command, parsed->words, count, parsed->keys, key_count < 0 ? 0 : key_count };
}

const char *acl_box_check(struct acl_box *box, const char *name, const char *call)
{
    static const char *const verdicts[] = { "ok", "command", "key", "channel" };
    struct acl_user *user = acl_find(box->acl, bytes_of_string(name));
    struct acl_box_call parsed;
    enum acl_verdict verdict;
    int argument;

    CHECK(user != NULL);
    acl_box_parse(box, call, &parsed);
    verdict = acl_check(acl_user_rules(user), &parsed.request, &argument);
    acl_user_release(user);
    box->text.size = 0;
    buffer_append_string(&box->text, verdicts[verdict]);
    if (argument > 0) {
        buffer_append_u8(&box->text, ' ');
        buffer_append_bytes(&box->text, parsed.words[argument]);
    }
    return text_of(box);
}

#include "acl/acl_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl/acl_private.h"
#include "acl/describe.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/random.h"

struct reading {
    struct acl *acl;
    const char *file_name;
    int line;
    bool channels_by_default;
    struct acl_user **users;        /* in the order of their names */
    size_t count;
    struct buffer *error;
    struct buffer words;            /* struct bytes, of one line */
};

bool acl_name_is_valid(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        if (isspace((unsigned char)name.data[i]) || name.data[i] == '\0')
            return false;
    }
    return true;
}

static struct bytes trim_spaces(struct bytes line)
{
    while (line.size > 0 && memchr(" \t\r\n", line.data[line.size - 1], 4) != NULL)
        line.size--;
    while (line.size > 0 && memchr(" \t\r\n", line.data[0], 4) != NULL)
        line = bytes_of(line.data + 1, line.size - 1);
    return line;
}

/* Returns the number of words. */
static int split(struct buffer *words, struct bytes line)
{
    const char *at = line.data, *end = line.data + line.size;

    words->size = 0;
    while (at < end) {
        const char *space = memchr(at, ' ', (size_t)(end - at));
        struct bytes word = bytes_of(at, (size_t)((space != NULL ? space : end) - at));

        if (word.size > 0)
            buffer_append(words, &word, sizeof(word));
        at += word.size + 1;
    }
    return (int)(words->size / sizeof(struct bytes));
}

/* The place of the name among the users that were read, or where it has to be inserted. */
static size_t place_of(const struct reading *reading, struct bytes name, bool *found)
{
    size_t low = 0, high = reading->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (bytes_compare(reading->users[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < reading->count && bytes_equal(reading->users[low]->name, name);
    return low;
}

static void insert(struct reading *reading, size_t place, struct acl_user *user)
{
    reading->users = mem_realloc(reading->users, (reading->count + 1) * sizeof(*reading->users));
    memmove(&reading->users[place + 1], &reading->users[place], (reading->count - place) * sizeof(*reading->users));
    reading->users[place] = user;
    reading->count++;
}

static void complain(struct reading *reading, const char *text)
{
    buffer_append_format(reading->error, "%s:%d%s", reading->file_name, reading->line, text);
}

/* Every unknown command is reported, because such a text has no secrets; of other mistakes in a line the first one, without the word. */
static void apply_words(struct reading *reading, struct acl_rules *rules, const struct bytes *words, int count)
{
    struct buffer joined = { 0 };
    bool reported = false;

    for (int i = 0; i < count;) {
        const char *problem;

        i += rules_join(words + i, count - i, &joined);
        problem = rules_apply_word(rules, buffer_bytes(&joined));
        if (problem != NULL && strcmp(problem, SELECTOR_UNKNOWN) == 0) {
            complain(reading, ": Error in applying operation '");
            buffer_append_bytes(reading->error, buffer_bytes(&joined));
            buffer_append_format(reading->error, "': %s. ", problem);
        } else if (problem != NULL && !reported) {
            complain(reading, ": ");
            buffer_append_format(reading->error, "%s. ", problem);
            reported = true;
        }
    }
    buffer_release(&joined);
}

static bool is_closed(const struct bytes *words, int count)
{
    struct buffer joined = { 0 };
    bool closed = true;

    for (int i = 0; i < count && closed;) {
        int used = rules_join(words + i, count - i, &joined);

        closed = used > 0;
        i += used;
    }
    buffer_release(&joined);
    return closed;
}

/* The rules are applied even if there was a mistake before, so that all mistakes are reported. */
static void read_user(struct reading *reading, struct bytes name, const struct bytes *words, int count)
{
    size_t place;
    bool found;

    place = place_of(reading, name, &found);
    if (!acl_name_is_valid(name)) {
        complain(reading, ": username '");
        buffer_append_bytes(reading->error, name);
        buffer_append_string(reading->error, "' contains invalid characters. ");
    } else if (found) {
        buffer_append_string(reading->error, "WARNING: Duplicate user '");
        buffer_append_bytes(reading->error, name);
        buffer_append_format(reading->error, "' found on line %d. ", reading->line);
    } else if (!is_closed(words, count)) {
        complain(reading, ": Unmatched parenthesis in selector definition.");
    } else {
        struct acl_rules *rules = rules_create(reading->acl->commands, reading->channels_by_default);

        apply_words(reading, rules, words, count);
        rules_finish(rules);
        insert(reading, place, user_create(name, rules));
    }
}

static void read_line(struct reading *reading, struct bytes line)
{
    int count = split(&reading->words, trim_spaces(line));
    const struct bytes *words = (const struct bytes *)(const void *)reading->words.data;

    if (count == 0)
        return;
    if (count < 2 || !bytes_equal(words[0], BYTES("user")))
        complain(reading, " should start with user keyword followed by the username. ");
    else
        read_user(reading, words[1], words + 2, count - 2);
}

static void read_lines(struct reading *reading, struct bytes text)
{
    while (text.size > 0) {
        const char *end = memchr(text.data, '\n', text.size);
        size_t size = end != NULL ? (size_t)(end - text.data) : text.size;

        reading->line++;
        read_line(reading, bytes_of(text.data, size));
        if (end != NULL)
            size++;
        text = bytes_of(text.data + size, text.size - size);
    }
}

static void add_default(struct reading *reading)
{
    size_t place;
    bool found;

    place = place_of(reading, BYTES("default"), &found);
    if (!found)
        insert(reading, place, user_create(BYTES("default"), rules_create_unlimited(reading->acl->commands)));
}

bool acl_file_read(struct acl *acl, const char *file_name, struct bytes text, bool channels_by_default, struct acl_user ***users,
    size_t *count, struct buffer *error)
{
    struct reading reading = { .acl = acl, .file_name = file_name, .channels_by_default = channels_by_default, .error = error };
    size_t before = error->size;

    read_lines(&reading, text);
    add_default(&reading);
    buffer_release(&reading.words);
    if (error->size == before) {
        *users = reading.users;
        *count = reading.count;
        return true;
    }
    buffer_append_string(error, "WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
    for (size_t i = 0; i < reading.count; i++)
        acl_user_release(reading.users[i]);
    mem_free(reading.users);
    return false;
}

void acl_file_print(struct buffer *out, struct acl *acl)
{
    size_t count;
    struct acl_user **users = acl_users(acl, &count);

    for (size_t i = 0; i < count; i++) {
        acl_describe(out, users[i]);
        buffer_append_u8(out, '\n');
        acl_user_release(users[i]);
    }
    mem_free(users);
}

int acl_file_write(const char *path, struct bytes text)
{
    struct buffer aside = { 0 };
    struct stat old;
    struct file_replacement place = { .dir = AT_FDCWD, .path = path, .mode = stat(path, &old) == 0 ? old.st_mode & 07777 : 0 };
    enum status status;
    uint32_t unique;        /* several clients may save at once */
    bool renamed;
    int error;

    random_system(&unique, sizeof(unique));
    buffer_append_format(&aside, "%s.temp-%d-%u", path, (int)getpid(), unique);
    buffer_append_u8(&aside, 0);
    place.aside = aside.data;
    status = file_replace(disk_system(), &place, text, &renamed);
    error = errno;
    buffer_release(&aside);
    return status == STATUS_OK ? 0 : error != 0 ? error : EIO;
}

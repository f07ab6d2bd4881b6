#include "support/unit.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/message.h"
#include "config/config.h"
#include "config/config_private.h"
#include "config/config_words.h"

struct fixture {
    struct config *config;
    char dir[64];
    char path[128];         /* dir/kelvin.conf */
    struct message message;
};

static int setup(void **state)
{
    struct fixture *fixture = mem_zalloc(sizeof(*fixture));
    const char *base = getenv("TMPDIR");
    char here[] = "/tmp/kelvin-config-XXXXXX";
    char *real;

    snprintf(fixture->dir, sizeof(fixture->dir), "%s", here);
    if (base && strlen(base) < 30)
        snprintf(fixture->dir, sizeof(fixture->dir), "%s/kelvin-config-XXXXXX", base);
    if (!mkdtemp(fixture->dir))
        return -1;
    real = realpath(fixture->dir, NULL);
    snprintf(fixture->dir, sizeof(fixture->dir), "%s", real);
    free(real);
    snprintf(fixture->path, sizeof(fixture->path), "%s/kelvin.conf", fixture->dir);
    fixture->config = config_create_at(fixture->dir);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    char command[128];

    config_destroy(fixture->config);
    snprintf(command, sizeof(command), "rm -r '%s'", fixture->dir);
    if (system(command) != 0)
        return -1;
    mem_free(fixture);
    return 0;
}

/* -- helpers -- */

static void write_file(struct fixture *fixture, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", fixture->dir, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void assert_file(struct fixture *fixture, const char *expected)
{
    struct buffer text;

    assert_true(config_file_read(fixture->path, &text));
    buffer_append_u8(&text, 0);
    assert_string_equal(text.data, expected);
    buffer_release(&text);
}

static bool load(struct fixture *fixture, const char *text)
{
    return config_load_text(fixture->config, "test.conf", bytes_of_string(text), &fixture->message);
}

static void assert_load(struct fixture *fixture, const char *text)
{
    if (!load(fixture, text))
        fail_msg("%s", fixture->message.text);
}

static void assert_refused(struct fixture *fixture, const char *text, const char *message)
{
    assert_false(load(fixture, text));
    assert_string_equal(fixture->message.text, message);
}

static void assert_text(struct fixture *fixture, enum config_id id, const char *expected)
{
    char *text = config_string(fixture->config, id);

    assert_string_equal(text, expected);
    mem_free(text);
}

static void set(struct fixture *fixture, const char *name, const char *value)
{
    struct bytes names = bytes_of_string(name), values = bytes_of_string(value);

    if (!config_set(fixture->config, &names, &values, 1, &fixture->message))
        fail_msg("%s", fixture->message.text);
}

/* Loads a file with this text, as the server does at startup. */
static void start_with(struct fixture *fixture, const char *text)
{
    write_file(fixture, "kelvin.conf", text);
    if (!config_load_file(fixture->config, "kelvin.conf", &fixture->message))
        fail_msg("%s", fixture->message.text);
}

static void rewrite(struct fixture *fixture)
{
    struct config *restarted = config_create_at(fixture->dir);

    if (!config_rewrite(fixture->config, &fixture->message))
        fail_msg("%s", fixture->message.text);
    /* In every test: a restart with the new file sets the same values. */
    if (!config_load_file(restarted, fixture->path, &fixture->message))
        fail_msg("%s", fixture->message.text);
    for (int id = 0; id < CONFIG_COUNT; id++)
        if (!config_value_equal(&fixture->config->more->values[id], &restarted->more->values[id]))
            fail_msg("%s comes back as %lld %s", config_name(id), (long long)restarted->more->values[id].number,
                restarted->more->values[id].text);
    config_destroy(restarted);
}

/* -- lines and words -- */

static void words_are_split_as_in_a_shell(void **state)
{
    assert_load(*state, "# comment\n\n  \t timeout   7  \r\n"
                        "requirepass \"a b\\x41\\n\\\"\\q\"\nlogfile 'it\\'s \\x'\nPORT 1");
    assert_text(*state, CONFIG_TIMEOUT, "7");
    assert_text(*state, CONFIG_REQUIREPASS, "a bA\n\"q");
    assert_text(*state, CONFIG_LOGFILE, "it's \\x");
    assert_text(*state, CONFIG_PORT, "1");
}

static void every_word_survives_quoting(void **state)
{
    char all[255];
    struct buffer line = { 0 };
    struct config_words words;

    for (int i = 0; i < 255; i++)
        all[i] = (char)(i + 1);
    for (size_t from = 0; from < 255; from += 5) {
        line.size = 0;
        config_words_quote(&line, bytes_of(all + from, from % 3 ? 5 : 255 - from));
        buffer_append_string(&line, " ");
        config_words_quote(&line, BYTES(""));
        assert_true(config_words_split(buffer_bytes(&line), &words));
        assert_int_equal(words.count, 2);
        assert_int_equal(words.items[0].size, from % 3 ? 5 : 255 - from);
        assert_memory_equal(words.items[0].data, all + from, words.items[0].size);
        config_words_release(&words);
    }
    buffer_release(&line);
}

static void hostile_lines_are_split_or_refused(void **state)
{
    static const char letters[] = "a\"'\\x0 \t#\0\xff";
    uint64_t x = 88172645463325252u;

    for (int round = 0; round < 100000; round++) {
        char *line = mem_alloc(12);     /* on the heap, so that a sanitizer detects a read past the end */
        size_t size = round % 13;
        struct config_words words;

        for (size_t i = 0; i < size; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            line[i] = letters[x % (sizeof(letters) - 1)];
        }
        if (config_words_split(bytes_of(line, size), &words)) {
            for (int i = 0; i < words.count; i++)
                assert_true(words.items[i].size <= size);
            config_words_release(&words);
        }
        mem_free(line);
    }
}

static void replicaof_may_be_one_word(void **state)
{
    struct fixture *fixture = *state;
    struct bytes words[] = { BYTES("replicaof"), BYTES("example 6380") };

    assert_true(config_load(fixture->config, words, 2, &fixture->message));
    assert_text(fixture, CONFIG_REPLICAOF, "example 6380");
}

static void an_option_of_the_command_line_has_no_file(void **state)
{
    struct fixture *fixture = *state;

    assert_false(config_load_text(fixture->config, NULL, BYTES("tier-dri \"x\""), &fixture->message));
    assert_string_equal(fixture->message.text, "command line: 'tier-dri \"x\"': Bad directive or wrong number of arguments. Did you mean 'tier-dir'?");
}

static void errors_name_file_line_text_and_reason(void **state)
{
    assert_refused(*state, "\n# c\nmaxmemory zz\n", "test.conf, line 3: 'maxmemory zz': argument must be a memory value");
    assert_refused(*state, "port", "test.conf, line 1: 'port': wrong number of arguments");
    assert_refused(*state, "port 1 2", "test.conf, line 1: 'port 1 2': wrong number of arguments");
    assert_refused(*state, "nosuch 1", "test.conf, line 1: 'nosuch 1': Bad directive or wrong number of arguments");
    assert_refused(*state, "x 1", "test.conf, line 1: 'x 1': Bad directive or wrong number of arguments");
    assert_refused(*state, "prot 1", "test.conf, line 1: 'prot 1': Bad directive or wrong number of arguments. Did you mean 'port'?");
    assert_refused(*state, "maxmemroy 1",
        "test.conf, line 1: 'maxmemroy 1': Bad directive or wrong number of arguments. Did you mean 'maxmemory'?");
    assert_refused(*state, "SlaveOff a 1",
        "test.conf, line 1: 'SlaveOff a 1': Bad directive or wrong number of arguments. Did you mean 'slaveof'?");
    assert_refused(*state, "replicaof 'a 1 2'", "test.conf, line 1: 'replicaof 'a 1 2'': wrong number of arguments");
    assert_refused(*state, "port \"1", "test.conf, line 1: 'port \"1': Unbalanced quotes in configuration line");
    assert_refused(*state, "port \"1\"2", "test.conf, line 1: 'port \"1\"2': Unbalanced quotes in configuration line");
    assert_refused(*state, "save 1 1 2", "test.conf, line 1: 'save 1 1 2': Invalid save parameters");
    assert_refused(*state, "rename-command a b c",
        "test.conf, line 1: 'rename-command a b c': Bad directive or wrong number of arguments");
    assert_refused(*state, "user", "test.conf, line 1: 'user': Bad directive or wrong number of arguments");
    assert_refused(*state, "list-max-ziplist-value 5 5",
        "test.conf, line 1: 'list-max-ziplist-value 5 5': Bad directive or wrong number of arguments");
    assert_refused(*state, "appendfilename a/b",
        "test.conf, line 1: 'appendfilename a/b': appendfilename can't be a path, just a filename");
    assert_refused(*state, "appenddirname a/b",
        "test.conf, line 1: 'appenddirname a/b': appenddirname can't be a path, just a dirname");
    assert_refused(*state, "appenddirname ''", "test.conf, line 1: 'appenddirname ''': appenddirname can't be empty");
    assert_refused(*state, "tier-dir ''", "test.conf, line 1: 'tier-dir ''': tier-dir can't be empty");
    assert_refused(*state, "replicaof a", "test.conf, line 1: 'replicaof a': wrong number of arguments");
    assert_refused(*state, "slaveof a 99999", "test.conf, line 1: 'slaveof a 99999': Invalid master port");
    assert_refused(*state, "unixsocketperm 999",
        "test.conf, line 1: 'unixsocketperm 999': argument couldn't be parsed as an octal number");
    assert_refused(*state, "unixsocketperm 70000",
        "test.conf, line 1: 'unixsocketperm 70000': argument must be between 0 and 777 inclusive");
    assert_refused(*state, "dir /no/such", "test.conf, line 1: 'dir /no/such': No such file or directory");
    assert_refused(*state, "io-threads 129",
        "test.conf, line 1: 'io-threads 129': argument must be between 1 and 128 inclusive");
    assert_refused(*state, "notify-keyspace-events K E",
        "test.conf, line 1: 'notify-keyspace-events K E': wrong number of arguments");
}

static void the_reason_is_never_truncated(void **state)
{
    struct fixture *fixture = *state;
    static const char reason[] = "volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction";
    char name[400], text[400];

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    snprintf(text, sizeof(text), "maxmemory-policy %300s", "x");
    assert_false(config_load_text(fixture->config, name, bytes_of_string(text), &fixture->message));
    assert_true(strlen(fixture->message.text) > sizeof(reason));
    assert_string_equal(fixture->message.text + strlen(fixture->message.text) - strlen(reason), reason);
    assert_non_null(strstr(fixture->message.text, "line 1"));
}

static void a_bad_line_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct bytes words[] = { BYTES("save"), BYTES("5"), BYTES("6"), BYTES("x"), BYTES("1") };

    assert_load(fixture, "save 3 4");
    assert_false(config_load(fixture->config, words, 5, &fixture->message));
    assert_text(fixture, CONFIG_SAVE, "3 4");
    assert_false(config_load(fixture->config, words, 0, &fixture->message));
}

static void repeated_lines_accumulate_where_they_do_in_redis(void **state)
{
    assert_load(*state, "save 1 1\nsave 2 2 3 3\n"
                        "client-output-buffer-limit normal 1 2 3\nclient-output-buffer-limit pubsub 4mb 5 6\n"
                        "bind 127.0.0.1\nbind 127.0.0.2 127.0.0.3\n"
                        "latency-tracking-info-percentiles 50 60\noom-score-adj-values 1 2 3\n"
                        "shutdown-on-sigint now force\n");
    assert_text(*state, CONFIG_SAVE, "1 1 2 2 3 3");
    assert_text(*state, CONFIG_CLIENT_OUTPUT_BUFFER_LIMIT, "normal 1 2 3 slave 268435456 67108864 60 pubsub 4194304 5 6");
    assert_text(*state, CONFIG_BIND, "127.0.0.2 127.0.0.3");
    assert_text(*state, CONFIG_LATENCY_TRACKING_INFO_PERCENTILES, "50 60");
    assert_text(*state, CONFIG_SHUTDOWN_ON_SIGINT, "now force");
    assert_load(*state, "save ''\n");
    assert_text(*state, CONFIG_SAVE, "");
    assert_load(*state, "save '9 9'\n");
    assert_text(*state, CONFIG_SAVE, "9 9");
}

static void count_line(void *context, const struct bytes *words, int count)
{
    struct buffer *out = context;

    for (int i = 0; i < count; i++)
        buffer_append_format(out, "[%.*s]", (int)words[i].size, words[i].data);
    buffer_append_u8(out, ';');
}

static void lines_are_stored_with_their_words(void **state)
{
    struct fixture *fixture = *state;
    struct buffer out = { 0 };

    assert_load(fixture, "rename-command FLUSHALL \"\"\nrename-command get 'a b'\nuser bob on >x\\n ~*\n");
    config_lines(fixture->config, CONFIG_RENAME_COMMAND, count_line, &out);
    config_lines(fixture->config, CONFIG_USER, count_line, &out);
    config_lines(fixture->config, CONFIG_LOADMODULE, count_line, &out);
    buffer_append_u8(&out, 0);
    assert_string_equal(out.data, "[FLUSHALL][];[get][a b];[bob][on][>x\\n][~*];");
    buffer_release(&out);
}

static void replicaof_is_shown_as_host_and_port(void **state)
{
    assert_load(*state, "slaveof 10.0.0.1 6380\n");
    assert_text(*state, CONFIG_REPLICAOF, "10.0.0.1 6380");
    assert_load(*state, "replicaof NO ONE\n");
    assert_text(*state, CONFIG_REPLICAOF, "");
}

static void dir_is_relative_to_the_directory_at_startup(void **state)
{
    struct fixture *fixture = *state;
    char expected[128];

    snprintf(expected, sizeof(expected), "%s/data", fixture->dir);
    assert_int_equal(mkdir(expected, 0755), 0);
    assert_load(fixture, "dir ./data\n");
    assert_text(fixture, CONFIG_DIR, expected);
}

/* -- includes -- */

static void includes_are_read_at_their_position(void **state)
{
    write_file(*state, "a.conf", "timeout 1\nport 1\n");
    write_file(*state, "b1.inc", "hz 20\n");
    write_file(*state, "b2.inc", "hz 30\nmaxclients 5\n");
    start_with(*state, "timeout 2\ninclude a.conf\nport 2\ninclude b*.inc\ninclude none*.inc\n");
    assert_text(*state, CONFIG_TIMEOUT, "1");
    assert_text(*state, CONFIG_PORT, "2");
    assert_text(*state, CONFIG_HZ, "30");
    assert_text(*state, CONFIG_MAXCLIENTS, "5");
}

static void an_error_in_an_include_names_the_include(void **state)
{
    struct fixture *fixture = *state;
    char expected[MESSAGE_SIZE];

    write_file(fixture, "a.conf", "\nport x\n");
    assert_false(load(fixture, "\n\ninclude a.conf\n"));
    snprintf(expected, sizeof(expected), "%s/a.conf, line 2: 'port x': argument couldn't be parsed into an integer",
        fixture->dir);
    assert_string_equal(fixture->message.text, expected);
}

static void a_missing_include_is_an_error(void **state)
{
    struct fixture *fixture = *state;

    assert_false(load(fixture, "include nosuch.conf\n"));
    assert_non_null(strstr(fixture->message.text, "test.conf, line 1"));
    assert_non_null(strstr(fixture->message.text, "No such file or directory"));
    assert_false(config_load_file(fixture->config, "nosuch.conf", &fixture->message));
    assert_non_null(strstr(fixture->message.text, "can't open config file"));
    assert_refused(fixture, "include a b", "test.conf, line 1: 'include a b': Bad directive or wrong number of arguments");
}

static void a_file_that_includes_itself_is_an_error(void **state)
{
    struct fixture *fixture = *state;

    write_file(fixture, "kelvin.conf", "include kelvin.conf\n");
    assert_false(config_load_file(fixture->config, "kelvin.conf", &fixture->message));
    assert_non_null(strstr(fixture->message.text, "too many files include each other"));
}

/* -- unused -- */

static void list_unused(void *context, const char *name, struct bytes value)
{
    buffer_append_format(context, "%s=%.*s;", name, (int)value.size, value.size ? value.data : "");
}

static void directives_without_effect_are_listed(void **state)
{
    struct fixture *fixture = *state;
    struct buffer out = { 0 };

    assert_load(fixture, "activedefrag yes\nappendonly yes\nactiverehashing yes\nrdb-del-sync-files yes\nlist-max-ziplist-entries 5\n");
    config_unused(fixture->config, list_unused, &out);
    buffer_append_u8(&out, 0);
    assert_string_equal(out.data, "rdb-del-sync-files=yes;activedefrag=yes;list-max-ziplist-entries=;");
    buffer_release(&out);
}

/* -- CONFIG REWRITE -- */

static void rewrite_requires_a_file(void **state)
{
    struct fixture *fixture = *state;

    assert_null(config_file(fixture->config));
    assert_false(config_rewrite(fixture->config, &fixture->message));
    assert_string_equal(fixture->message.text, "The server is running without a config file");
}

static void a_file_with_the_running_values_is_not_changed(void **state)
{
    struct fixture *fixture = *state;
    static const char text[] = "# mine\n\n  port   6379 \nsave 1 1\n\tsave 2 2\nmaxmemory 1024mb\nuser bob on\n# end";

    start_with(fixture, text);
    assert_string_equal(config_file(fixture->config), fixture->path);
    rewrite(fixture);
    assert_file(fixture, text);
}

static void changed_lines_are_replaced_and_new_ones_appended(void **state)
{
    start_with(*state, "# head\nport 7000\n# middle\nslave-priority 5\nsave 1 1\nhz 20\nsave 2 2\n# tail");
    set(*state, "replica-priority", "6");
    set(*state, "save", "3 3 4 4");
    set(*state, "maxmemory", "3mb");
    set(*state, "requirepass", "a \"b\"");
    rewrite(*state);
    assert_file(*state, "# head\nport 7000\n# middle\nreplica-priority 6\nsave 3 3\nsave 4 4\nhz 20\n# tail\n"
                        "\n# Generated by CONFIG REWRITE\nrequirepass \"a \\\"b\\\"\"\nmaxmemory 3mb\n");
    set(*state, "timeout", "9");
    rewrite(*state);
    assert_file(*state, "# head\nport 7000\n# middle\nreplica-priority 6\nsave 3 3\nsave 4 4\nhz 20\n# tail\n"
                        "\n# Generated by CONFIG REWRITE\nrequirepass \"a \\\"b\\\"\"\nmaxmemory 3mb\ntimeout 9\n");
}

static void lines_whose_value_is_the_default_again_are_removed(void **state)
{
    start_with(*state, "timeout 5\n# between\nsave 1 1\nclient-output-buffer-limit normal 1 1 1\nhz 10\n");
    set(*state, "timeout", "0");
    set(*state, "save", "3600 1 300 100 60 10000");
    set(*state, "client-output-buffer-limit", "normal 0 0 0");
    rewrite(*state);
    assert_file(*state, "# between\nhz 10\n");
}

static void every_kind_of_value_survives_a_rewrite(void **state)
{
    start_with(*state, "# empty\n");
    set(*state, "save", "");
    set(*state, "bind", "");
    set(*state, "latency-tracking-info-percentiles", "");
    set(*state, "notify-keyspace-events", "AKEn");
    set(*state, "client-output-buffer-limit", "replica 1gb 5 6");
    set(*state, "oom-score-adj-values", "1 2 3");
    set(*state, "shutdown-on-sigint", "now force");
    set(*state, "maxmemory-clients", "5%");
    set(*state, "proc-title-template", "{title} #\"x\"");
    set(*state, "list-max-listpack-size", "-3");
    set(*state, "loglevel", "debug");
    set(*state, "tier-max-size", "1500");
    set(*state, "masterauth", "\x01\xff\n\\");
    rewrite(*state);
    assert_int_equal(config_number(((struct fixture *)*state)->config, CONFIG_NOTIFY_KEYSPACE_EVENTS), 0x1fff);
}

static void options_that_are_not_in_the_file_are_added_to_it(void **state)
{
    struct fixture *fixture = *state;
    struct bytes option[] = { BYTES("port"), BYTES("7001") };

    start_with(fixture, "port 7000\n");
    assert_true(config_load(fixture->config, option, 2, &fixture->message));
    rewrite(fixture);
    assert_file(fixture, "port 7001\n");
}

static void an_include_does_not_undo_a_rewrite(void **state)
{
    write_file(*state, "late.conf", "timeout 5\nsave 8 8\nhz 20\n");
    start_with(*state, "timeout 4\ninclude late.conf\n");
    set(*state, "timeout", "0");
    set(*state, "save", "9 9");
    rewrite(*state);
    assert_file(*state, "include late.conf\n\n# Generated by CONFIG REWRITE\nsave 9 9\ntimeout 0\nsave \"\"\nsave 9 9\n");
}

static void a_removed_file_is_written_again(void **state)
{
    struct fixture *fixture = *state;

    start_with(fixture, "timeout 4\n");
    assert_int_equal(unlink(fixture->path), 0);
    rewrite(fixture);
    assert_file(fixture, "\n# Generated by CONFIG REWRITE\ntimeout 4\n");
}

static void a_file_that_no_longer_loads_is_not_changed(void **state)
{
    struct fixture *fixture = *state;

    start_with(fixture, "timeout 4\n");
    write_file(fixture, "kelvin.conf", "timeout x\n");
    assert_false(config_rewrite(fixture->config, &fixture->message));
    assert_non_null(strstr(fixture->message.text, "line 1: 'timeout x'"));
    assert_file(fixture, "timeout x\n");
}

static void permissions_are_kept_and_no_temporary_file_remains(void **state)
{
    struct fixture *fixture = *state;
    struct stat after;
    char command[128];

    start_with(fixture, "timeout 4\n");
    assert_int_equal(chmod(fixture->path, 0640), 0);
    set(fixture, "timeout", "5");
    rewrite(fixture);
    assert_int_equal(stat(fixture->path, &after), 0);
    assert_int_equal(after.st_mode & 07777, 0640);
    snprintf(command, sizeof(command), "test \"$(ls %s)\" = kelvin.conf", fixture->dir);
    assert_int_equal(system(command), 0);
}

static void a_rewrite_that_fails_does_not_change_the_file(void **state)
{
    struct fixture *fixture = *state;
    char moved[256];

    start_with(fixture, "timeout 4\n");
    set(fixture, "timeout", "5");
    snprintf(moved, sizeof(moved), "%s.moved", fixture->dir);
    assert_int_equal(rename(fixture->dir, moved), 0);       /* so that the new file can't be written */
    assert_false(config_rewrite(fixture->config, &fixture->message));
    assert_string_equal(fixture->message.text, "Rewriting config file: No such file or directory");
    assert_int_equal(rename(moved, fixture->dir), 0);
    assert_file(fixture, "timeout 4\n");
}

/* A child process without root's rights, which reads and writes everything; returns its exit status. */
static int run_as_other(struct fixture *fixture, int (*run)(struct fixture *fixture))
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        if (getuid() == 0 && (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0))
            _exit(99);
        _exit(run(fixture));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
}

static int rewrite_timeout(struct fixture *fixture)
{
    if (config_rewrite(fixture->config, &fixture->message))
        return 0;
    return strstr(fixture->message.text, "Permission denied: the server may write neither '") != NULL &&
        strstr(fixture->message.text, "kelvin.conf' nor its directory") != NULL ? 1 : 2;
}

static void a_file_in_a_directory_that_can_not_be_written_is_written_in_place(void **state)
{
    struct fixture *fixture = *state;
    struct stat before, after;

    start_with(fixture, "timeout 4\n# a comment, so that the new text is shorter\nhz 20\n");
    set(fixture, "hz", "10");
    set(fixture, "timeout", "5");
    assert_int_equal(chmod(fixture->path, 0646), 0);
    assert_int_equal(chmod(fixture->dir, 0555), 0);
    assert_int_equal(stat(fixture->path, &before), 0);
    assert_int_equal(run_as_other(fixture, rewrite_timeout), 0);
    assert_int_equal(stat(fixture->path, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(after.st_mode & 07777, 0646);
    assert_int_equal(chmod(fixture->dir, 0755), 0);
    assert_file(fixture, "timeout 5\n# a comment, so that the new text is shorter\n");
}

static void a_file_that_can_not_be_written_is_named(void **state)
{
    struct fixture *fixture = *state;

    start_with(fixture, "timeout 4\n");
    set(fixture, "timeout", "5");
    assert_int_equal(chmod(fixture->path, 0444), 0);
    assert_int_equal(chmod(fixture->dir, 0555), 0);
    assert_int_equal(run_as_other(fixture, rewrite_timeout), 1);
    assert_int_equal(chmod(fixture->dir, 0755), 0);
    assert_file(fixture, "timeout 4\n");
}

static void a_symbolic_link_stays_and_its_file_is_rewritten(void **state)
{
    struct fixture *fixture = *state;
    struct stat info;
    char link[160];

    write_file(fixture, "kelvin.conf", "timeout 4\n");
    snprintf(link, sizeof(link), "%s/link.conf", fixture->dir);
    assert_int_equal(symlink("kelvin.conf", link), 0);
    assert_true(config_load_file(fixture->config, link, &fixture->message));
    set(fixture, "timeout", "5");
    rewrite(fixture);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_file(fixture, "timeout 5\n");
}

/* -- conf/kelvin.conf -- */

struct seen {
    int lines[CONFIG_COUNT];
    bool commented[CONFIG_COUNT];
};

/* A directive, with or without a # directly before it; a comment has a space after the #. */
static void read_line(struct fixture *fixture, struct seen *seen, struct bytes line, int number)
{
    bool commented = line.data[0] == '#';
    struct config_words words;
    const struct config_row *row;
    const char *spelling;

    line = commented ? bytes_of(line.data + 1, line.size - 1) : line;
    assert_true(config_words_split(line, &words));
    row = words.count > 0 ? config_row_find(words.items[0], &spelling) : NULL;
    if (!row || spelling != row->name)
        fail_msg("line %d names no row: %.*s", number, (int)line.size, line.data);
    if (row->kind != CONFIG_INCLUDE_KIND && !config_load(fixture->config, words.items, words.count, &fixture->message))
        fail_msg("line %d: %s", number, fixture->message.text);
    seen->lines[row->id]++;
    seen->commented[row->id] = commented;
    config_words_release(&words);
}

static void the_sample_file_has_every_row_with_its_default_and_nothing_else(void **state)
{
    struct fixture *fixture = *state;
    struct buffer text;
    struct bytes rest, line;
    struct seen seen = { 0 };

    if (!config_file_read("conf/kelvin.conf", &text))
        fail_msg("conf/kelvin.conf can't be read; tests run in the project's directory");
    rest = buffer_bytes(&text);
    for (int number = 1; config_line_next(&rest, &line); number++)
        if (line.size > 1 && !(line.data[0] == '#' && line.data[1] == ' '))
            read_line(fixture, &seen, line, number);
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const struct config_row *row = config_row(id);
        bool wanted = row->kind != CONFIG_OBSOLETE_KIND && !(row->flags & CONFIG_FLAG_HIDDEN);

        if ((seen.lines[id] > 0) != wanted)
            fail_msg("%s is %s", row->name, wanted ? "missing" : "there, but should not be");
        if (!wanted)
            continue;
        if (seen.lines[id] != (row->kind == CONFIG_OUTPUT_LIMITS_KIND ? 3 : 1))
            fail_msg("%s is there %d times", row->name, seen.lines[id]);
        /* Directives without effect or without a default are commented out. */
        if (seen.commented[id] != (!config_row_is_parameter(row) || (row->flags & CONFIG_FLAG_UNUSED) != 0))
            fail_msg("%s is%s commented out", row->name, seen.commented[id] ? "" : " not");
        if (config_row_is_parameter(row) &&
            !config_value_equal(&fixture->config->more->values[id], &fixture->config->more->initial[id]))
            fail_msg("%s does not show its default", row->name);
    }
    buffer_release(&text);
}

static void the_sample_file_loads_and_changes_no_value(void **state)
{
    struct fixture *fixture = *state;
    char *path = realpath("conf/kelvin.conf", NULL);

    assert_non_null(path);
    if (!config_load_file(fixture->config, path, &fixture->message))
        fail_msg("%s", fixture->message.text);
    free(path);
    for (int id = 0; id < CONFIG_COUNT; id++)
        if (!config_value_equal(&fixture->config->more->values[id], &fixture->config->more->initial[id]))
            fail_msg("%s", config_name(id));
    assert_true(config_check(fixture->config, &fixture->message));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(words_are_split_as_in_a_shell),
        TEST(every_word_survives_quoting),
        TEST(hostile_lines_are_split_or_refused),
        TEST(replicaof_may_be_one_word),
        TEST(an_option_of_the_command_line_has_no_file),
        TEST(errors_name_file_line_text_and_reason),
        TEST(the_reason_is_never_truncated),
        TEST(a_bad_line_changes_nothing),
        TEST(repeated_lines_accumulate_where_they_do_in_redis),
        TEST(lines_are_stored_with_their_words),
        TEST(replicaof_is_shown_as_host_and_port),
        TEST(dir_is_relative_to_the_directory_at_startup),
        TEST(includes_are_read_at_their_position),
        TEST(an_error_in_an_include_names_the_include),
        TEST(a_missing_include_is_an_error),
        TEST(a_file_that_includes_itself_is_an_error),
        TEST(directives_without_effect_are_listed),
        TEST(rewrite_requires_a_file),
        TEST(a_file_with_the_running_values_is_not_changed),
        TEST(changed_lines_are_replaced_and_new_ones_appended),
        TEST(lines_whose_value_is_the_default_again_are_removed),
        TEST(every_kind_of_value_survives_a_rewrite),
        TEST(options_that_are_not_in_the_file_are_added_to_it),
        TEST(an_include_does_not_undo_a_rewrite),
        TEST(a_removed_file_is_written_again),
        TEST(a_file_that_no_longer_loads_is_not_changed),
        TEST(permissions_are_kept_and_no_temporary_file_remains),
        TEST(a_rewrite_that_fails_does_not_change_the_file),
        TEST(a_file_in_a_directory_that_can_not_be_written_is_written_in_place),
        TEST(a_file_that_can_not_be_written_is_named),
        TEST(a_symbolic_link_stays_and_its_file_is_rewritten),
        TEST(the_sample_file_has_every_row_with_its_default_and_nothing_else),
        TEST(the_sample_file_loads_and_changes_no_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

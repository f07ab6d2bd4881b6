/* kelvin-server [--check] [file.conf] [-] [--option value ...] [--restore backup] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/message.h"
#include "base/version.h"
#include "config/config.h"
#include "server/examine.h"
#include "server/server.h"

/* Read by jemalloc as it starts: freed pages go back to the machine soon, by a thread of its own, and few arenas keep what is
 * free together. */
extern const char *const malloc_conf;
const char *const malloc_conf = "background_thread:true,dirty_decay_ms:100,muzzy_decay_ms:0,narenas:4";

static void print_help(void)
{
    puts("Usage: kelvin-server [file.conf] [options] [-]\n"
         "\n"
         "  file.conf             configuration, in the syntax of redis.conf\n"
         "  -                     more configuration from standard input\n"
         "  --<name> <value>      any directive, for example --port 7777 --maxmemory 4gb\n"
         "  --check               before all others: look for mistakes, print them, and do not start; exit status 0: there are none\n"
         "  --restore <backup>    put what TIER BACKUP made into the data directory, which has no data yet, and serve it\n"
         "  -v, --version         print the version\n"
         "  -h, --help            print this\n"
         "\n"
         "Without arguments: 127.0.0.1:6379, no limit of memory, the cold tier in ./store.\n"
         "conf/kelvin.conf explains every directive.");
}

static bool read_stdin(struct config *config, struct message *message)
{
    struct buffer text = { 0 };
    size_t got;
    bool good;

    do {
        got = fread(buffer_reserve(&text, 4096), 1, 4096, stdin);
        text.size += got;
    } while (got > 0);
    good = config_load_text(config, "stdin", buffer_bytes(&text), message);
    buffer_release(&text);
    return good;
}

/* The backup's path, from where the command was typed: the server changes to `dir` before it looks. */
static bool read_restore(const char *path, char **restore, struct message *message)
{
    if (path == NULL || *restore != NULL) {
        message_set(message, path == NULL ? "--restore wants the path of a backup" : "--restore can be given once");
        return false;
    }
    *restore = realpath(path, NULL);
    if (*restore == NULL)
        message_set(message, "--restore: there is no '%.150s'", path);
    return *restore != NULL;
}

static bool is_option(const char *argument)
{
    return strncmp(argument, "--", 2) == 0;
}

/* Adds a word to a line of configuration, in quotes. */
static void add_word(struct buffer *line, const char *word)
{
    buffer_append_string(line, " \"");
    for (; *word != '\0'; word++) {
        unsigned char byte = (unsigned char)*word;

        if (byte == '"' || byte == '\\' || byte < ' ')
            buffer_append_format(line, "\\x%02x", byte);
        else
            buffer_append_u8(line, byte);
    }
    buffer_append_u8(line, '"');
}

/* Takes one option with its values off the arguments, as a line of configuration, and returns how many they were: --name value value ... up
 * to the next --name. The first value may begin with -- itself, but for --save, which may be without one. Name and values may be one
 * argument: "--save 60 1000". */
static int take_option(char **arguments, int count, struct buffer *line)
{
    const char *name = arguments[0] + (is_option(arguments[0]) ? 2 : 0);
    bool is_save = strcmp(name, "save") == 0, has_values = strpbrk(name, " \t") != NULL;
    int at = 1;

    buffer_append_string(line, name);
    if (at < count && !has_values && (!is_option(arguments[at]) || !is_save) && strcmp(arguments[at], "-") != 0)
        add_word(line, arguments[at++]);
    else if (is_save)
        add_word(line, "");
    while (at < count && !is_option(arguments[at]) && strcmp(arguments[at], "-") != 0)
        add_word(line, arguments[at++]);
    return at;
}

static bool read_options(struct config *config, char **arguments, int count, char **restore, struct message *message)
{
    int at = 0;

    while (at < count) {
        struct buffer line = { 0 };
        bool good;

        if (strcmp(arguments[at], "-") == 0) {
            good = read_stdin(config, message);
            at++;
        } else if (strcmp(arguments[at], "--restore") == 0) {
            good = read_restore(at + 1 < count ? arguments[at + 1] : NULL, restore, message);
            at += 2;
        } else if (strcmp(arguments[at], "--check") == 0) {
            message_set(message, "--check has to come before all other arguments");
            good = false;
        } else if (arguments[at][0] == '-' && !is_option(arguments[at])) {
            message_set(message, "'%.100s' is not an option: options begin with --", arguments[at]);
            good = false;
        } else {
            at += take_option(arguments + at, count - at, &line);
            good = config_load_text(config, NULL, buffer_bytes(&line), message);
        }
        buffer_release(&line);
        if (!good)
            return false;
    }
    return true;
}

/* -- The configuration is only checked -- */

static void count_problem(void *context, const char *text)
{
    int *problems = context;

    fprintf(stderr, "%s\n", text);
    ++*problems;
}

static void print_finding(void *context, bool is_problem, const char *text)
{
    if (is_problem)
        count_problem(context, text);
    else
        printf("note: %s\n", text);
}

/* Reports every line that is wrong, and what a start would not find; `arguments` are those of a start. Returns the exit status. */
static int check_config(struct config *config, char **arguments, int count)
{
    struct message message = { "" };
    char *restore = NULL;
    int problems = 0, at = 0;
    bool good = true;

    config_on_problem(config, count_problem, &problems);
    if (count > 0 && arguments[0][0] != '-')
        good = config_load_file(config, arguments[at++], &message);
    if (!good)
        count_problem(&problems, message.text);
    if (!read_options(config, arguments + at, count - at, &restore, &message))
        count_problem(&problems, message.text);
    if (!config_check(config, &message) || !config_check_absent(config, &message))
        count_problem(&problems, message.text);
    examine(config, print_finding, &problems);
    if (problems == 0)
        puts("The configuration is good.");
    else
        printf("%d problem%s\n", problems, problems == 1 ? "" : "s");
    config_destroy(config);
    free(restore);
    return problems == 0 ? 0 : 1;
}

int main(int count, char **arguments)
{
    struct config *config;
    char *executable, *restore = NULL;
    struct message message = { "" };
    int status, at = 1;
    bool good = true;

    if (count == 2 && (strcmp(arguments[1], "-v") == 0 || strcmp(arguments[1], "--version") == 0)) {
        printf("Kelvin server v=%s redis_version=%s build=%s\n", KELVIN_VERSION, REDIS_VERSION, KELVIN_BUILD);
        return 0;
    }
    if (count == 2 && (strcmp(arguments[1], "-h") == 0 || strcmp(arguments[1], "--help") == 0)) {
        print_help();
        return 0;
    }
    executable = realpath("/proc/self/exe", NULL);
    config = config_create();
    if (count > 1 && strcmp(arguments[1], "--check") == 0) {
        free(executable);
        return check_config(config, arguments + 2, count - 2);
    }
    if (count > 1 && arguments[1][0] != '-')
        good = config_load_file(config, arguments[at++], &message);
    good = good && read_options(config, arguments + at, count - at, &restore, &message) && config_check(config, &message) &&
           config_check_absent(config, &message) && server_check(config, &message);
    if (!good) {
        fprintf(stderr, "\n*** FATAL CONFIG FILE ERROR (Kelvin %s) ***\n%s\n", KELVIN_VERSION, message.text);
        config_destroy(config);
        free(executable);
        free(restore);
        return 1;
    }
    status = server_run(config, executable != NULL ? executable : arguments[0], restore);
    free(executable);
    free(restore);
    return status;
}

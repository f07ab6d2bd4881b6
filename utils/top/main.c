/* kelvin-top: shows what a server does, each second, on a terminal or as plain lines.
 *
 * Exit status: 0 it was ended by q or Ctrl-C, or has printed all reports; 1 there was no connection while reports were printed; 2 the command line
 * is invalid, or a file of TLS can't be read; 128 and the signal's number after another signal.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/version.h"
#include "fetcher.h"
#include "options.h"
#include "terminal.h"
#include "view.h"

enum { EXIT_FINE = 0, EXIT_TROUBLE = 1, EXIT_USAGE = 2, PLAIN_COLUMNS = 200 };

struct top {
    const struct options *options;
    struct fetcher *fetcher;
    struct terminal terminal;
    int signals;
    char server[128];
    struct reading *before, *now;
    struct fetched last;            /* its reading is `now` or NULL */
    struct work work;
    int64_t failed_us;              /* since when there is no connection; 0: there is one */
    uint64_t printed;
    int status;                     /* the exit status; -1: it goes on */
};

static void complain(const char *message)
{
    fprintf(stderr, "kelvin-top: %s\n", message);
}

/* --- what was fetched --- */

static void take_reading(struct top *top, struct reading *reading)
{
    reading_destroy(top->before);
    top->before = top->now;
    top->now = reading;
    top->failed_us = 0;
    work_note(&top->work, reading);
}

static void take_failure(struct top *top)
{
    if (top->failed_us == 0)
        top->failed_us = clock_mono_us();
    if (top->options->plain) {
        fprintf(stderr, "kelvin-top: %s: %s\n", top->server, top->last.failure.text);
        if (top->options->reports > 0)
            top->status = EXIT_TROUBLE;
    }
}

static struct view view_of(const struct top *top)
{
    return (struct view){
        .server = top->server, .before = top->before, .now = top->now, .work = &top->work,
        .advice = &top->last.advice,
        .failure = top->failed_us != 0 ? top->last.failure.text : "",
        .failed_s = (double)(clock_mono_us() - top->failed_us) / 1e6,
    };
}

/* A report needs two readings: rates are differences. */
static void print_report(struct top *top)
{
    const struct view view = view_of(top);
    struct buffer out = { 0 };

    if (!reading_follows(top->before, top->now))
        return;
    view_write(&view, PLAIN_COLUMNS, 0, &out);
    if (top->printed++ > 0)
        putchar('\n');
    fwrite(out.data, 1, out.size, stdout);
    if (fflush(stdout) != 0)
        top->status = EXIT_TROUBLE;
    buffer_release(&out);
    if (top->options->reports > 0 && top->printed >= top->options->reports && top->status < 0)
        top->status = EXIT_FINE;
}

/* Lines are a column shorter than the window, as clearing the rest of a line in its last column would remove the character there. */
static void draw(const struct top *top)
{
    const struct view view = view_of(top);
    struct buffer out = { 0 };
    int columns, rows;

    terminal_size(&columns, &rows);
    view_write(&view, columns - 1, rows, &out);
    if (out.size > 0)
        out.size--;
    terminal_draw(buffer_bytes(&out));
    buffer_release(&out);
}

static void handle_fetched(struct top *top)
{
    if (!fetcher_take(top->fetcher, &top->last))
        return;
    if (top->last.reading != NULL)
        take_reading(top, top->last.reading);
    else
        take_failure(top);
    if (!top->options->plain)
        draw(top);
    else if (top->failed_us == 0)
        print_report(top);
}

/* --- keys and signals --- */

/* Gives the terminal back while the program is stopped. */
static void stop_and_continue(struct top *top)
{
    terminal_close(&top->terminal);
    CHECK(raise(SIGSTOP) == 0);
    if (!top->options->plain) {
        terminal_open(&top->terminal);
        draw(top);
    }
}

static void handle_signal(struct top *top)
{
    struct signalfd_siginfo info;

    if (read(top->signals, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo == SIGWINCH && top->terminal.is_open)
        draw(top);
    else if (info.ssi_signo == SIGTSTP)
        stop_and_continue(top);
    else if (info.ssi_signo == SIGINT)
        top->status = EXIT_FINE;
    else if (info.ssi_signo != SIGWINCH)
        top->status = 128 + (int)info.ssi_signo;
}

static void handle_keys(struct top *top)
{
    char keys[64];
    ssize_t count = read(STDIN_FILENO, keys, sizeof(keys));

    for (ssize_t i = 0; i < count; i++) {
        if (keys[i] == 'q' || keys[i] == 'Q' || keys[i] == 3 || keys[i] == 4)
            top->status = EXIT_FINE;
    }
}

/* Signals are read from a descriptor, so that nothing is interrupted. */
static int open_signals(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH };
    sigset_t set;
    int fd;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaddset(&set, numbers[i]);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    (void)signal(SIGPIPE, SIG_IGN);
    fd = signalfd(-1, &set, SFD_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

/* --- */

static void loop(struct top *top)
{
    enum { FETCHED, SIGNALS, KEYS, COUNT };
    struct pollfd polled[COUNT] = {
        [FETCHED] = { .fd = fetcher_fd(top->fetcher), .events = POLLIN },
        [SIGNALS] = { .fd = top->signals, .events = POLLIN },
        [KEYS] = { .fd = !top->options->plain && top->terminal.has_saved ? STDIN_FILENO : -1, .events = POLLIN },
    };

    while (top->status < 0) {
        /* Without a connection the title counts the seconds. */
        int ready = poll(polled, COUNT, top->failed_us != 0 && top->terminal.is_open ? 1000 : -1);

        if (ready == 0)
            draw(top);
        if (ready <= 0)
            continue;
        if (polled[SIGNALS].revents != 0)
            handle_signal(top);
        if (polled[KEYS].revents & (POLLHUP | POLLERR))
            top->status = EXIT_FINE;            /* the terminal is gone */
        else if (polled[KEYS].revents != 0)
            handle_keys(top);
        if (polled[FETCHED].revents != 0)
            handle_fetched(top);
    }
}

static int run(const struct options *options)
{
    struct top top = { .options = options, .status = -1 };
    struct message message = { "" };

    top.signals = open_signals();
    if (options->socket != NULL)
        snprintf(top.server, sizeof(top.server), "%s", options->socket);
    else
        snprintf(top.server, sizeof(top.server), "%s:%u", options->host, (unsigned)options->port);
    reading_make_printable(top.server, strlen(top.server));
    top.fetcher = fetcher_start(options, &message);
    if (top.fetcher == NULL) {
        complain(message.text);
        return EXIT_USAGE;
    }
    if (!options->plain) {
        terminal_open(&top.terminal);
        draw(&top);
    }
    loop(&top);
    terminal_close(&top.terminal);
    reading_destroy(top.before);
    reading_destroy(top.now);
    return top.status;
}

int main(int argc, char **argv)
{
    struct options options;
    char error[256];

    if (!options_parse(&options, argc, argv, error, sizeof(error))) {
        complain(error);
        return EXIT_USAGE;
    }
    if (options.version) {
        printf("kelvin-top %s\n", KELVIN_VERSION);
        return EXIT_FINE;
    }
    if (options.help) {
        options_help(stdout);
        return EXIT_FINE;
    }
    /* What exit would clean up, OpenSSL's memory for example, the thread may be using. */
    _exit(run(&options));
}

#include "terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buffer.h"

/* The other screen, without a cursor and without wrapping; and back. */
static const char enter[] = "\033[?1049h\033[?25l\033[?7l\033[2J", leave[] = "\033[?7h\033[?25h\033[?1049l";

static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

/* A terminal that hangs up is no reason to fail: SIGHUP follows. */
static void write_all(const char *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(STDOUT_FILENO, data, size);

        if (written < 0 && errno == EAGAIN) {
            struct pollfd polled = { .fd = STDOUT_FILENO, .events = POLLOUT };

            if (poll(&polled, 1, 1000) <= 0)
                return;
        } else if (written < 0 && errno != EINTR) {
            return;
        } else if (written > 0) {
            data += written;
            size -= (size_t)written;
        }
    }
}

/* Only what a signal handler may call. There is no global state, so it switches on what terminal_open has switched off. */
static void give_back_and_crash(int signal_number)
{
    struct termios settings;

    write_all(leave, sizeof(leave) - 1);
    if (tcgetattr(STDIN_FILENO, &settings) == 0) {
        settings.c_lflag |= ICANON | ECHO;
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &settings);
    }
    raise(signal_number);           /* the action is the default again: SA_RESETHAND */
}

static void catch_crashes(void)
{
    struct sigaction action = { .sa_handler = give_back_and_crash, .sa_flags = (int)SA_RESETHAND };

    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
        (void)sigaction(crashes[i], &action, NULL);
}

void terminal_open(struct terminal *terminal)
{
    if (!terminal->has_saved && tcgetattr(STDIN_FILENO, &terminal->saved) == 0)
        terminal->has_saved = true;
    if (terminal->has_saved) {
        struct termios settings = terminal->saved;

        settings.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        settings.c_cc[VMIN] = 0;
        settings.c_cc[VTIME] = 0;
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &settings);
    }
    catch_crashes();
    terminal->is_open = true;
    write_all(enter, sizeof(enter) - 1);
}

void terminal_close(struct terminal *terminal)
{
    if (!terminal->is_open)
        return;
    terminal->is_open = false;
    write_all(leave, sizeof(leave) - 1);
    if (terminal->has_saved)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &terminal->saved);
}

void terminal_size(int *columns, int *rows)
{
    struct winsize size;

    *columns = 80;
    *rows = 24;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        *columns = size.ws_col;
        *rows = size.ws_row;
    }
}

void terminal_draw(struct bytes lines)
{
    struct buffer out = { 0 };
    bool first = true;

    buffer_append_string(&out, "\033[H");
    while (lines.size > 0) {
        const char *end = memchr(lines.data, '\n', lines.size);
        size_t size = end != NULL ? (size_t)(end - lines.data) : lines.size;

        /* No line feed after the last line, which would scroll. */
        buffer_append_string(&out, first ? "\033[7m" : "\r\n");
        buffer_append(&out, lines.data, size);
        buffer_append_string(&out, first ? "\033[0m\033[K" : "\033[K");
        first = false;
        lines = end != NULL ? bytes_of(end + 1, lines.size - size - 1) : bytes_of(NULL, 0);
    }
    buffer_append_string(&out, "\033[J");
    write_all(out.data, out.size);
    buffer_release(&out);
}

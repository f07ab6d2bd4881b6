#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/mutex.h"

enum { MESSAGE_SIZE = 1024, LINE_SIZE = 4 * MESSAGE_SIZE };

struct log {
    struct mutex lock;
    char *path;
    char *ident;
    _Atomic int level;
};

struct log *log_create(const char *path, enum log_level level, const char *syslog_ident, int syslog_facility)
{
    struct log *log = mem_zalloc(sizeof(*log));

    mutex_init(&log->lock);
    log->path = mem_string(bytes_of_string(path));
    log->level = level;
    if (syslog_ident != NULL) {
        log->ident = mem_string(bytes_of_string(syslog_ident));
        openlog(log->ident, LOG_PID | LOG_NDELAY | LOG_NOWAIT, syslog_facility);
    }
    return log;
}

void log_destroy(struct log *log)
{
    if (log == NULL)
        return;
    if (log->ident != NULL)
        closelog();
    mutex_release(&log->lock);
    mem_free(log->path);
    mem_free(log->ident);
    mem_free(log);
}

void log_set_level(struct log *log, enum log_level level)
{
    log->level = level;
}

/* `out` has LINE_SIZE bytes. */
static void escape_controls(const char *text, char *out)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;

        if (byte >= ' ' && byte != 0x7f)
            *out++ = (char)byte;
        else if (byte == '\n' || byte == '\r' || byte == '\t')
            out += sprintf(out, "\\%c", byte == '\n' ? 'n' : byte == '\r' ? 'r' : 't');
        else
            out += sprintf(out, "\\x%02x", byte);
    }
    *out = '\0';
}

void log_write(struct log *log, enum log_level level, const char *format, ...)
{
    static const int priorities[] = { LOG_DEBUG, LOG_INFO, LOG_NOTICE, LOG_WARNING };
    char message[MESSAGE_SIZE], text[LINE_SIZE], stamp[64];
    struct timespec now;
    struct tm local;
    va_list arguments;
    FILE *out = stdout;

    if ((int)level < log->level)
        return;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    escape_controls(message, text);
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(stamp, sizeof(stamp), "%d %b %Y %H:%M:%S", &local);
    mutex_lock(&log->lock);
    if (log->path[0] != '\0')
        out = fopen(log->path, "a");
    if (out != NULL) {
        fprintf(out, "%d:M %s.%03d %c %s\n", (int)getpid(), stamp, (int)(now.tv_nsec / 1000000), ".-*#"[level], text);
        fflush(out);
        if (out != stdout)
            fclose(out);
    }
    if (log->ident != NULL)
        syslog(priorities[level], "%s", text);
    mutex_unlock(&log->lock);
}

/* Log: what the operator reads. One line per message, in Redis' format, which tools parse: "pid:M day month year
 * hh:mm:ss.mmm * text". Written to standard output or a file (opened for each message, so that it can be rotated), and
 * to syslog. Thread-safe.
 */
#ifndef KELVIN_BASE_LOG_H
#define KELVIN_BASE_LOG_H

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_VERBOSE, LOG_LEVEL_NOTICE, LOG_LEVEL_WARNING, LOG_LEVEL_NOTHING };

struct log;

/* An empty `path` means standard output. `syslog_ident` NULL means no syslog. */
struct log *log_create(const char *path, enum log_level level, const char *syslog_ident, int syslog_facility);
void log_destroy(struct log *log);
void log_set_level(struct log *log, enum log_level level);
/* Control characters in the message are written as \n, \r, \t or \x1b, so that text from a client can neither forge a
 * line nor control a terminal. A message is cut off after 1023 bytes. */
void log_write(struct log *log, enum log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif

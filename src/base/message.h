/* Message: why something failed, as a sentence for a person. The caller provides it; a function fills it when it fails, and leaves it alone
 * otherwise. A text that does not fit is cut.
 */
#ifndef KELVIN_BASE_MESSAGE_H
#define KELVIN_BASE_MESSAGE_H

#include <stdarg.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MESSAGE_SIZE = 256 };

struct message {
    char text[MESSAGE_SIZE];        /* ends with a NUL byte; "" is no message */
};

/* `format` and what follows are as for printf. NULL as message is fine: the text is dropped. */
void message_set(struct message *message, const char *format, ...) __attribute__((format(printf, 2, 3)));
void message_set_args(struct message *message, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
/* Puts a text after what is there. */
void message_append(struct message *message, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool message_is_empty(const struct message *message)
{
    return message->text[0] == '\0';
}

#ifdef __cplusplus
}
#endif

#endif

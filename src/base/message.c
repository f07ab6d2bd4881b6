#include "base/message.h"

#include <stdio.h>
#include <string.h>

void message_set_args(struct message *message, const char *format, va_list arguments)
{
    char text[MESSAGE_SIZE];        /* the arguments may be the message's own text */

    if (message == NULL)
        return;
    vsnprintf(text, sizeof(text), format, arguments);
    memcpy(message->text, text, sizeof(text));
}

void message_set(struct message *message, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    message_set_args(message, format, arguments);
    va_end(arguments);
}

void message_append(struct message *message, const char *format, ...)
{
    size_t size = strlen(message->text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message->text + size, MESSAGE_SIZE - size, format, arguments);
    va_end(arguments);
}

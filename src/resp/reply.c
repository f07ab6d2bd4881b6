#include "resp/reply.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"

enum { LATER_GAP = 4 };     /* "*5\r\n" */

void reply_init(struct reply *reply, int protocol)
{
    *reply = (struct reply){ .protocol = protocol };
}

void reply_release(struct reply *reply)
{
    reply_truncate(reply, 0);
    mem_free(reply->shares);
    reply->shares = NULL;
    reply->share_capacity = 0;
    buffer_release(&reply->out);
}

void reply_truncate(struct reply *reply, size_t size)
{
    while (reply->share_count > 0 && reply->shares[reply->share_count - 1].offset > size) {
        struct blob *blob = reply->shares[--reply->share_count].blob;

        reply->shared_size -= blob->buffer.size;
        if (atomic_fetch_sub(&blob->senders, 1) == 1 && reply->held != NULL)
            atomic_fetch_sub(reply->held, blob->buffer.size);
        blob_release(blob);
    }
    reply->out.size = size;
}

void reply_append(struct reply *reply, struct reply *from)
{
    CHECK(from->share_count == 0);
    if (reply->out.size == 0 && reply->share_count == 0 && from->out.size > reply->out.capacity) {
        struct buffer empty = reply->out;

        reply->out = from->out;
        from->out = empty;
    } else {
        buffer_append_bytes(&reply->out, buffer_bytes(&from->out));
    }
    from->out.size = 0;
}

static void append_header(struct reply *reply, char type, size_t number)
{
    char *at = buffer_reserve(&reply->out, REPLY_HEADER_SIZE);

    at = reply_header_write(at, type, (int64_t)number);
    reply->out.size = (size_t)(at - reply->out.data);
}

/* A line ends at its first CR or LF, so the text must not contain any. */
static void append_line(struct reply *reply, char type, struct bytes text)
{
    char *at = buffer_reserve(&reply->out, text.size + 3);

    *at++ = type;
    for (size_t i = 0; i < text.size; i++)
        *at++ = text.data[i] == '\r' || text.data[i] == '\n' ? ' ' : text.data[i];
    *at++ = '\r';
    *at++ = '\n';
    reply->out.size += text.size + 3;
}

void reply_status(struct reply *reply, struct bytes text)
{
    append_line(reply, '+', text);
}

void reply_error_text(struct reply *reply, struct bytes text)
{
    while (text.size > 0 && (text.data[text.size - 1] == '\r' || text.data[text.size - 1] == '\n'))
        text.size--;
    append_line(reply, '-', text);
}

void reply_bulk_blob(struct reply *reply, struct blob *blob)
{
    if (!reply->may_share || blob->buffer.size < REPLY_SHARE_MIN) {
        reply_bulk(reply, buffer_bytes(&blob->buffer));
        return;
    }
    append_header(reply, '$', blob->buffer.size);
    if (reply->share_count == reply->share_capacity) {
        reply->share_capacity = reply->share_capacity * 2 + 4;
        reply->shares = mem_realloc(reply->shares, reply->share_capacity * sizeof(*reply->shares));
    }
    reply->shares[reply->share_count++] = (struct reply_share){ blob_hold(blob), reply->out.size };
    reply->shared_size += blob->buffer.size;
    if (atomic_fetch_add(&blob->senders, 1) == 0 && reply->held != NULL)
        atomic_fetch_add(reply->held, blob->buffer.size);
    buffer_append(&reply->out, "\r\n", 2);
}

void reply_bulk_string(struct reply *reply, const char *string)
{
    reply_bulk(reply, bytes_of_string(string));
}

void reply_bulk_integer(struct reply *reply, int64_t number)
{
    char text[TEXT_INT_SIZE];

    reply_bulk(reply, bytes_of(text, text_of_int(number, text)));
}

void reply_bulk_format(struct reply *reply, const char *format, ...)
{
    va_list arguments;
    char *at;
    int size;

    va_start(arguments, format);
    size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    CHECK(size >= 0);
    append_header(reply, '$', (size_t)size);
    at = buffer_reserve(&reply->out, (size_t)size + 2);
    va_start(arguments, format);
    vsnprintf(at, (size_t)size + 1, format, arguments);
    va_end(arguments);
    at[size] = '\r';            /* overwrites the NUL */
    at[size + 1] = '\n';
    reply->out.size += (size_t)size + 2;
}

char *reply_bulk_reserve(struct reply *reply, size_t size)
{
    char *at;

    append_header(reply, '$', size);
    at = buffer_reserve(&reply->out, size + 2);
    at[size] = '\r';
    at[size + 1] = '\n';
    reply->out.size += size + 2;
    return at;
}

void reply_null(struct reply *reply)
{
    buffer_append_bytes(&reply->out, reply->protocol >= 3 ? BYTES("_\r\n") : BYTES("$-1\r\n"));
}

void reply_null_array(struct reply *reply)
{
    buffer_append_bytes(&reply->out, reply->protocol >= 3 ? BYTES("_\r\n") : BYTES("*-1\r\n"));
}

void reply_array(struct reply *reply, size_t count)
{
    append_header(reply, '*', count);
}

void reply_map(struct reply *reply, size_t pair_count)
{
    if (reply->protocol >= 3)
        append_header(reply, '%', pair_count);
    else
        append_header(reply, '*', pair_count * 2);
}

void reply_set(struct reply *reply, size_t count)
{
    append_header(reply, reply->protocol >= 3 ? '~' : '*', count);
}

void reply_push(struct reply *reply, size_t count)
{
    append_header(reply, reply->protocol >= 3 ? '>' : '*', count);
}

void reply_attribute(struct reply *reply, size_t pair_count)
{
    CHECK(reply->protocol >= 3);
    append_header(reply, '|', pair_count);
}

void reply_double(struct reply *reply, double number)
{
    char text[TEXT_DOUBLE_SIZE];
    struct bytes bytes = bytes_of(text, text_of_double(number, text));

    if (reply->protocol >= 3)
        append_line(reply, ',', bytes);
    else
        reply_bulk(reply, bytes);
}

void reply_long_double(struct reply *reply, long double number)
{
    char text[TEXT_LONG_DOUBLE_SIZE];
    struct bytes bytes = bytes_of(text, text_of_long_double(number, text));

    if (reply->protocol >= 3)
        append_line(reply, ',', bytes);
    else
        reply_bulk(reply, bytes);
}

void reply_bool(struct reply *reply, bool value)
{
    if (reply->protocol >= 3)
        buffer_append_bytes(&reply->out, value ? BYTES("#t\r\n") : BYTES("#f\r\n"));
    else
        reply_integer(reply, value ? 1 : 0);
}

void reply_big_number(struct reply *reply, struct bytes digits)
{
    if (reply->protocol >= 3)
        append_line(reply, '(', digits);
    else
        reply_bulk(reply, digits);
}

void reply_verbatim(struct reply *reply, const char *kind, struct bytes text)
{
    CHECK(strlen(kind) == 3);
    if (reply->protocol < 3) {
        reply_bulk(reply, text);
        return;
    }
    append_header(reply, '=', text.size + 4);
    buffer_append(&reply->out, kind, 3);
    buffer_append(&reply->out, ":", 1);
    buffer_append_bytes(&reply->out, text);
    buffer_append(&reply->out, "\r\n", 2);
}

struct reply_later reply_later_begin(struct reply *reply)
{
    struct reply_later later = { .offset = reply->out.size };

    memset(buffer_reserve(&reply->out, LATER_GAP), 0, LATER_GAP);
    reply->out.size += LATER_GAP;
    return later;
}

/* Writes the header into the gap; what follows is moved if the header does not fit exactly. */
static void later_end(struct reply *reply, struct reply_later later, char type, size_t number)
{
    char header[REPLY_HEADER_SIZE];
    size_t header_size = (size_t)(reply_header_write(header, type, (int64_t)number) - header);
    struct buffer *out = &reply->out;
    size_t after = later.offset + LATER_GAP;

    CHECK(after <= out->size);
    if (header_size != LATER_GAP) {
        buffer_reserve(out, header_size);
        memmove(out->data + later.offset + header_size, out->data + after, out->size - after);
        out->size += header_size - LATER_GAP;
        for (size_t i = 0; i < reply->share_count; i++) {
            if (reply->shares[i].offset >= after)
                reply->shares[i].offset += header_size - LATER_GAP;
        }
    }
    memcpy(out->data + later.offset, header, header_size);
}

void reply_later_array(struct reply *reply, struct reply_later later, size_t count)
{
    later_end(reply, later, '*', count);
}

void reply_later_map(struct reply *reply, struct reply_later later, size_t pair_count)
{
    if (reply->protocol >= 3)
        later_end(reply, later, '%', pair_count);
    else
        later_end(reply, later, '*', pair_count * 2);
}

void reply_later_set(struct reply *reply, struct reply_later later, size_t count)
{
    later_end(reply, later, reply->protocol >= 3 ? '~' : '*', count);
}

#include "persist/aof_manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/text.h"

enum { LINE_SIZE_MAX = 4096 };

void aof_manifest_init(struct aof_manifest *manifest)
{
    *manifest = (struct aof_manifest){ 0 };
}

void aof_manifest_release(struct aof_manifest *manifest)
{
    for (int i = 0; i < manifest->count; i++)
        mem_free(manifest->files[i].name);
    mem_free(manifest->files);
    aof_manifest_init(manifest);
}

void aof_manifest_add(struct aof_manifest *manifest, struct bytes name, uint64_t seq, enum aof_file_type type)
{
    if (manifest->count == manifest->capacity) {
        manifest->capacity = manifest->capacity == 0 ? 8 : manifest->capacity * 2;
        manifest->files = mem_realloc(manifest->files, (size_t)manifest->capacity * sizeof(manifest->files[0]));
    }
    manifest->files[manifest->count++] = (struct aof_file){
        .name = mem_string(name),
        .seq = seq,
        .type = type,
        .valid_size = UINT64_MAX,
        .first_lsn = UINT64_MAX,
    };
}

void aof_manifest_remove(struct aof_manifest *manifest, int index)
{
    CHECK(index >= 0 && index < manifest->count);
    mem_free(manifest->files[index].name);
    manifest->count--;
    memmove(&manifest->files[index], &manifest->files[index + 1],
        (size_t)(manifest->count - index) * sizeof(manifest->files[0]));
}

void aof_manifest_copy(struct aof_manifest *to, const struct aof_manifest *from)
{
    aof_manifest_init(to);
    for (int i = 0; i < from->count; i++) {
        const struct aof_file *file = &from->files[i];

        aof_manifest_add(to, bytes_of_string(file->name), file->seq, file->type);
        to->files[i].valid_size = file->valid_size;
        to->files[i].first_lsn = file->first_lsn;
    }
}

struct aof_file *aof_manifest_base(const struct aof_manifest *manifest)
{
    for (int i = 0; i < manifest->count; i++)
        if (manifest->files[i].type == AOF_FILE_BASE)
            return &manifest->files[i];
    return NULL;
}

uint64_t aof_manifest_last_seq(const struct aof_manifest *manifest)
{
    uint64_t last = 0;

    for (int i = 0; i < manifest->count; i++)
        if (manifest->files[i].type == AOF_FILE_INCREMENT)
            last = manifest->files[i].seq;
    return last;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* The character that the escape `\c` means, or c itself. */
static char unescape(char c)
{
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'a': return '\a';
    default: return c;
    }
}

/* Moves the next word of the line to `word`. False: none is left, or its quotes are unbalanced (*bad). */
static bool take_word(struct bytes *line, struct buffer *word, bool *bad)
{
    const char *cursor = line->data, *end = line->data + line->size;
    char quote = 0;

    word->size = 0;
    *bad = false;
    while (cursor < end && (*cursor == ' ' || *cursor == '\t' || *cursor == '\r'))
        cursor++;
    if (cursor == end)
        return false;
    if (*cursor == '"' || *cursor == '\'')
        quote = *cursor++;
    for (;; cursor++) {
        if (cursor == end || (quote == 0 && (*cursor == ' ' || *cursor == '\t' || *cursor == '\r')))
            break;
        if (quote != 0 && *cursor == quote)
            break;
        if (quote == '"' && *cursor == '\\' && end - cursor > 3 && cursor[1] == 'x' && hex_digit(cursor[2]) >= 0 &&
            hex_digit(cursor[3]) >= 0) {
            buffer_append_u8(word, (uint8_t)(hex_digit(cursor[2]) * 16 + hex_digit(cursor[3])));
            cursor += 3;
        } else if (quote == '"' && *cursor == '\\' && end - cursor > 1) {
            buffer_append_u8(word, (uint8_t)unescape(*++cursor));
        } else if (quote == '\'' && *cursor == '\\' && end - cursor > 1 && cursor[1] == '\'') {
            buffer_append_u8(word, (uint8_t)*++cursor);
        } else {
            buffer_append_u8(word, (uint8_t)*cursor);
        }
    }
    if (quote != 0) {
        /* There has to be a closing quote, and it has to end the word. */
        if (cursor == end || (cursor + 1 < end && cursor[1] != ' ' && cursor[1] != '\t' && cursor[1] != '\r')) {
            *bad = true;
            return false;
        }
        cursor++;
    }
    *line = bytes_of(cursor, (size_t)(end - cursor));
    return true;
}

/* The errors begin as those of Redis do in its log, which people search for. */
#define INVALID_FORMAT "Invalid AOF manifest file format"

static const char *parse_line(struct aof_manifest *manifest, struct bytes line, struct buffer *name, struct buffer *word)
{
    int64_t seq = 0, valid_size = -1, number;
    char type = 0;
    bool has_name = false, bad = false;

    while (take_word(&line, word, &bad)) {
        struct buffer key = *word;
        struct bytes text;

        /* The key keeps the buffer; the value gets a new one. */
        buffer_init(word);
        if (!take_word(&line, word, &bad)) {
            buffer_release(&key);
            return bad ? INVALID_FORMAT ", unbalanced quotes" : INVALID_FORMAT ", a key without a value";
        }
        text = buffer_bytes(word);
        if (bytes_is(buffer_bytes(&key), "file")) {
            name->size = 0;
            buffer_append_bytes(name, text);
            has_name = true;
        } else if (bytes_is(buffer_bytes(&key), "seq")) {
            if (!text_to_int(text, &seq))
                seq = -1;
        } else if (bytes_is(buffer_bytes(&key), "type")) {
            type = text.size == 1 ? text.data[0] : '?';
        } else if (bytes_is(buffer_bytes(&key), "validsize")) {
            if (!text_to_int(text, &number) || number < 0) {
                buffer_release(&key);
                return INVALID_FORMAT ", validsize is not a size";
            }
            valid_size = number;
        }
        buffer_release(&key);
    }
    if (bad)
        return INVALID_FORMAT ", unbalanced quotes";
    if (!has_name || name->size == 0)
        return INVALID_FORMAT ", no file name";
    if (memchr(name->data, '/', name->size) != NULL || memchr(name->data, 0, name->size) != NULL
        || bytes_is(buffer_bytes(name), ".") || bytes_is(buffer_bytes(name), ".."))
        return INVALID_FORMAT ", a file name must be a plain name, not a path";
    if (seq <= 0)
        return INVALID_FORMAT ", no valid seq";
    if (type != AOF_FILE_BASE && type != AOF_FILE_HISTORY && type != AOF_FILE_INCREMENT)
        return "Unknown AOF file type";
    if (type == AOF_FILE_BASE && aof_manifest_base(manifest) != NULL)
        return "Found duplicate base file information";
    if (type == AOF_FILE_INCREMENT && (uint64_t)seq <= aof_manifest_last_seq(manifest))
        return "Found a non-monotonic sequence number";
    for (int i = 0; i < manifest->count; i++)
        if (bytes_equal(bytes_of_string(manifest->files[i].name), buffer_bytes(name)))
            return INVALID_FORMAT ", a file that was named before";
    aof_manifest_add(manifest, buffer_bytes(name), (uint64_t)seq, (enum aof_file_type)type);
    if (valid_size >= 0)
        manifest->files[manifest->count - 1].valid_size = (uint64_t)valid_size;
    return NULL;
}

enum status aof_manifest_parse(struct aof_manifest *manifest, struct bytes text, struct message *message)
{
    struct buffer name, word;
    const char *error = NULL;
    int number = 0;

    aof_manifest_init(manifest);
    buffer_init(&name);
    buffer_init(&word);
    while (text.size > 0 && error == NULL) {
        const char *end = memchr(text.data, '\n', text.size);
        struct bytes line;

        number++;
        if (end == NULL) {
            error = INVALID_FORMAT ", it ends in the middle of a line";
            break;
        }
        line = bytes_of(text.data, (size_t)(end - text.data));
        text = bytes_of(end + 1, text.size - line.size - 1);
        if (line.size > LINE_SIZE_MAX)
            error = "The AOF manifest file contains too long line";
        else if (line.size > 0 && line.data[0] == '#')
            continue;
        else
            error = parse_line(manifest, line, &name, &word);
    }
    buffer_release(&name);
    buffer_release(&word);
    if (error == NULL && manifest->count == 0)
        error = "Found an empty AOF manifest";
    if (error == NULL)
        return STATUS_OK;
    message_set(message, "Bad AOF manifest, line %d: %s", number, error);
    aof_manifest_release(manifest);
    return STATUS_CORRUPT;
}

static void print_name(const char *name, struct buffer *text)
{
    bool plain = name[0] != '#';

    for (const char *c = name; *c != 0; c++)
        plain = plain && *c > ' ' && *c < 127 && *c != '"' && *c != '\'' && *c != '\\';
    if (plain) {
        buffer_append_string(text, name);
        return;
    }
    buffer_append_u8(text, '"');
    for (const char *c = name; *c != 0; c++) {
        if (*c == '"' || *c == '\\')
            buffer_append_format(text, "\\%c", *c);
        else if (*c >= ' ' && *c < 127)
            buffer_append_u8(text, (uint8_t)*c);
        else
            buffer_append_format(text, "\\x%02x", (unsigned)(unsigned char)*c);
    }
    buffer_append_u8(text, '"');
}

void aof_manifest_print(const struct aof_manifest *manifest, struct buffer *text)
{
    for (int i = 0; i < manifest->count; i++) {
        const struct aof_file *file = &manifest->files[i];

        buffer_append_string(text, "file ");
        print_name(file->name, text);
        buffer_append_format(text, " seq %" PRIu64 " type %c", file->seq, (char)file->type);
        if (file->valid_size != UINT64_MAX)
            buffer_append_format(text, " validsize %" PRIu64, file->valid_size);
        buffer_append_u8(text, '\n');
    }
}

enum status aof_manifest_load(struct aof_manifest *manifest, int dir_fd, const char *file_name, struct message *message)
{
    struct buffer text = { 0 };
    enum status status = file_read_all(disk_system(), dir_fd, file_name, AOF_MANIFEST_SIZE_MAX, &text);

    aof_manifest_init(manifest);
    if (status == STATUS_OK) {
        status = aof_manifest_parse(manifest, buffer_bytes(&text), message);
    } else if (status == STATUS_TOO_LARGE) {
        message_set(message, "The AOF manifest %s is too large", file_name);
        status = STATUS_CORRUPT;
    } else if (status != STATUS_NOT_FOUND) {
        message_set(message, "Can't read the AOF manifest %s: %s", file_name, strerror(errno));
    }
    buffer_release(&text);
    return status;
}

/* The name of the file that the manifest is written to before it is renamed. */
static void make_temporary_name(const char *file_name, struct buffer *name)
{
    buffer_init(name);
    buffer_append_format(name, "temp-%s", file_name);
    buffer_append_u8(name, 0);
}

void aof_manifest_clean(int dir_fd, const char *file_name)
{
    struct buffer temporary;

    make_temporary_name(file_name, &temporary);
    unlinkat(dir_fd, temporary.data, 0);
    buffer_release(&temporary);
}

enum status aof_manifest_save(const struct aof_manifest *manifest, int dir_fd, const char *file_name,
    const struct disk *disk, bool *replaced)
{
    struct buffer text = { 0 }, temporary;
    enum status status;
    int error;

    make_temporary_name(file_name, &temporary);
    aof_manifest_print(manifest, &text);
    status = file_replace(disk, &(struct file_replacement){ .dir = dir_fd, .path = file_name, .aside = temporary.data },
        buffer_bytes(&text), replaced);
    error = errno;
    buffer_release(&temporary);
    buffer_release(&text);
    errno = error;                  /* for the caller's message */
    return status;
}

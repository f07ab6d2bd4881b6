/* Loading: lines, files and includes. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/mutex.h"
#include "config/config_private.h"
#include "config/config_words.h"

enum {
    INCLUDE_DEPTH_MAX = 16,     /* so that a file that includes itself is an error, not a stack overflow */
    NAME_SHOWN = 60,            /* bytes of a path and of a line, so that the reason always fits in the message */
    LINE_SHOWN = 40,
};

bool config_file_read(const char *path, struct buffer *text)
{
    int error;

    *text = (struct buffer){ 0 };
    if (file_read_all(disk_system(), AT_FDCWD, path, SIZE_MAX, text) == STATUS_OK)
        return true;
    error = errno;
    buffer_release(text);
    errno = error;
    return false;
}

static bool file_load(struct config *config, const char *path, int depth, struct message *message)
{
    struct buffer text;
    bool done;

    if (depth > INCLUDE_DEPTH_MAX)
        return config_refuse(message, "too many files include each other");
    if (!config_file_read(path, &text))
        return config_refuse(message, "can't open config file '%.100s': %s", path, strerror(errno));
    done = config_load_lines(config, path, buffer_bytes(&text), depth, message);
    buffer_release(&text);
    return done;
}

/* A path with wildcards may match no file; a path without must exist. */
static bool include(struct config *config, const struct config_row *row, const struct bytes *words, int count, int depth,
    struct message *message)
{
    char *path;
    glob_t matches = { 0 };
    bool done = true;

    if (count != row->low)
        return config_refuse(message, "Bad directive or wrong number of arguments");
    path = config_path(config->more->home, words[0]);
    if (strpbrk(path, "*?[") == NULL) {
        done = file_load(config, path, depth + 1, message);
    } else if (glob(path, 0, NULL, &matches) == 0) {
        for (size_t i = 0; i < matches.gl_pathc && done; i++)
            done = file_load(config, matches.gl_pathv[i], depth + 1, message);
        globfree(&matches);
    }
    mem_free(path);
    return done;
}

/* Returns the text that another line of the same directive is added to. The first `save` replaces the default. */
static const char *base_of(const struct config_private *more, const struct config_row *row)
{
    if (row->kind == CONFIG_OUTPUT_LIMITS_KIND || row->kind == CONFIG_LINES_KIND)
        return more->values[row->id].text;
    if (row->kind == CONFIG_SAVE_KIND && more->given[row->id])
        return more->values[row->id].text;
    return NULL;
}

/* For messages about a line that is only understood later. */
static void note_place(struct config_private *more, const struct config_row *row)
{
    struct config_place place = { .id = row->id, .line = more->loading_line };

    if (row->kind != CONFIG_LINES_KIND)
        return;
    if (more->loading_file != NULL)
        place.file = mem_string(bytes_of_string(more->loading_file));
    more->places = mem_realloc(more->places, (size_t)(more->place_count + 1) * sizeof(place));
    more->places[more->place_count++] = place;
}

/* The first words are those of Redis. */
static bool refuse_unknown(const struct bytes *words, int count, struct message *message)
{
    const char *similar = count > 0 ? config_row_similar(words[0]) : NULL;

    return config_refuse(message, "Bad directive or wrong number of arguments%s%s%s", similar != NULL ? ". Did you mean '" : "",
        similar != NULL ? similar : "", similar != NULL ? "'?" : "");
}

/* Requires `changing`. Loads one directive, see config_load; `depth` is the number of enclosing includes. */
static bool config_load_words(struct config *config, const struct bytes *words, int count, int depth, struct message *message)
{
    struct config_private *more = config->more;
    const char *spelling;
    const struct config_row *row = count > 0 ? config_row_find(words[0], &spelling) : NULL;
    struct config_reading reading = { .home = more->home };
    struct config_value value;

    if (!row)
        return refuse_unknown(words, count, message);
    if (row->kind == CONFIG_INCLUDE_KIND)
        return include(config, row, words + 1, count - 1, depth, message);
    reading.base = base_of(more, row);
    if (!config_value_read(row, words + 1, count - 1, &reading, &value, message))
        return false;
    config_exchange(config, row->id, &value);
    config_value_release(&value);
    more->given[row->id] = true;
    note_place(more, row);
    return true;
}

/* Adds file, line number and line to the reason; on the command line only the line. The message of an include, which has its file and line already, is left as
 * it is. */
static bool line_refuse(const char *name, int line_number, struct bytes line, const char *reason, struct message *message)
{
    size_t name_size = name != NULL ? strlen(name) : 0, line_size = line.size;
    const char *name_cut = name_size > NAME_SHOWN ? "..." : "", *line_cut = line_size > LINE_SHOWN ? "..." : "";
    size_t room = MESSAGE_SIZE - 1 - strlen(reason);
    size_t around = sizeof("......, line 2147483647: '': ");
    size_t name_room = NAME_SHOWN, line_room = LINE_SHOWN;

    /* A long reason (a list of names) leaves less space for the rest. */
    if (room < around + name_room + line_room) {
        line_room = room > around + 20 ? (room - around) / 3 : 0;
        name_room = room > around + 20 ? (room - around) - line_room : 0;
        name_cut = name_size > name_room ? "..." : "";
        line_cut = line_size > line_room ? "..." : "";
    }
    if (name != NULL)
        name += name_size > name_room ? name_size - name_room : 0;
    line_size = line_size > line_room ? line_room : line_size;
    if (name == NULL)
        return config_refuse(message, "command line: '%.*s%s': %s", (int)line_size, line.data, line_cut, reason);
    return config_refuse(message, "%s%s, line %d: '%.*s%s': %s", name_cut, name, line_number, (int)line_size, line.data,
        line_cut, reason);
}

bool config_load_lines(struct config *config, const char *name, struct bytes text, int depth, struct message *message)
{
    struct bytes line;

    for (int number = 1; config_line_next(&text, &line); number++) {
        struct config_words words;
        struct message reason;
        bool done;

        line = config_line_trim(line);
        if (line.size == 0 || line.data[0] == '#')
            continue;
        if (!config_words_split(line, &words)) {
            line_refuse(name, number, line, "Unbalanced quotes in configuration line", message);
            if (config_go_on(config, message))
                continue;
            return false;
        }
        config->more->loading_file = name;
        config->more->loading_line = number;
        done = config_load_words(config, words.items, words.count, depth, &reason);
        config->more->loading_file = NULL;
        if (!done && bytes_is(words.items[0], "include") && strstr(reason.text, ", line "))
            config_refuse(message, "%s", reason.text);
        else if (!done)
            line_refuse(name, number, line, reason.text, message);
        config_words_release(&words);
        if (!done && !config_go_on(config, message))
            return false;
    }
    return true;
}

bool config_load(struct config *config, const struct bytes *words, int word_count, struct message *message)
{
    bool done;

    mutex_lock(&config->more->changing);
    done = config_load_words(config, words, word_count, 0, message);
    mutex_unlock(&config->more->changing);
    return done;
}

bool config_load_text(struct config *config, const char *name, struct bytes text, struct message *message)
{
    bool done;

    mutex_lock(&config->more->changing);
    done = config_load_lines(config, name, text, 0, message);
    mutex_unlock(&config->more->changing);
    return done;
}

bool config_load_file(struct config *config, const char *path, struct message *message)
{
    char *absolute = config_path(config->more->home, bytes_of_string(path));
    char *real = realpath(absolute, NULL);
    bool done;

    mutex_lock(&config->more->changing);
    if (real && !config->more->file)
        config->more->file = mem_string(bytes_of_string(real));
    done = file_load(config, real ? real : absolute, 0, message);
    mutex_unlock(&config->more->changing);
    free(real);
    mem_free(absolute);
    return done;
}

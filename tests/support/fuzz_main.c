/* Runs a fuzz target without libFuzzer, with those of its options that tests/run uses:
 *
 *     X_fuzz [-max_total_time=SECONDS] [-runs=COUNT] [-seed=NUMBER] [-artifact_prefix=PATH] FILE|DIRECTORY...
 *
 * A directory is a corpus: each file in it is an input. All inputs run as they are; then changed ones
 * until the time is up or COUNT of them have run: an input of the corpus, or random bytes, changed in a few places. 10 seconds and a new
 * seed unless the options say otherwise. With files only, these run and nothing else: that repeats a failure. The input that fails is
 * written to PATHcrash.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "support/fuzz.h"

enum { INPUT_MAX = 16384, FRESH_MAX = 600, CHANGES_MAX = 6 };

struct corpus {
    struct buffer *inputs;
    size_t count;
};

/* For the handler of SIGABRT. */
static struct bytes running;
static char crash_path[1024];

/* So that a sanitizer's report ends in SIGABRT as a failed CHECK does. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
    return "abort_on_error=1:handle_abort=0:detect_leaks=1";
}

const char *__ubsan_default_options(void)
{
    return "abort_on_error=1:print_stacktrace=1";
}

static void save_input(int signal_number)
{
    int fd = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    static const char words[] = "the input is in ";

    if (fd >= 0 && write(fd, running.data, running.size) == (ssize_t)running.size) {
        (void)!write(STDERR_FILENO, words, sizeof(words) - 1);
        (void)!write(STDERR_FILENO, crash_path, strlen(crash_path));
        (void)!write(STDERR_FILENO, "\n", 1);
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

__attribute__((weak)) int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    return 0;
}

static void run(struct bytes input)
{
    struct bytes copy = fuzz_exact_copy(input);

    running = copy;
    CHECK(LLVMFuzzerTestOneInput((const uint8_t *)copy.data, copy.size) == 0);
    mem_free((void *)copy.data);
    running = bytes_of(NULL, 0);
}

static void load_file(struct corpus *corpus, const char *path)
{
    struct buffer input = { 0 };
    int fd = open(path, O_RDONLY);
    ssize_t got;

    if (fd < 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(2);
    }
    while ((got = read(fd, buffer_reserve(&input, INPUT_MAX), INPUT_MAX)) > 0)
        input.size += (size_t)got;
    close(fd);
    corpus->inputs = mem_realloc(corpus->inputs, (corpus->count + 1) * sizeof(*corpus->inputs));
    corpus->inputs[corpus->count++] = input;
}

/* In the order of the names, so that a seed means the same everywhere. */
static void load_directory(struct corpus *corpus, const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);

    for (int i = 0; i < count; i++) {
        char file[1024];

        CHECK(snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name) < (int)sizeof(file));
        if (entries[i]->d_name[0] != '.')
            load_file(corpus, file);
        free(entries[i]);
    }
    free(entries);
}

/* An input of the corpus or random bytes; then pieces of other inputs are put in, and bytes change. */
static void make_input(const struct corpus *corpus, struct fuzz_input *draw, struct buffer *input)
{
    static const struct bytes telling = BYTES("\0\1\2\4\x10\x3f\x40\x7f\x80\x81\xc0\xc3\xe0\xf0\xfe\xff 09\r\n*$\"'");

    input->size = 0;
    if (corpus->count == 0 || fuzz_below(draw, 4) == 0)
        for (uint64_t size = fuzz_below(draw, fuzz_below(draw, 4) == 0 ? FRESH_MAX : 24); size > 0; size--)
            buffer_append_u8(input, (uint8_t)fuzz_below(draw, 256));
    else
        buffer_append_bytes(input, buffer_bytes(&corpus->inputs[fuzz_below(draw, corpus->count)]));
    for (uint64_t pieces = fuzz_below(draw, 3); pieces > 0 && corpus->count > 0; pieces--) {
        struct bytes other = buffer_bytes(&corpus->inputs[fuzz_below(draw, corpus->count)]);
        size_t start = fuzz_below(draw, other.size + 1), size = fuzz_below(draw, other.size - start + 1), at = fuzz_below(draw, input->size + 1);

        if (input->size + size > INPUT_MAX)
            break;
        buffer_reserve(input, size);
        memmove(input->data + at + size, input->data + at, input->size - at);
        memcpy(input->data + at, other.data + start, size);
        input->size += size;
    }
    fuzz_damage(draw, input, telling, CHANGES_MAX, INPUT_MAX);
}

static bool option(const char *argument, const char *name, const char **value)
{
    size_t size = strlen(name);

    if (strncmp(argument, name, size) != 0)
        return false;
    *value = argument + size;
    return true;
}

int main(int count, char **arguments)
{
    const char *name = strrchr(arguments[0], '/') != NULL ? strrchr(arguments[0], '/') + 1 : arguments[0];
    const char *seconds = "10", *runs = "-1", *seed_text = NULL, *prefix = "";
    struct corpus corpus = { 0 };
    struct fuzz_input draw;
    struct buffer input = { 0 };
    bool files_only = false;
    uint64_t seed, done = 0;
    int64_t end_us;

    for (int i = 1; i < count; i++) {
        struct stat about;

        if (option(arguments[i], "-max_total_time=", &seconds) || option(arguments[i], "-runs=", &runs) ||
            option(arguments[i], "-seed=", &seed_text) || option(arguments[i], "-artifact_prefix=", &prefix) || arguments[i][0] == '-')
            continue;
        if (stat(arguments[i], &about) == 0 && S_ISDIR(about.st_mode)) {
            load_directory(&corpus, arguments[i]);
        } else {
            load_file(&corpus, arguments[i]);
            files_only = true;
        }
    }
    if (seed_text != NULL)
        seed = strtoull(seed_text, NULL, 0);
    else
        random_system(&seed, sizeof(seed));
    printf("%s: seed %" PRIu64 ", %zu inputs\n", name, seed, corpus.count);
    fflush(stdout);
    CHECK(snprintf(crash_path, sizeof(crash_path), "%scrash", prefix) < (int)sizeof(crash_path));
    signal(SIGABRT, save_input);
    LLVMFuzzerInitialize(&count, &arguments);

    for (size_t i = 0; i < corpus.count; i++)
        run(buffer_bytes(&corpus.inputs[i]));
    fuzz_begin(&draw, (const uint8_t *)&seed, sizeof(seed));
    draw.at = draw.size;        /* the seed only */
    end_us = clock_mono_us() + atoll(seconds) * 1000000;
    while (!files_only && clock_mono_us() < end_us && done != strtoull(runs, NULL, 0)) {
        make_input(&corpus, &draw, &input);
        run(buffer_bytes(&input));
        done++;
    }
    printf("%s: %" PRIu64 " more inputs\n", name, done);
    for (size_t i = 0; i < corpus.count; i++)
        buffer_release(&corpus.inputs[i]);
    mem_free(corpus.inputs);
    buffer_release(&input);
    return 0;
}

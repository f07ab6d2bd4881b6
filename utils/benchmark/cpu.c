#include "cpu.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

struct thread_time {
    uint64_t tid, ns;
};

struct cpu_sample {
    uint64_t process_ns;            /* utime + stime */
    bool threads_known;
    size_t thread_count;
    struct thread_time *threads;
};

/* The 14th and 15th field are utime and stime in ticks; the 2nd is the program's name, which may contain any character, so
 * the fields are counted from after its closing parenthesis.
 */
static bool process_time(uint64_t pid, uint64_t *ns)
{
    char path[64], text[1024];
    unsigned long long user, system;
    const char *at;
    size_t size;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
    file = fopen(path, "r");
    if (file == NULL)
        return false;
    size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[size] = 0;
    at = strrchr(text, ')');
    if (at == NULL || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
        return false;
    *ns = (user + system) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
    return true;
}

static bool thread_time(uint64_t pid, uint64_t tid, uint64_t *ns)
{
    char path[96];
    unsigned long long run;
    FILE *file;
    bool fine;

    snprintf(path, sizeof(path), "/proc/%llu/task/%llu/schedstat", (unsigned long long)pid, (unsigned long long)tid);
    file = fopen(path, "r");
    if (file == NULL)
        return false;
    fine = fscanf(file, "%llu", &run) == 1;
    fclose(file);
    *ns = run;
    return fine;
}

static bool threads_time(uint64_t pid, struct cpu_sample *sample)
{
    char path[64];
    struct dirent *entry;
    DIR *dir;
    bool any = false;

    snprintf(path, sizeof(path), "/proc/%llu/task", (unsigned long long)pid);
    dir = opendir(path);
    if (dir == NULL)
        return false;
    while ((entry = readdir(dir)) != NULL) {
        struct thread_time thread = { .tid = strtoull(entry->d_name, NULL, 10) };

        if (thread.tid == 0 || !thread_time(pid, thread.tid, &thread.ns))
            continue;
        any |= thread.ns > 0;
        sample->threads = mem_realloc(sample->threads, (sample->thread_count + 1) * sizeof(thread));
        sample->threads[sample->thread_count++] = thread;
    }
    closedir(dir);
    return any;
}

struct cpu_sample *cpu_sample_create(uint64_t pid)
{
    struct cpu_sample *sample = mem_zalloc(sizeof(*sample));

    if (!process_time(pid, &sample->process_ns)) {
        cpu_sample_destroy(sample);
        return NULL;
    }
    sample->threads_known = threads_time(pid, sample);
    return sample;
}

void cpu_sample_destroy(struct cpu_sample *sample)
{
    if (sample == NULL)
        return;
    mem_free(sample->threads);
    mem_free(sample);
}

static const struct thread_time *thread_find(const struct cpu_sample *sample, uint64_t tid)
{
    for (size_t i = 0; i < sample->thread_count; i++)
        if (sample->threads[i].tid == tid)
            return &sample->threads[i];
    return NULL;
}

uint64_t cpu_used_ns(const struct cpu_sample *before, const struct cpu_sample *after)
{
    uint64_t used = 0;
    size_t stayed = 0;

    for (size_t i = 0; i < after->thread_count; i++) {
        const struct thread_time *then = thread_find(before, after->threads[i].tid);

        used += after->threads[i].ns - (then ? then->ns : 0);
        stayed += then != NULL;
    }
    if (before->threads_known && after->threads_known && stayed == before->thread_count)
        return used;
    return after->process_ns - before->process_ns;
}

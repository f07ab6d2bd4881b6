/* kelvin-check [--repair [--revive-deleted]] [--compressibility] [--dirname appendonlydir] [--name appendonly.aof] PATH */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/version.h"
#include "check.h"
#include "persist/rdb_reader.h"
#include "store/store.h"

enum { EXIT_FINE = 0, EXIT_DAMAGE = 1, EXIT_USAGE = 2 };

static int fail_usage(const char *format, const char *path)
{
    fprintf(stderr, "kelvin-check: ");
    fprintf(stderr, format, path);
    fputc('\n', stderr);
    return EXIT_USAGE;
}

static void print_help(void)
{
    puts("Usage: kelvin-check [options] PATH\n"
         "\n"
         "Verifies the data of a server that is not running. PATH is its directory (`dir`), a backup made by TIER BACKUP,\n"
         "a log's directory (appendonlydir), or an RDB file.\n"
         "\n"
         "  --repair             repair what can be repaired, and report what is lost; what is cut off is kept as *.bad-<time>\n"
         "  --revive-deleted     with --repair: go on where only the values are left, and not which keys were deleted:\n"
         "                       deleted keys come back, and so may older values of keys whose last value is damaged\n"
         "  --compressibility    also say what tier-compression would make of the values, from a sample of each database\n"
         "  --dirname NAME       appenddirname, if it is not appendonlydir\n"
         "  --name NAME          appendfilename, if it is not appendonly.aof\n"
         "  --tier-dir NAME      tier-dir, if it is not store: only to see whether a server has it open\n"
         "  -v, --version        print the version\n"
         "  -h, --help           print this help\n"
         "\n"
         "Exit status: 0 no damage (or repaired: see what is lost), 1 damage, 2 the check was not possible.");
}

/* A running server has a lock (fcntl) on its store, whether it has a log or not. */
static bool is_store_locked(const char *dir, const char *tier_dir)
{
    char path[CHECK_PATH_SIZE];

    snprintf(path, sizeof(path), "%s%s%s", tier_dir[0] == '/' ? "" : dir, tier_dir[0] == '/' ? "" : "/", tier_dir);
    return store_is_locked(path);
}

static int print_result(const struct check *check)
{
    if (check->damages == 0) {
        puts("No damage was found.");
        return EXIT_FINE;
    }
    if (check->newer) {
        puts("A file was written by a newer Kelvin, so this program does not know what is damaged. It repairs nothing here.");
        return EXIT_USAGE;
    }
    if (!check->repair) {
        printf("Damage was found: %llu. Nothing was changed; --repair repairs what can be repaired. Restoring a backup may be better.\n",
            (unsigned long long)check->damages);
        return EXIT_DAMAGE;
    }
    printf("Damage was found: %llu. Repairs: %llu.", (unsigned long long)check->damages, (unsigned long long)check->repairs);
    puts(check->unrepaired > 0 ? " Not all of it can be repaired: restore a backup." : " Run kelvin-check again to verify the result.");
    return check->unrepaired > 0 || check->repairs == 0 ? EXIT_DAMAGE : EXIT_FINE;
}

static int check_directory(struct check *check, const char *log_dir)
{
    check->dir = log_dir;
    check->dir_fd = open(log_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (check->dir_fd < 0)
        return fail_usage("can't open '%s'", log_dir);
    if (flock(check->dir_fd, LOCK_EX | LOCK_NB) != 0)
        return fail_usage("'%s' is in use by a server: stop it first", log_dir);
    logs_check(check);
    aof_manifest_release(&check->manifest);
    close(check->dir_fd);
    return print_result(check);
}

static int check_path(struct check *check, const char *path, const char *dirname, const char *tier_dir)
{
    char log[CHECK_PATH_SIZE], other[CHECK_PATH_SIZE + 16];
    struct stat info;

    if (stat(path, &info) != 0)
        return fail_usage("'%s' does not exist", path);
    if (S_ISREG(info.st_mode)) {
        char head[5] = "";
        FILE *file = fopen(path, "re");
        bool is_rdb = file != NULL && fread(head, 1, sizeof(head), file) == sizeof(head) && rdb_is_one(bytes_of(head, sizeof(head)));

        if (file != NULL)
            fclose(file);
        if (!is_rdb)
            return fail_usage("'%s' is not an RDB file; for a log, give its directory", path);
        rdb_check(check, path);
        return print_result(check);
    }
    if (snprintf(log, sizeof(log), "%s/%s", path, dirname) >= (int)sizeof(log))
        return fail_usage("'%s' is too long", path);
    if (is_store_locked(path, tier_dir))
        return fail_usage("a server runs on '%s': stop it first", path);
    if (access(log, F_OK) == 0)
        return check_directory(check, log);
    snprintf(other, sizeof(other), "%s.incomplete", log);
    if (access(other, F_OK) == 0) {
        check_damage(check, other, "left by an interrupted backup or --restore, incomplete: repeat that, or remove it");
        check_part(check, "log", 0, "%s does not exist", log);
        check_unrepaired(check, "a backup or restore that was never completed");
        return print_result(check);
    }
    snprintf(other, sizeof(other), "%s/%s.manifest", path, check->name);
    if (access(other, F_OK) == 0)
        return check_directory(check, path);
    return fail_usage("there is no log in '%s': it is neither the directory of a server with appendonly yes nor a backup", path);
}

struct options {
    const char *path, *dirname, *tier_dir;
    int status;                     /* the exit status if there is nothing to check, or -1 */
};

static void read_options(struct check *check, int count, char **arguments, struct options *options)
{
    *options = (struct options){ NULL, "appendonlydir", "store", -1 };
    for (int i = 1; i < count && options->status < 0; i++) {
        const char *word = arguments[i];
        const char **value = strcmp(word, "--dirname") == 0 ? &options->dirname : strcmp(word, "--name") == 0 ? &check->name
                             : strcmp(word, "--tier-dir") == 0 ? &options->tier_dir : NULL;

        if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
            print_help();
            options->status = EXIT_FINE;
        } else if (strcmp(word, "-v") == 0 || strcmp(word, "--version") == 0) {
            printf("kelvin-check %s\n", KELVIN_VERSION);
            options->status = EXIT_FINE;
        } else if (strcmp(word, "--repair") == 0) {
            check->repair = true;
        } else if (strcmp(word, "--compressibility") == 0) {
            check->compressibility = true;
        } else if (strcmp(word, "--revive-deleted") == 0) {
            check->revive = true;
        } else if (value != NULL && i + 1 < count) {
            *value = arguments[++i];
        } else if (word[0] == '-' || options->path != NULL) {
            options->status = fail_usage("'%s' is not an option; see --help", word);
        } else {
            options->path = word;
        }
    }
    if (options->status < 0 && options->path == NULL) {
        print_help();
        options->status = EXIT_USAGE;
    }
}

int main(int count, char **arguments)
{
    struct check *check = mem_zalloc(sizeof(*check));
    struct options options;

    check->name = "appendonly.aof";
    check->report.output = progress_report_output();
    read_options(check, count, arguments, &options);
    if (options.status < 0) {
        snprintf(check->stamp, sizeof(check->stamp), "bad-%lld", (long long)time(NULL));
        options.status = check_path(check, options.path, options.dirname, options.tier_dir);
    }
    mem_free(check);
    return options.status;
}

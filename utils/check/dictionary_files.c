#include "dictionary_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/tree.h"
#include "check.h"
#include "store/dictionaries.h"

enum { FILE_SIZE_MAX = DICTIONARY_SIZE_MAX + 1024 };

void lacking_add(struct lacking *lacking, uint32_t number)
{
    size_t i = 0;

    while (i < lacking->count && lacking->list[i].number != number)
        i++;
    if (i == LACKING_MAX) {
        lacking->others++;
        return;
    }
    lacking->list[i].number = number;
    lacking->list[i].records++;
    lacking->count += i == lacking->count;
}

static const char newer_file[] = "it was written by a newer Kelvin";

/* NULL, or what is wrong with a file that is there. */
static const char *judge(const char *path, uint32_t number)
{
    struct buffer file = { 0 };
    struct dictionary dictionary;
    struct bytes bytes;
    enum status status = file_read_all(disk_system(), AT_FDCWD, path, FILE_SIZE_MAX, &file);
    const char *what = NULL;

    if (status != STATUS_OK)
        what = status == STATUS_TOO_LARGE ? "it is too large" : strerror(errno);
    else
        status = dictionary_parse(buffer_bytes(&file), &dictionary, &bytes);
    if (what == NULL && status == STATUS_VERSION)
        what = newer_file;
    else if (what == NULL && status != STATUS_OK)
        what = "its checksum or its head is invalid";
    else if (what == NULL && dictionary.number != number)
        what = "it is another dictionary";
    buffer_release(&file);
    return what;
}

bool dictionary_files_check(struct check *check, const char *dir)
{
    char path[CHECK_PATH_SIZE * 2];
    uint64_t before = check->damages, count = 0;
    DIR *list = opendir(dir);
    struct dirent *entry;
    uint32_t number;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        const char *what;

        if (!dictionary_is_file(entry->d_name, &number))
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        what = judge(path, number);
        if (what != NULL)
            check_damage(check, "dictionary", "%s: %s", entry->d_name, what);
        if (what == newer_file)
            check_newer(check, entry->d_name);
        count++;
    }
    if (list != NULL)
        closedir(list);
    if (count > 0)
        check_part(check, "dictionaries", before, "%llu files", (unsigned long long)count);
    return check->damages != before;
}

void dictionary_files_report(struct check *check, const char *dir, const struct lacking *lacking)
{
    char name[DICTIONARY_NAME_SIZE], path[CHECK_PATH_SIZE * 2];

    for (size_t i = 0; i < lacking->count; i++) {
        dictionary_name(lacking->list[i].number, name);
        snprintf(path, sizeof(path), "%s/%s", dir, name);
        check_note(check, "%s is %s: %llu records need it and can't be read", name, access(path, F_OK) == 0 ? "damaged" : "missing",
            (unsigned long long)lacking->list[i].records);
    }
    if (lacking->others > 0)
        check_note(check, "%llu records need other dictionaries that are missing", (unsigned long long)lacking->others);
}

bool dictionary_files_link(const char *dir, const char *to, struct message *message)
{
    char from_path[CHECK_PATH_SIZE * 2], to_path[CHECK_PATH_SIZE * 2];
    DIR *list = opendir(dir);
    struct dirent *entry;
    bool good = true;
    uint32_t number;

    while (list != NULL && good && (entry = readdir(list)) != NULL) {
        if (!dictionary_is_file(entry->d_name, &number))
            continue;
        snprintf(from_path, sizeof(from_path), "%s/%s", dir, entry->d_name);
        snprintf(to_path, sizeof(to_path), "%s/%s", to, entry->d_name);
        if (judge(from_path, number) == NULL && link(from_path, to_path) != 0)
            good = tree_copy_file(from_path, to_path, NULL, message) == STATUS_OK;
    }
    if (list != NULL)
        closedir(list);
    return good && tree_sync(to, message) == STATUS_OK;
}

#include "persist/image_keys.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mapped.h"
#include "base/mem.h"
#include "base/message.h"
#include "persist/dataset_file.h"
#include "tier/tags.h"

struct counting {
    const struct dataset_file *dataset;
    struct image_keys *keys;
};

/* Records of incarnations that no database has are to be purged, and not counted. */
static bool count_section(void *context, const struct tags_section *section)
{
    struct counting *counting = context;
    int db = dataset_file_db_of(counting->dataset, section->incarnation);

    if (db >= 0 && !incarnation_is_of_pages(section->incarnation))
        counting->keys->counts[db] += section->count;
    return true;
}

static enum status count_tags(const char *path, const struct dataset_file *dataset, struct image_keys *keys, struct message *message)
{
    struct counting counting = { dataset, keys };
    struct message problem = { "" };
    const char *wrong = NULL;
    uint32_t partition_count;
    struct mapped mapped;
    enum status status;

    if (!mapped_open(path, &mapped, &problem)) {
        status = status_of_errno(errno);
        message_set(message, "can't open '%.150s': %.60s", path, problem.text);
        return status;
    }
    status = tags_list_file(&(struct tags_file){ mapped.bytes, NULL, mapped_forget }, &partition_count, count_section, &counting, &wrong);
    if (status == STATUS_VERSION)
        message_set(message, "'%.150s' can't be read: %s", path, wrong);
    else if (status != STATUS_OK)
        message_set(message, "'%.150s' is damaged: %s", path, wrong);
    mapped_close(&mapped);
    return status;
}

enum status image_keys_count(const char *image, struct image_keys *keys, struct message *message)
{
    struct dataset_file dataset;
    char path[4096];
    const char *problem = NULL;
    enum status status;

    *keys = (struct image_keys){ 0 };
    status = dataset_file_load_image(image, &dataset, &problem);
    if (status != STATUS_OK) {
        message_set(message, "'%.140s/dataset' %s: %.70s", image, status == STATUS_VERSION ? "can't be read" : "is damaged, and there is no good copy of it", problem);
        return status;
    }
    status = dataset_file_verify(&dataset, image, message);
    if (status != STATUS_OK) {
        dataset_file_release(&dataset);
        return status;
    }
    keys->db_count = dataset.db_count;
    keys->counts = mem_zalloc((size_t)dataset.db_count * sizeof(keys->counts[0]));
    snprintf(path, sizeof(path), "%s/tags", image);
    status = count_tags(path, &dataset, keys, message);
    if (status != STATUS_OK)
        image_keys_release(keys);
    dataset_file_release(&dataset);
    return status;
}

void image_keys_release(struct image_keys *keys)
{
    mem_free(keys->counts);
    *keys = (struct image_keys){ 0 };
}

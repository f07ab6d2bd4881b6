#include "support/store_image.h"

#include <sstream>

#include "store/store_body.h"

extern "C" {
#include "base/check.h"
}

void store_image_close(struct store *store)
{
    std::shared_ptr<const key_run_list> runs;
    struct message message;

    segments_seal(store->segments);
    CHECK(segments_sync(store->segments) == STATUS_OK);
    store->runs->end_work();
    CHECK(store->runs->save(&runs).ok());
    CHECK(meta_write(store->env->disk, store->dir, store_meta_of(store, *runs), &message) == STATUS_OK);
    runs.reset();
    store_close(store);
}

void store_image_set_runs(const char *dir, const char *lines)
{
    std::istringstream text(lines);
    struct store_meta meta;
    struct message message;
    std::string line;

    CHECK(meta_read(disk_system(), dir, &meta, &message) == STATUS_OK);
    meta.runs.clear();
    while (std::getline(text, line)) {
        std::istringstream words(line);
        struct key_run_facts run;
        uint32_t incarnation;
        uint64_t entries;
        char colon;

        words >> run.number >> run.tombstones >> run.bytes;
        while (words >> incarnation >> colon >> entries)
            run.incarnations.emplace_back(incarnation, entries);
        meta.runs.push_back(run);
    }
    CHECK(remove((std::string(dir) + "/" + META_NAME).c_str()) == 0);
    CHECK(meta_write(disk_system(), dir, meta, &message) == STATUS_OK);
}

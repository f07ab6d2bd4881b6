#include "tier/image_pages.h"

#include <string.h>

#include "base/mem.h"
#include "containers/list_page.h"
#include "containers/order_page.h"
#include "containers/page_tree.h"
#include "containers/pair_page.h"
#include "keyspace/pages.h"
#include "store/segments.h"
#include "tier/damage.h"
#include "tier/record.h"
#include "tier/tags.h"
#include "value/codec.h"
#include "value/paged_list.h"
#include "value/stream_nodes.h"

enum { ROOTS_FIRST = 64, PART_SIZE = 256 << 10, NODES_KEPT = 4 };

struct image_root {
    size_t key_at, key_size, record_at, record_size;        /* in `text` */
    uint64_t id;
    struct paged_root root;
    bool has_pages;                     /* false: a stream without entries; there may be no map of its partition */
};

void image_roots_add(struct image_roots *roots, const struct image_item *item)
{
    struct paged_extent extent = { 0 };
    struct image_root *added;

    if (roots->count == roots->capacity) {
        roots->capacity = roots->capacity > 0 ? roots->capacity * 2 : ROOTS_FIRST;
        roots->list = mem_realloc(roots->list, roots->capacity * sizeof(*roots->list));
    }
    added = &roots->list[roots->count++];
    *added = (struct image_root){ .key_at = roots->text.size, .key_size = item->key.size, .record_at = roots->text.size + item->key.size,
        .record_size = item->record.size };
    buffer_append_bytes(&roots->text, item->key);
    buffer_append_bytes(&roots->text, item->record);
    (void)record_peek_pages(item->record, &extent, &added->root);
    added->id = extent.id;
    added->has_pages = paged_pages(&extent) > 0;
}

void image_roots_release(struct image_roots *roots)
{
    mem_free(roots->list);
    buffer_release(&roots->text);
    *roots = (struct image_roots){ 0 };
}

struct pages_reading {
    struct store *store;
    uint32_t incarnation;               /* of the page space */
    const struct image_roots *roots;
    const struct image_value_found *found;
    struct message *message;
    uint32_t partition_count;
    uint64_t passed;                    /* roots */
    uint8_t rdb_type;                   /* of the value */
    int64_t first_ms;                   /* of a hash with times: they are not before it */
    enum status status;
    struct segment_buffer room;
    struct buffer record, unpacked, payload;
};

static struct bytes key_of(const struct pages_reading *reading, const struct image_root *root)
{
    return bytes_of(reading->roots->text.data + root->key_at, root->key_size);
}

static bool fail_page(struct pages_reading *reading, const struct image_root *root, uint32_t number, enum status status)
{
    struct buffer text = { 0 };

    damage_key(&text, 0, key_of(reading, root));
    message_set(reading->message, "page %u of the key %.*s can't be read: %s", number, (int)text.size, text.data, status_name(status));
    buffer_release(&text);
    reading->status = status;
    return false;
}

/* The page's bytes, in the buffers. */
static enum status read_page(struct pages_reading *reading, const struct recordmap *map, const struct image_root *root, uint32_t number, struct bytes *page)
{
    struct value_limits limits = { 0 };
    char name[PAGE_NAME_SIZE];
    uint64_t hash = pages_name(root->id, number, name), place;
    struct segment *segment;
    struct record record;
    enum status status;

    if (!recordmap_find(map, hash, bytes_of(name, sizeof(name)), &place) || !place_is_in_segment(place))
        return STATUS_CORRUPT;
    segment = segments_pin(store_segments(reading->store), place);
    reading->record.size = reading->unpacked.size = 0;
    status = segment_check(segment, place);
    if (status == STATUS_OK)
        status = segments_read(store_segments(reading->store), segment, place, SEGMENT_BUFFERED, reading->incarnation, bytes_of(name, sizeof(name)), &reading->room,
            &reading->record, NULL);
    segments_unpin(segment);
    if (status == STATUS_OK)
        status = record_decode(buffer_bytes(&reading->record), store_dictionaries(reading->store), &limits, &reading->unpacked, &record);
    if (status != STATUS_OK)
        return status == STATUS_NOT_FOUND ? STATUS_CORRUPT : status;
    if (!pages_is_page(&record.value)) {
        value_free(&record.value);
        return STATUS_CORRUPT;
    }
    *page = pages_bytes_of(&record.value);
    if (record.value.encoding != STRING_BIG)
        return STATUS_OK;
    reading->unpacked.size = 0;             /* its blob would have to be freed by the caller */
    buffer_append_bytes(&reading->unpacked, *page);
    *page = buffer_bytes(&reading->unpacked);
    value_free(&record.value);
    return STATUS_OK;
}

static const uint8_t rdb_types[] = { [VALUE_STRING] = CODEC_RDB_STRING, [VALUE_HASH] = CODEC_RDB_HASH, [VALUE_SET] = CODEC_RDB_SET, [VALUE_ZSET] = CODEC_RDB_ZSET_2, [VALUE_LIST] = CODEC_RDB_LIST_QUICKLIST_2, [VALUE_STREAM] = CODEC_RDB_STREAM_2 };

static bool append_pairs(struct pages_reading *reading, struct bytes page, enum value_type type, uint64_t *count)
{
    if (!pair_page_is_sound(page))
        return false;
    *count += pair_page_count(page);
    for (uint32_t i = 0; i < pair_page_count(page); i++) {
        struct pair pair = pair_page_at(page, i);
        uint64_t first = (uint64_t)reading->first_ms;

        if (reading->rdb_type == CODEC_RDB_HASH_TIMES) {
            if (pair.number > 0 && pair.number < first)
                return false;
            codec_write_length(&reading->payload, pair.number > 0 ? pair.number - first + 1 : 0);
        }
        codec_write_string(&reading->payload, pair.key);
        if (type == VALUE_HASH)
            codec_write_string(&reading->payload, pair.value);
    }
    return true;
}

/* Hands over the elements that were collected. */
static bool pass_on(struct pages_reading *reading, const struct image_item *item)
{
    reading->status = reading->found->more(reading->found->context, item, reading->rdb_type, buffer_bytes(&reading->payload));
    reading->payload.size = 0;
    return reading->status == STATUS_OK;
}

static bool begin_value(struct pages_reading *reading, const struct image_item *item, uint64_t count)
{
    reading->payload.size = 0;
    buffer_append_u8(&reading->payload, reading->rdb_type);
    if (reading->rdb_type == CODEC_RDB_HASH_TIMES)
        buffer_append(&reading->payload, &reading->first_ms, sizeof(reading->first_ms));
    codec_write_length(&reading->payload, count);
    reading->status = reading->found->begin(reading->found->context, item, buffer_bytes(&reading->payload));
    reading->payload.size = 0;
    return reading->status == STATUS_OK;
}

/* Page by page. */
static bool read_table(struct pages_reading *reading, const struct recordmap *map, const struct image_root *root, const struct image_item *item, enum value_type type)
{
    uint64_t count = 0;
    struct bytes page;

    if (!begin_value(reading, item, root->root.count))
        return false;
    for (uint32_t number = 0; number < root->root.pages; number++) {
        enum status status = read_page(reading, map, root, number, &page);

        if (status == STATUS_OK && !append_pairs(reading, page, type, &count))
            status = STATUS_CORRUPT;
        if (status != STATUS_OK)
            return fail_page(reading, root, number, status);
        if (reading->payload.size >= PART_SIZE && !pass_on(reading, item))
            return false;
    }
    return count == root->root.count || fail_page(reading, root, 0, STATUS_CORRUPT);
}

static bool read_string(struct pages_reading *reading, const struct recordmap *map, const struct image_root *root, const struct image_item *item)
{
    uint64_t length, left;
    struct bytes page;
    uint32_t block;

    if (!record_peek_string(item->record, &length, &block))
        return fail_page(reading, root, 0, STATUS_CORRUPT);
    if (!begin_value(reading, item, length))
        return false;
    left = length;
    for (uint32_t number = 0; number < root->root.pages; number++) {
        enum status status = read_page(reading, map, root, number, &page);
        size_t size = left < block ? (size_t)left : block;

        if (status == STATUS_OK && page.size > size)
            status = STATUS_CORRUPT;
        if (status != STATUS_OK)
            return fail_page(reading, root, number, status);
        buffer_append_bytes(&reading->payload, page);
        memset(buffer_reserve(&reading->payload, size - page.size), 0, size - page.size);
        reading->payload.size += size - page.size;
        left -= size;
        if (reading->payload.size >= PART_SIZE && !pass_on(reading, item))
            return false;
    }
    return true;
}

/* The nodes of a tree, of which those that were read last are kept. */
struct node_pager {
    struct pager pager;             /* first */
    struct pages_reading *reading;
    const struct recordmap *map;
    const struct image_root *root;
    uint32_t next;                  /* of the tree */
    struct {
        uint32_t number;
        struct buffer bytes;        /* empty: none */
    } kept[NODES_KEPT];
    uint32_t turn;
    uint32_t failed;                /* the page that can't be read */
    enum status status;
};

static const char *find_node(struct pager *pager, uint32_t number, enum pager_use use, size_t *size)
{
    struct node_pager *nodes = (struct node_pager *)pager;
    uint32_t at = nodes->turn;
    struct bytes page;

    (void)use;
    for (uint32_t i = 0; i < NODES_KEPT; i++) {
        if (nodes->kept[i].bytes.size > 0 && nodes->kept[i].number == number) {
            *size = nodes->kept[i].bytes.size;
            return nodes->kept[i].bytes.data;
        }
    }
    nodes->failed = PAGED_TREE_FIRST + number;
    nodes->status = read_page(nodes->reading, nodes->map, nodes->root, nodes->failed, &page);
    if (nodes->status == STATUS_OK && !page_tree_node_is_sound(page, nodes->next))
        nodes->status = STATUS_CORRUPT;
    if (nodes->status != STATUS_OK)
        return NULL;
    nodes->turn = (at + 1) % NODES_KEPT;
    nodes->kept[at].number = number;
    nodes->kept[at].bytes.size = 0;
    buffer_append_bytes(&nodes->kept[at].bytes, page);
    *size = page.size;
    return nodes->kept[at].bytes.data;
}

/* `count`: how many it has. */
static bool append_list_page(struct pages_reading *reading, struct bytes page, uint64_t *count)
{
    if (!list_page_is_sound(page))
        return false;
    *count = list_page_count(page);
    codec_write_list_page(&reading->payload, page);
    return true;
}

static bool append_stream_page(struct pages_reading *reading, struct bytes page, uint64_t *count)
{
    if (!stream_page_is_sound(page, count))
        return false;
    codec_write_stream_node(&reading->payload, stream_page_id(page), stream_page_pack(page));
    return true;
}

static bool append_order_page(struct pages_reading *reading, struct bytes page, uint64_t *count)
{
    if (!order_page_is_sound(page))
        return false;
    *count = order_page_count(page);
    for (uint32_t i = order_page_count(page); i-- > 0; ) {
        struct order_element element = order_page_at(page, i);

        codec_write_string(&reading->payload, element.member);
        buffer_append(&reading->payload, &element.score, sizeof(element.score));
    }
    return true;
}

static bool append_leaf(struct pages_reading *reading, enum value_type type, struct bytes page, uint64_t *count)
{
    if (type == VALUE_LIST)
        return append_list_page(reading, page, count);
    return type == VALUE_STREAM ? append_stream_page(reading, page, count) : append_order_page(reading, page, count);
}

static bool walk_leaves(struct pages_reading *reading, const struct page_tree *tree, struct node_pager *nodes, const struct image_item *item, enum value_type type)
{
    bool is_down = type == VALUE_ZSET;
    struct page_tree_path path;
    uint64_t left = tree->root->count, count = 0;
    enum page_tree_answer answer = is_down ? page_tree_last(tree, &path) : page_tree_first(tree, &path);
    struct bytes page;

    for (; answer == PAGE_TREE_YES; answer = is_down ? page_tree_previous(tree, &path) : page_tree_next(tree, &path)) {
        enum status status = read_page(reading, nodes->map, nodes->root, PAGED_TREE_FIRST + path.leaf, &page);

        if (status == STATUS_OK && (!append_leaf(reading, type, page, &count) || count > left))
            status = STATUS_CORRUPT;
        if (status != STATUS_OK)
            return fail_page(reading, nodes->root, PAGED_TREE_FIRST + path.leaf, status);
        left -= count;
        if (reading->payload.size >= PART_SIZE && !pass_on(reading, item))
            return false;
    }
    if (answer == PAGE_TREE_MISSING)
        return fail_page(reading, nodes->root, nodes->failed, nodes->status);
    return left == 0 || fail_page(reading, nodes->root, PAGED_TREE_FIRST, STATUS_CORRUPT);
}

static bool end_stream(struct pages_reading *reading, const struct image_root *root, const struct image_item *item)
{
    struct value_limits limits = { 0 };
    struct record record;

    if (!pass_on(reading, item))
        return false;
    reading->unpacked.size = 0;
    if (record_decode(item->record, store_dictionaries(reading->store), &limits, &reading->unpacked, &record) != STATUS_OK)
        return fail_page(reading, root, 0, STATUS_CORRUPT);
    codec_write_stream_rest_for_dump(&record.value, &reading->payload);
    value_free(&record.value);
    reading->status = reading->found->end(reading->found->context, buffer_bytes(&reading->payload));
    reading->payload.size = 0;
    return reading->status == STATUS_OK;
}

/* The parts that a list or a stream has with its root. */
static bool peek_ends(struct bytes record, enum value_type type, struct bytes ends[2])
{
    if (type == VALUE_STREAM)
        return record_peek_tail(record, &ends[LIST_TAIL]);
    return type != VALUE_LIST || record_peek_ends(record, ends);
}

static void append_end(struct pages_reading *reading, enum value_type type, struct bytes end)
{
    if (end.size == 0)
        return;
    if (type == VALUE_LIST)
        codec_write_list_pack(&reading->payload, end);
    else
        codec_write_stream_node(&reading->payload, stream_page_id(end), stream_page_pack(end));
}

/* The highest element of a sorted set comes first, which is the order in which Redis and this server load it fastest. */
static bool read_tree(struct pages_reading *reading, const struct recordmap *map, const struct image_root *root, const struct image_item *item, enum value_type type)
{
    struct node_pager nodes = { .pager = { .find = find_node }, .reading = reading, .map = map, .root = root };
    struct page_tree_root tree_root;
    struct page_tree tree = { &tree_root, &nodes.pager, PAGE_TREE_LIMITS_DEFAULT };
    struct bytes ends[2] = { { NULL, 0 }, { NULL, 0 } };
    bool good;

    if (!peek_ends(item->record, type, ends) || !record_peek_tree(item->record, &tree_root))
        return fail_page(reading, root, 0, STATUS_CORRUPT);
    nodes.next = tree_root.next;
    /* Redis' lists and streams begin with how many chunks there are. */
    good = begin_value(reading, item, type == VALUE_ZSET ? root->root.count : tree_root.leaves + (ends[LIST_HEAD].size > 0) + (ends[LIST_TAIL].size > 0));
    append_end(reading, type, ends[LIST_HEAD]);
    good = good && walk_leaves(reading, &tree, &nodes, item, type);
    append_end(reading, type, ends[LIST_TAIL]);
    good = good && (type != VALUE_STREAM || end_stream(reading, root, item));
    for (int i = 0; i < NODES_KEPT; i++)
        buffer_release(&nodes.kept[i].bytes);
    page_tree_root_release(&tree_root);
    return good;
}

static bool read_value(struct pages_reading *reading, const struct recordmap *map, const struct image_root *root)
{
    struct image_item item = { 0, key_of(reading, root), bytes_of(reading->roots->text.data + root->record_at, root->record_size) };
    enum value_type type = VALUE_HASH;
    struct value kind = { 0 };
    int64_t gone_ms;
    bool good;

    if (record_peek(item.record, &gone_ms, &type) != STATUS_OK)
        return fail_page(reading, root, 0, STATUS_CORRUPT);
    kind.type = (uint8_t)type;
    reading->rdb_type = rdb_types[type];
    if (record_peek_first_time(item.record, &reading->first_ms)) {
        if (reading->found->times_dropped != NULL)
            ++*reading->found->times_dropped;
        else
            reading->rdb_type = CODEC_RDB_HASH_TIMES;
    }
    if (type == VALUE_STRING)
        good = read_string(reading, map, root, &item);
    else
        good = paged_walks_tree(&kind) ? read_tree(reading, map, root, &item, type) : read_table(reading, map, root, &item, type);
    if (!good)
        return false;
    reading->passed++;
    return pass_on(reading, &item);
}

static uint32_t partition_of(const struct pages_reading *reading, uint64_t id)
{
    return reading->partition_count == 1 ? 0 : (uint32_t)(id << (64 - PAGE_ID_BITS) >> (64 - __builtin_ctz(reading->partition_count)));
}

static bool read_section(void *context, const struct tags_section *section)
{
    struct pages_reading *reading = context;
    struct recordmap *map = NULL;
    bool more = true;

    if (section->incarnation != reading->incarnation)
        return true;
    for (size_t i = 0; i < reading->roots->count && more; i++) {
        if (!reading->roots->list[i].has_pages || partition_of(reading, reading->roots->list[i].id) != section->partition)
            continue;
        if (map == NULL)
            map = tags_section_map(section);
        if (map == NULL) {
            message_set(reading->message, "a record map of the image can't be read");
            reading->status = STATUS_CORRUPT;
            return false;
        }
        more = read_value(reading, map, &reading->roots->list[i]);
    }
    recordmap_destroy(map);
    return more;
}

static bool read_empty(struct pages_reading *reading)
{
    bool more = true;

    for (size_t i = 0; i < reading->roots->count && more; i++) {
        if (!reading->roots->list[i].has_pages)
            more = read_value(reading, NULL, &reading->roots->list[i]);
    }
    return more;
}

enum status image_pages_read(struct store *store, const struct tags_file *tags, uint32_t incarnation, const struct image_roots *roots,
    const struct image_value_found *found, struct message *message)
{
    struct pages_reading reading = { .store = store, .incarnation = incarnation | INCARNATION_PAGES, .roots = roots, .found = found, .message = message };
    enum status status;

    if (roots->count == 0)
        return STATUS_OK;
    status = read_empty(&reading) ? tags_walk_file(tags, &reading.partition_count, read_section, &reading, NULL) : reading.status;
    if (status == STATUS_INVALID)
        status = reading.status;
    if (status == STATUS_OK && reading.passed != roots->count) {
        message_set(message, "the image has no pages for %llu of its keys", (unsigned long long)(roots->count - reading.passed));
        status = STATUS_CORRUPT;
    }
    segment_buffer_release(&reading.room);
    buffer_release(&reading.record);
    buffer_release(&reading.unpacked);
    buffer_release(&reading.payload);
    return status;
}

#include "value/stream_nodes.h"

#include <endian.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "value/stream_group.h"
#include "value/stream_private.h"

enum { SIZE_SAMPLES = 2 };

struct value stream_nodes_value(const struct stream *stream)
{
    return (struct value){ .type = VALUE_STREAM, .encoding = STREAM_PAGED, .object = stream->pages };
}

static struct page_tree tree_of(const struct stream *stream)
{
    return paged_tree(stream->pages->paged.access);
}

static struct listpack **slot_at(const struct stream *stream, const struct stream_place *place)
{
    return idmap_value(&stream->nodes, place->in_memory);
}

/* --- pages --- */

struct stream_id stream_page_id(struct bytes page)
{
    struct stream_id id;

    memcpy(&id.ms, page.data, sizeof(id.ms));
    memcpy(&id.seq, page.data + sizeof(id.ms), sizeof(id.seq));
    return id;
}

struct bytes stream_page_pack(struct bytes page)
{
    return bytes_of(page.data + STREAM_PAGE_HEAD_SIZE, page.size - STREAM_PAGE_HEAD_SIZE);
}

static const struct listpack *pack_of(struct bytes page)
{
    return (const struct listpack *)(page.data + STREAM_PAGE_HEAD_SIZE);
}

static struct bytes separator_of(struct stream_id id, char room[STREAM_PAGE_HEAD_SIZE])
{
    uint64_t words[2] = { htobe64(id.ms), htobe64(id.seq) };

    memcpy(room, words, sizeof(words));
    return bytes_of(room, STREAM_PAGE_HEAD_SIZE);
}

static struct bytes read_page(const struct stream *stream, const struct page_tree_path *path)
{
    struct value value = stream_nodes_value(stream);

    return paged_tree_leaf(&value, path);
}

/* --- finding --- */

static bool reach(const struct stream *stream, struct stream_place *place, paged_tree_step *step)
{
    struct value value = stream_nodes_value(stream);

    place->is_in_page = true;
    return paged_tree_reach(&value, &place->in_pages, step);
}

/* The node that one in pages has in memory. */
static bool reach_tail(const struct stream *stream, struct stream_place *place)
{
    if (!idmap_last(&stream->nodes, &place->in_memory))
        return false;
    place->is_in_page = false;
    place->in_pages.rank = stream->pages->tree.count;
    place->in_pages.count = node_live(*slot_at(stream, place));
    return true;
}

/* Whether the ID is not below those of the node in memory; or there are no others. */
static bool belongs_to_tail(const struct stream *stream, struct stream_id id)
{
    struct idmap_place place;

    return idmap_last(&stream->nodes, &place) && (stream->pages->tree.leaves == 0 || stream_id_compare(idmap_id(&stream->nodes, place), id) <= 0);
}

bool stream_node_first(const struct stream *stream, struct stream_place *place)
{
    if (LIKELY(stream->pages == NULL))
        return idmap_first(&stream->nodes, &place->in_memory);
    return stream->pages->tree.leaves > 0 ? reach(stream, place, page_tree_first) : reach_tail(stream, place);
}

bool stream_node_last(const struct stream *stream, struct stream_place *place)
{
    if (LIKELY(stream->pages == NULL))
        return idmap_last(&stream->nodes, &place->in_memory);
    return reach_tail(stream, place) || reach(stream, place, page_tree_last);
}

bool stream_node_next(const struct stream *stream, struct stream_place *place)
{
    if (LIKELY(stream->pages == NULL))
        return idmap_next(&stream->nodes, &place->in_memory);
    if (!place->is_in_page)
        return false;
    return place->in_pages.rank + place->in_pages.count < stream->pages->tree.count ? reach(stream, place, page_tree_next) : reach_tail(stream, place);
}

bool stream_node_previous(const struct stream *stream, struct stream_place *place)
{
    if (LIKELY(stream->pages == NULL))
        return idmap_previous(&stream->nodes, &place->in_memory);
    return reach(stream, place, place->is_in_page ? page_tree_previous : page_tree_last);
}

bool stream_node_reach(const struct stream *stream, struct stream_id id, struct stream_place *place)
{
    char room[STREAM_PAGE_HEAD_SIZE];
    struct value value = stream_nodes_value(stream);
    struct page_tree tree;
    enum page_tree_answer answer;

    if (LIKELY(stream->pages == NULL))
        return idmap_seek_back(&stream->nodes, id, &place->in_memory) || idmap_first(&stream->nodes, &place->in_memory);
    if (belongs_to_tail(stream, id))
        return reach_tail(stream, place);
    tree = tree_of(stream);
    place->is_in_page = true;
    while ((answer = page_tree_seek(&tree, separator_of(id, room), &place->in_pages)) == PAGE_TREE_MISSING && paged_tree_resolve(&value, place->in_pages.missing))
        ;
    return answer == PAGE_TREE_YES;
}

/* A leaf has the place of those before it that were removed, so the node may have a higher ID: then it is the one before. */
bool stream_node_seek(const struct stream *stream, struct stream_id id, struct stream_place *place)
{
    struct stream_id first;

    if (LIKELY(stream->pages == NULL))
        return idmap_seek_back(&stream->nodes, id, &place->in_memory);
    if (!stream_node_reach(stream, id, place) || stream_node_read(stream, place, &first) == NULL)
        return false;
    return stream_id_compare(first, id) <= 0 || stream_node_previous(stream, place);
}

static bool is_in_memory(const struct stream *stream, const struct stream_place *place)
{
    return LIKELY(stream->pages == NULL) || !place->is_in_page;
}

uint64_t stream_nodes_live(const struct stream *stream)
{
    struct stream_place tail;

    return stream->pages->tree.count + (reach_tail(stream, &tail) ? tail.in_pages.count : 0);
}

uint64_t stream_node_live(const struct stream *stream, const struct stream_place *place)
{
    return is_in_memory(stream, place) ? node_live(*slot_at(stream, place)) : place->in_pages.count;
}

const struct listpack *stream_node_read(const struct stream *stream, const struct stream_place *place, struct stream_id *id)
{
    struct bytes page;

    if (is_in_memory(stream, place)) {
        *id = idmap_id(&stream->nodes, place->in_memory);
        return *slot_at(stream, place);
    }
    page = read_page(stream, &place->in_pages);
    if (page.data == NULL)
        return NULL;
    *id = stream_page_id(page);
    return pack_of(page);
}

bool stream_node_is_below(const struct stream *stream, const struct stream_place *place, struct stream_id id)
{
    char room[STREAM_PAGE_HEAD_SIZE];
    struct stream_place next = *place;
    struct page_tree tree;
    struct bytes separator;

    if (is_in_memory(stream, place))
        return false;
    if (place->in_pages.rank + place->in_pages.count == stream->pages->tree.count)
        return reach_tail(stream, &next) && stream_id_compare(idmap_id(&stream->nodes, next.in_memory), id) <= 0;
    tree = tree_of(stream);
    return page_tree_next(&tree, &next.in_pages) == PAGE_TREE_YES && page_tree_separator(&tree, &next.in_pages, &separator) &&
        bytes_compare(separator, separator_of(id, room)) <= 0;
}

size_t stream_node_count(const struct stream *stream)
{
    return stream->nodes.count + (stream->pages != NULL ? stream->pages->tree.leaves : 0);
}

size_t stream_size(const struct stream *stream)
{
    size_t in_pages = stream->pages != NULL ? stream->pages->paged.root.size : 0;
    struct stream_place first, last;

    if (!idmap_first(&stream->nodes, &first.in_memory) || !idmap_last(&stream->nodes, &last.in_memory))
        return in_pages;
    return in_pages + (listpack_size(*slot_at(stream, &first)) + listpack_size(*slot_at(stream, &last))) * stream->nodes.count / SIZE_SAMPLES;
}

/* --- changing --- */

size_t stream_node_size_max(const struct stream *stream)
{
    return stream->pages == NULL ? NODE_SIZE_MAX : paged_tree_leaf_max(stream->pages->paged.access) - STREAM_PAGE_HEAD_SIZE;
}

void stream_node_edit(struct stream *stream, const struct stream_place *place, struct stream_edit *edit)
{
    struct stream_id id;

    if (is_in_memory(stream, place)) {
        *edit = (struct stream_edit){ .pack = slot_at(stream, place) };
        return;
    }
    edit->copy = listpack_copy(stream_node_read(stream, place, &id));
    edit->pack = &edit->copy;
}

static void write_page(char *page, struct stream_id id, const struct listpack *pack)
{
    memcpy(page, &id.ms, sizeof(id.ms));
    memcpy(page + sizeof(id.ms), &id.seq, sizeof(id.seq));
    memcpy(page + STREAM_PAGE_HEAD_SIZE, pack, listpack_size(pack));
}

void stream_node_store(struct stream *stream, struct stream_place *place, struct stream_edit *edit)
{
    struct page_tree tree;
    struct stream_id id;
    struct bytes old;
    size_t size;

    if (is_in_memory(stream, place)) {
        place->in_pages.count = node_live(*edit->pack);
        return;
    }
    tree = tree_of(stream);
    old = paged_tree_resident_leaf(&tree, place->in_pages.leaf);
    id = stream_page_id(old);
    size = STREAM_PAGE_HEAD_SIZE + listpack_size(edit->copy);
    write_page(tree.pager->change(tree.pager, place->in_pages.leaf, size), id, edit->copy);
    paged_tree_change_size(stream->pages, size, old.size);
    page_tree_set_count(&tree, &place->in_pages, node_live(edit->copy));
    place->in_pages.count = node_live(edit->copy);
    listpack_destroy(edit->copy);
}

/* The node in memory becomes the last leaf. */
static void move_tail(struct stream *stream)
{
    char room[STREAM_PAGE_HEAD_SIZE];
    bool is_first = stream->pages->tree.leaves == 0;
    struct stream_place tail, last;
    struct page_tree tree;
    struct listpack *pack;
    struct stream_id id;
    size_t size;

    if (!reach_tail(stream, &tail))
        return;
    tree = tree_of(stream);
    pack = *slot_at(stream, &tail);
    id = idmap_id(&stream->nodes, tail.in_memory);
    if (!is_first)
        CHECK(reach(stream, &last, page_tree_last));
    size = STREAM_PAGE_HEAD_SIZE + listpack_size(pack);
    write_page(page_tree_insert(&tree, is_first ? NULL : &last.in_pages, PAGE_TREE_AFTER, is_first ? BYTES("") : separator_of(id, room), node_live(pack), size, NULL), id, pack);
    paged_tree_change_size(stream->pages, size, 0);
    listpack_destroy(pack);
    (void)idmap_remove_at(&stream->nodes, &tail.in_memory);
}

void stream_node_add(struct stream *stream, struct stream_id id, struct listpack *pack)
{
    struct listpack **slot;
    bool is_new;

    if (UNLIKELY(stream->pages != NULL))
        move_tail(stream);
    slot = idmap_put(&stream->nodes, id, &is_new);
    CHECK(is_new);
    *slot = pack;
}

void stream_node_remove(struct stream *stream, const struct stream_place *place)
{
    struct idmap_place in_memory = place->in_memory;

    if (!is_in_memory(stream, place)) {
        paged_tree_remove_leaf(stream->pages, &place->in_pages);
        return;
    }
    listpack_destroy(*slot_at(stream, place));
    (void)idmap_remove_at(&stream->nodes, &in_memory);
}

void stream_write_tail(const struct stream *stream, struct buffer *out)
{
    const struct listpack *pack;
    struct stream_place tail;
    struct stream_id id;

    if (!reach_tail(stream, &tail))
        return;
    pack = stream_node_read(stream, &tail, &id);
    write_page(buffer_reserve(out, STREAM_PAGE_HEAD_SIZE + listpack_size(pack)), id, pack);
    out->size += STREAM_PAGE_HEAD_SIZE + listpack_size(pack);
}

void stream_read_tail(struct stream *stream, struct bytes page)
{
    if (page.size > 0)
        stream_node_add(stream, stream_page_id(page), listpack_of_bytes(stream_page_pack(page)));
}

/* --- from memory into pages, and back --- */

struct paged_value *stream_of_roots(const struct paged_root *root, const struct page_tree_root *tree, uint64_t id)
{
    struct paged_stream *made = mem_zalloc(sizeof(*made));

    made->ordered = (struct paged_ordered){ { .root = *root, .id = id }, *tree };
    made->stream.pages = &made->ordered;
    idmap_init(&made->stream.nodes, sizeof(struct listpack *));
    return &made->ordered.paged;
}

struct paged_value *stream_copy_root(const struct stream *from, const struct paged_root *root, const struct page_tree_root *tree, uint64_t id)
{
    struct paged_value *paged = stream_of_roots(root, tree, id);
    struct stream *to = &((struct paged_stream *)paged)->stream, empty = *to;
    struct buffer tail = { 0 };

    *to = *from;
    to->pages = empty.pages;
    to->nodes = empty.nodes;
    stream_write_tail(from, &tail);
    stream_read_tail(to, buffer_bytes(&tail));
    buffer_release(&tail);
    stream_groups_copy(to, from);
    return paged;
}

struct paged_value *stream_nodes_to_pages(struct stream *from, uint64_t id, struct paged_access *access)
{
    struct paged_value *paged = stream_of_roots(&(struct paged_root){ 0 }, &(struct page_tree_root){ 0 }, id);
    struct value value = { .type = VALUE_STREAM, .encoding = STREAM_PAGED, .object = paged };
    struct stream *stream = &((struct paged_stream *)paged)->stream, empty = *stream;
    struct idmap_place place;

    *stream = *from;
    stream->pages = empty.pages;
    stream->nodes = empty.nodes;
    from->groups = NULL;
    from->group_count = from->group_room = 0;
    paged_attach(&value, access);
    for (bool more = idmap_first(&from->nodes, &place); more; more = idmap_next(&from->nodes, &place)) {
        struct listpack *const *node = idmap_value(&from->nodes, place);

        stream_node_add(stream, idmap_id(&from->nodes, place), listpack_copy(*node));
    }
    return paged;
}

void stream_nodes_copy(struct stream *to, const struct stream *from)
{
    struct stream_place place;

    for (bool more = stream_node_first(from, &place); more; more = stream_node_next(from, &place)) {
        struct stream_id id;
        const struct listpack *pack = stream_node_read(from, &place, &id);

        stream_node_add(to, id, listpack_copy(pack));
    }
}

void stream_nodes_release(struct stream *stream)
{
    struct idmap_place place;

    if (stream->pages != NULL)
        page_tree_root_release(&stream->pages->tree);
    for (bool more = idmap_first(&stream->nodes, &place); more; more = idmap_next(&stream->nodes, &place))
        listpack_destroy(*(struct listpack **)idmap_value(&stream->nodes, place));
    idmap_release(&stream->nodes);
}

/* Nodes of a stream in the order of their IDs: in memory, or in pages (value/paged.h): then in the leaves of a page tree, whose separators are IDs with the highest byte first, and
 * whose counts are those of live entries. But the last node, which entries are added to, is in memory with the root (its *tail*), until the next one is begun: so an entry that is added changes nothing but the root,
 * and reading what is new needs no page. There is none if nodes were removed at the end.
 *
 *   page = ID: ms u64, seq u64 | listpack
 *
 * A page has up to four times the bytes of a usual page, or one entry.
 */
#ifndef KELVIN_VALUE_STREAM_NODES_H
#define KELVIN_VALUE_STREAM_NODES_H

#include "base/buffer.h"
#include "value/stream.h"

enum { STREAM_PAGE_HEAD_SIZE = 16 };

/* A stream of which only the roots and the ID are set; its pages exist. The tree's root is the value's afterwards. */
struct paged_value *stream_of_roots(const struct paged_root *root, const struct page_tree_root *tree, uint64_t id);
/* The root of a copy of the stream, with groups; the tree's root is the copy's afterwards. */
struct paged_value *stream_copy_root(const struct stream *from, const struct paged_root *root, const struct page_tree_root *tree, uint64_t id);
/* Takes the nodes of a stream into pages that are created, and its groups, which `from` does not have any more then. `access` as it is to be attached, but its root is set here. */
struct paged_value *stream_nodes_to_pages(struct stream *from, uint64_t id, struct paged_access *access);
/* The same nodes in memory: `to` has none. */
void stream_nodes_copy(struct stream *to, const struct stream *from);
void stream_nodes_release(struct stream *stream);           /* of one in pages: the roots */

/* The value of which this is the stream, which is in pages: for the functions of value/paged.h. */
struct value stream_nodes_value(const struct stream *stream);

/* A page from outside; `*live`: its live entries, one at least. */
bool stream_page_is_sound(struct bytes page, uint64_t *live);
struct stream_id stream_page_id(struct bytes page);
struct bytes stream_page_pack(struct bytes page);

/* The tail as a page, appended: nothing if there is none. The other way round: the page is sound, or empty; the stream has no tail. */
void stream_write_tail(const struct stream *stream, struct buffer *out);
void stream_read_tail(struct stream *stream, struct bytes page);

/* False: there is no such node; or, in a question (paged_begin_question), pages are wanted. */
bool stream_node_first(const struct stream *stream, struct stream_place *place);
bool stream_node_last(const struct stream *stream, struct stream_place *place);
bool stream_node_next(const struct stream *stream, struct stream_place *place);
bool stream_node_previous(const struct stream *stream, struct stream_place *place);
/* The last one whose ID is not above this one. */
bool stream_node_seek(const struct stream *stream, struct stream_id id, struct stream_place *place);

/* Where entries from the ID on begin, or where those up to it end: before it in the order, and after it, there is none in other nodes. Reads no node. */
bool stream_node_reach(const struct stream *stream, struct stream_id id, struct stream_place *place);

/* Live entries of all nodes of a stream in pages, and of one node. */
uint64_t stream_nodes_live(const struct stream *stream);
uint64_t stream_node_live(const struct stream *stream, const struct stream_place *place);
/* Returns the listpack, valid until the stream changes; NULL: it is wanted. */
const struct listpack *stream_node_read(const struct stream *stream, const struct stream_place *place, struct stream_id *id);
/* Whether all entries of the node are below the ID, as far as that is known without reading it; false: perhaps. */
bool stream_node_is_below(const struct stream *stream, const struct stream_place *place, struct stream_id id);

/* The node as it can be changed, with live entries left; stream_node_store puts it back. */
struct stream_edit {
    struct listpack **pack;
    struct listpack *copy;          /* private */
};
void stream_node_edit(struct stream *stream, const struct stream_place *place, struct stream_edit *edit);
void stream_node_store(struct stream *stream, struct stream_place *place, struct stream_edit *edit);
/* Adds a node after all others; takes the pack. */
void stream_node_add(struct stream *stream, struct stream_id id, struct listpack *pack);
void stream_node_remove(struct stream *stream, const struct stream_place *place);
/* The most bytes of a listpack that an entry is added to. */
size_t stream_node_size_max(const struct stream *stream);

#endif

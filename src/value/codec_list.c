/* Lists: chunks of listpacks, which Redis 7.0 and later read; single elements and the older ziplists are read, too. */
#include "containers/listpack.h"
#include "containers/ziplist.h"
#include "value/codec_private.h"
#include "value/list.h"
#include "value/paged_list.h"

/*   list of type 18 = number of chunks | chunk ...
 *   chunk           = PLAIN | one element as a string          (large ones)
 *                   | PACKED | a listpack as a string */
enum { PLAIN = 1, PACKED = 2, LZF_FORM = 0xc3 };

static void write_lzf(struct buffer *out, struct bytes packed, size_t size)
{
    buffer_append_u8(out, LZF_FORM);
    codec_write_length(out, packed.size);
    codec_write_length(out, size);
    buffer_append_bytes(out, packed);
}

static void write_chunk(struct buffer *out, struct chunk_view chunk)
{
    codec_write_length(out, chunk.form == CHUNK_PLAIN ? PLAIN : PACKED);
    if (chunk.form == CHUNK_COMPRESSED)
        write_lzf(out, chunk.bytes, chunk.size);
    else
        codec_write_raw(out, chunk.bytes);
}

void codec_write_list_pack(struct buffer *out, struct bytes pack)
{
    write_chunk(out, (struct chunk_view){ .form = CHUNK_PACK, .bytes = pack });
}

void codec_write_list_page(struct buffer *out, struct bytes page)
{
    bool is_large = list_page_is_large(page);

    write_chunk(out, (struct chunk_view){ .form = is_large ? CHUNK_PLAIN : CHUNK_PACK, .bytes = list_page_large(page) });
}

static void write_chunks(const struct chunk_list *list, struct buffer *out)
{
    for (size_t i = 0; list != NULL && i < chunk_list_chunks(list); i++)
        write_chunk(out, chunk_list_view(list, i));
}

static size_t chunks_at(const struct value *value, enum list_end end)
{
    return paged_list_end_count(value, end) > 0 ? chunk_list_chunks(paged_list_end(value, end)) : 0;
}

/* Each page is a chunk. */
static void write_pages(const struct value *value, struct buffer *out)
{
    struct list_tree_place place;
    bool more = list_tree_count(value) > 0;

    codec_write_length(out, chunks_at(value, LIST_HEAD) + list_tree_leaves(value) + chunks_at(value, LIST_TAIL));
    write_chunks(paged_list_end(value, LIST_HEAD), out);
    if (more)
        (void)list_tree_seek(value, 0, &place);
    for (; more; more = list_tree_step(value, LIST_TAIL, &place))
        codec_write_list_page(out, place.page);
    write_chunks(paged_list_end(value, LIST_TAIL), out);
}

void codec_write_list(const struct value *value, struct buffer *out)
{
    buffer_append_u8(out, CODEC_RDB_LIST_QUICKLIST_2);
    if (value_is_paged(value)) {
        write_pages(value, out);
        return;
    }
    if (value->encoding == LIST_LISTPACK) {
        codec_write_length(out, 1);
        write_chunk(out, (struct chunk_view){ .form = CHUNK_PACK, .bytes = listpack_bytes(value->object) });
        return;
    }
    codec_write_length(out, chunk_list_chunks(value->object));
    write_chunks(value->object, out);
}

static enum status read_element(struct bytes *input, const struct value_limits *limits, struct buffer *scratch, struct value *list)
{
    size_t mark = scratch->size;
    char digits[TEXT_INT_SIZE];
    struct bytes element;
    enum status status = codec_read_string(input, limits->string_unpacked_max, scratch, digits, &element);

    scratch->size = mark;       /* its contents stay there until the next one is read */
    if (status == STATUS_OK)
        list_build_add(list, element);
    return status;
}

static enum status read_ziplist(struct bytes *input, struct buffer *scratch, struct value *list)
{
    struct ziplist_reader reader;
    char digits[TEXT_INT_SIZE];
    struct bytes blob, element;
    enum status status = codec_read_blob(input, scratch, &blob);

    if (status == STATUS_OK)
        status = ziplist_read(&reader, blob);
    if (status != STATUS_OK)
        return status;
    while ((status = ziplist_next(&reader, &element, digits)) == STATUS_OK)
        list_build_add(list, element);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static enum status read_chunk(struct bytes *input, const struct value_limits *limits, struct buffer *scratch, struct value *list)
{
    struct bytes blob;
    uint64_t form;
    enum status status = codec_read_size(input, &form);

    if (status != STATUS_OK)
        return status;
    if (form == PLAIN)
        return read_element(input, limits, scratch, list);
    if (form != PACKED)
        return STATUS_CORRUPT;
    status = codec_read_blob(input, scratch, &blob);
    return status == STATUS_OK ? list_build_pack(list, limits, blob) : status;
}

static enum status read_one(uint8_t type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *list)
{
    switch (type) {
    case CODEC_RDB_LIST: return read_element(input, limits, scratch, list);
    case CODEC_RDB_LIST_QUICKLIST_2: return read_chunk(input, limits, scratch, list);
    default: return read_ziplist(input, scratch, list);
    }
}

enum status codec_read_list(uint8_t type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *value)
{
    struct value list;
    uint64_t count = 1;
    enum status status = STATUS_OK;

    if (type != CODEC_RDB_LIST_ZIPLIST)
        status = codec_read_size(input, &count);
    if (status != STATUS_OK)
        return status;
    if (count > input->size)                    /* each takes at least one byte */
        return STATUS_CORRUPT;
    list = list_build(limits);
    for (; count > 0 && status == STATUS_OK; count--)
        status = read_one(type, input, limits, scratch, &list);
    if (status == STATUS_OK)
        status = list_build_end(&list, limits);
    if (status == STATUS_OK)
        *value = list;
    else
        value_free(&list);
    return status;
}

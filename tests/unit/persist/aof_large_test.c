/* Large arguments in the log: they are referenced, not copied, and the bytes in the file are the same. */
#include "support/unit.h"

#include <string.h>

#include "base/blob.h"
#include "stream/history.h"
#include "resp/request.h"

enum { LARGE = REQUEST_LARGE_MIN };

static struct blob *make_blob(char fill)
{
    struct blob *blob = blob_create(LARGE);

    memset(blob->buffer.data, fill, LARGE);
    blob->buffer.size = LARGE;
    return blob;
}

/* All bytes that are to be written, in order. */
static void gather(struct history_chunk *chunk, struct buffer *out)
{
    for (; chunk != NULL; chunk = chunk->next) {
        size_t at = chunk->start;

        for (int i = 0; i < chunk->piece_count; i++) {
            buffer_append(out, chunk->data + at, chunk->pieces[i].offset - at);
            buffer_append_bytes(out, buffer_bytes(&chunk->pieces[i].blob->buffer));
            at = chunk->pieces[i].offset;
        }
        buffer_append(out, chunk->data + at, chunk->end - at);
    }
}

static void referenced_arguments_are_written_like_copied_ones(void **state)
{
    struct blob *first = make_blob('a'), *second = make_blob('b');
    struct request_large large[2] = { { first, 2 }, { second, 4 } };
    struct bytes args[5] = { BYTES("MSET"), BYTES("k"), buffer_bytes(&first->buffer), BYTES("l"), buffer_bytes(&second->buffer) };
    struct history held, copied;
    struct history_chunk *chunks[2];
    struct buffer texts[2] = { { 0 } };
    uint64_t lsns[2];

    (void)state;
    history_init(&held);
    history_attach_log(&held);
    history_init(&copied);
    history_attach_log(&copied);
    history_append(&held, 3, (struct bytes[]){ BYTES("PING") }, 1);
    history_append(&copied, 3, (struct bytes[]){ BYTES("PING") }, 1);
    lsns[0] = history_append_large(&held, 4, args, 5, large, 2);
    lsns[1] = history_append(&copied, 4, args, 5);
    assert_int_equal(lsns[0], lsns[1]);
    assert_true(blob_is_shared(first) && blob_is_shared(second));
    assert_int_equal(history_append(&held, 4, args, 2), history_append(&copied, 4, args, 2));
    chunks[0] = history_take(&held);
    chunks[1] = history_take(&copied);
    gather(chunks[0], &texts[0]);
    gather(chunks[1], &texts[1]);
    assert_true(bytes_equal(buffer_bytes(&texts[0]), buffer_bytes(&texts[1])));
    history_give_back(&held, chunks[0]);
    history_give_back(&copied, chunks[1]);
    assert_false(blob_is_shared(first) || blob_is_shared(second));
    history_release(&held);
    history_release(&copied);
    buffer_release(&texts[0]);
    buffer_release(&texts[1]);
    blob_release(first);
    blob_release(second);
}

static void the_same_argument_twice_is_referenced_twice(void **state)
{
    struct blob *blob = make_blob('a');
    struct request_large large = { blob, 1 };
    struct bytes args[3] = { BYTES("X"), buffer_bytes(&blob->buffer), buffer_bytes(&blob->buffer) };
    struct history tail;
    struct history_chunk *chunks;

    (void)state;
    history_init(&tail);
    history_attach_log(&tail);
    history_append_large(&tail, 0, args, 3, &large, 1);
    chunks = history_take(&tail);       /* the first one is the mark of the log's beginning */
    assert_non_null(chunks->mark);
    assert_int_equal(chunks->next->piece_count, 2);
    history_give_back(&tail, chunks);
    history_release(&tail);
    assert_false(blob_is_shared(blob));
    blob_release(blob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(referenced_arguments_are_written_like_copied_ones),
        cmocka_unit_test(the_same_argument_twice_is_referenced_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

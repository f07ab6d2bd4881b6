/* LCS: the longest common subsequence of two strings.
 *
 * The table of lengths is filled row by row and only one row of it is kept. To find the way back it is enough to know for each
 * cell where the bytes differ whether the cell above was longer than the one to the left: one bit instead of four bytes.
 */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/string_access.h"

struct lcs {
    struct bytes a, b;
    uint32_t size;              /* of the result */
    uint64_t *up;               /* bit i * (b.size + 1) + j: at cell (i, j) the way back goes up, to i - 1; NULL: not kept */
};

enum lcs_want { LCS_BYTES, LCS_SIZE, LCS_MATCHES };

struct lcs_options {
    enum lcs_want want;
    int64_t match_size_min;
    bool with_sizes;
};

static bool read_options(struct call *call, struct lcs_options *options)
{
    bool size = false, matches = false;

    *options = (struct lcs_options){ .want = LCS_BYTES };
    for (int i = 3; i < call->arg_count; i++) {
        if (arg_is(call, i, "IDX")) {
            matches = true;
        } else if (arg_is(call, i, "LEN")) {
            size = true;
        } else if (arg_is(call, i, "WITHMATCHLEN")) {
            options->with_sizes = true;
        } else if (arg_is(call, i, "MINMATCHLEN") && i + 1 < call->arg_count) {
            if (!arg_integer(call, ++i, &options->match_size_min))
                return false;
        } else {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
    }
    if (size && matches) {
        reply_errorf(call, "ERR If you want both the length and indexes, please just use IDX.");
        return false;
    }
    options->want = matches ? LCS_MATCHES : size ? LCS_SIZE : LCS_BYTES;
    return true;
}

static bool up_of(const struct lcs *lcs, size_t i, size_t j)
{
    size_t bit = i * (lcs->b.size + 1) + j;

    return lcs->up[bit / 64] >> bit % 64 & 1;
}

static void lcs_fill(struct lcs *lcs, struct arena *arena)
{
    size_t width = lcs->b.size + 1;
    uint32_t *row = arena_alloc(arena, width * sizeof(*row));

    memset(row, 0, width * sizeof(*row));
    for (size_t i = 1; i <= lcs->a.size; i++) {
        char byte = lcs->a.data[i - 1];
        uint32_t diagonal = 0;          /* row[j - 1] of the row above */

        for (size_t j = 1; j < width; j++) {
            uint32_t above = row[j];

            if (lcs->b.data[j - 1] == byte) {
                row[j] = diagonal + 1;
            } else if (above > row[j - 1]) {
                if (lcs->up != NULL)
                    lcs->up[(i * width + j) / 64] |= (uint64_t)1 << (i * width + j) % 64;
            } else {
                row[j] = row[j - 1];
            }
            diagonal = above;
        }
    }
    lcs->size = row[width - 1];
}

/* The next match on the way back from the ends of both strings: a run of equal bytes, [i, i + size) in a and [j, j + size) in b.
 * False: there are no more. */
struct match {
    size_t i, j, size;
};
static bool match_next(const struct lcs *lcs, struct match *match)
{
    size_t i = match->i, j = match->j;

    while (i > 0 && j > 0 && lcs->a.data[i - 1] != lcs->b.data[j - 1]) {
        if (up_of(lcs, i, j))
            i--;
        else
            j--;
    }
    match->size = 0;
    while (i > 0 && j > 0 && lcs->a.data[i - 1] == lcs->b.data[j - 1]) {
        i--;
        j--;
        match->size++;
    }
    match->i = i;
    match->j = j;
    return match->size > 0;
}

static void reply_bytes_in_common(struct reply *reply, const struct lcs *lcs)
{
    struct match match = { .i = lcs->a.size, .j = lcs->b.size };
    char *out = reply_bulk_reserve(reply, lcs->size);
    size_t left = lcs->size;

    while (match_next(lcs, &match)) {
        left -= match.size;
        memcpy(out + left, lcs->a.data + match.i, match.size);
    }
}

static void reply_span(struct reply *reply, size_t start, size_t size)
{
    reply_array(reply, 2);
    reply_integer(reply, (int64_t)start);
    reply_integer(reply, (int64_t)(start + size - 1));
}

/* Replies the matches, the last one first. */
static void reply_matches(struct reply *reply, const struct lcs *lcs, const struct lcs_options *options)
{
    struct match match = { .i = lcs->a.size, .j = lcs->b.size };
    struct reply_later later;
    size_t count = 0;

    reply_map(reply, 2);
    reply_bulk_string(reply, "matches");
    later = reply_later_begin(reply);
    while (match_next(lcs, &match)) {
        if ((int64_t)match.size < options->match_size_min)
            continue;
        reply_array(reply, options->with_sizes ? 3 : 2);
        reply_span(reply, match.i, match.size);
        reply_span(reply, match.j, match.size);
        if (options->with_sizes)
            reply_integer(reply, (int64_t)match.size);
        count++;
    }
    reply_later_array(reply, later, count);
    reply_bulk_string(reply, "len");
    reply_integer(reply, lcs->size);
}

/* False: it is of another type. The bytes are borrowed from the entry or printed into `digits`. */
static bool open_string(struct call *call, int arg, char digits[TEXT_INT_SIZE], struct bytes *bytes)
{
    struct key key;

    if (key_open(call, arg, KEY_FOR_READING, &key) && key.value.type != VALUE_STRING)
        return false;
    *bytes = string_of(&key, digits);
    return true;
}

/* Looks up both before it replies an error. */
static bool open_strings(struct call *call, char digits[2][TEXT_INT_SIZE], struct lcs *lcs)
{
    bool is_string = open_string(call, 1, digits[0], &lcs->a);

    if (open_string(call, 2, digits[1], &lcs->b) && is_string)
        return true;
    reply_errorf(call, "ERR The specified keys must contain string values");
    return false;
}

/* Redis uses four bytes for each cell and allows as many bytes as a string may have. Kelvin needs less memory, but the limit also
 * bounds the time. */
static bool check_size(struct call *call, const struct lcs *lcs)
{
    size_t cells;

    if (!__builtin_mul_overflow(lcs->a.size + 1, lcs->b.size + 1, &cells) &&
        cells <= (uint64_t)call->turn->string_size_max / sizeof(uint32_t))
        return true;
    reply_errorf(call, "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
    return false;
}

void lcs_command(struct call *call)
{
    char digits[2][TEXT_INT_SIZE];
    struct lcs_options options;
    struct lcs lcs = { 0 };

    if (!open_strings(call, digits, &lcs) || !read_options(call, &options) || !check_size(call, &lcs))
        return;
    if (options.want != LCS_SIZE) {
        size_t size = ((lcs.a.size + 1) * (lcs.b.size + 1) + 63) / 64 * sizeof(*lcs.up);

        lcs.up = arena_alloc(call->arena, size);
        memset(lcs.up, 0, size);
    }
    lcs_fill(&lcs, call->arena);
    switch (options.want) {
    case LCS_SIZE: reply_integer(call->reply, lcs.size); break;
    case LCS_MATCHES: reply_matches(call->reply, &lcs, &options); break;
    case LCS_BYTES: reply_bytes_in_common(call->reply, &lcs); break;
    }
}

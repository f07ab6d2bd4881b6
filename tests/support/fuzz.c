#include "support/fuzz.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

void fuzz_begin(struct fuzz_input *input, const uint8_t *data, size_t size)
{
    uint64_t seed = 0;

    if (size > 0)
        memcpy(&seed, data, size < sizeof(seed) ? size : sizeof(seed));
    *input = (struct fuzz_input){ .data = data, .size = size };
    random_init(&input->random, seed);
}

static uint64_t take(struct fuzz_input *input, int count)
{
    uint64_t number = 0;

    if (input->at == input->size)
        return random_next(&input->random);
    for (int i = 0; i < count && input->at < input->size; i++)
        number |= (uint64_t)input->data[input->at++] << 8 * i;
    return number;
}

uint64_t fuzz_next(struct fuzz_input *input)
{
    return take(input, 8);
}

uint64_t fuzz_below(struct fuzz_input *input, uint64_t limit)
{
    int count = 1;

    while (count < 8 && (limit - 1) >> 8 * count != 0)
        count++;
    return take(input, count) % limit;
}

int64_t fuzz_integer(struct fuzz_input *input)
{
    int shift = (int)fuzz_below(input, 64);

    return (int64_t)fuzz_next(input) >> shift;
}

struct bytes fuzz_text(struct fuzz_input *input, char *room, size_t size_max)
{
    uint64_t kind = fuzz_below(input, 6);
    size_t size = fuzz_below(input, fuzz_below(input, 10) == 0 || size_max < 40 ? size_max + 1 : 40);
    char byte = 'x';

    if (kind <= 1 && size_max >= TEXT_INT_SIZE)
        return bytes_of(room, text_of_int(fuzz_integer(input), room));
    if (kind == 2)
        byte = (char)fuzz_next(input);
    for (size_t i = 0; i < size; i++)
        room[i] = kind <= 3 ? byte : (char)fuzz_below(input, 256);
    return bytes_of(room, size);
}

void fuzz_rest(struct fuzz_input *input, struct buffer *out)
{
    buffer_append(out, input->data + input->at, input->size - input->at);
    input->at = input->size;
}

static void double_piece(struct buffer *bytes, size_t at, size_t size)
{
    buffer_reserve(bytes, size);
    memmove(bytes->data + at + size, bytes->data + at, bytes->size - at);
    bytes->size += size;
}

static void remove_piece(struct buffer *bytes, size_t at, size_t size)
{
    memmove(bytes->data + at, bytes->data + at + size, bytes->size - at - size);
    bytes->size -= size;
}

static void change(struct fuzz_input *input, struct buffer *bytes, size_t at, struct bytes telling, size_t size_max)
{
    size_t piece = 1 + fuzz_below(input, bytes->size - at);

    switch (fuzz_below(input, 8)) {
    case 0: bytes->data[at] = (char)fuzz_below(input, 256); break;
    case 1:
    case 2: bytes->data[at] = telling.data[fuzz_below(input, telling.size)]; break;
    case 3: bytes->data[at] ^= (char)(1 << fuzz_below(input, 8)); break;
    case 4: bytes->data[at] = (char)(bytes->data[at] + (fuzz_below(input, 2) ? 1 : -1)); break;
    case 5: remove_piece(bytes, at, piece > 8 ? 1 : piece); break;
    case 6:
        if (bytes->size + piece <= size_max)
            double_piece(bytes, at, piece);
        break;
    case 7:
        if (fuzz_below(input, 2))
            bytes->size = at;
        else if (bytes->size < size_max) {
            double_piece(bytes, at, 1);
            bytes->data[at] = telling.data[fuzz_below(input, telling.size)];
        }
        break;
    }
}

size_t fuzz_damage(struct fuzz_input *input, struct buffer *bytes, struct bytes telling, int changes_max, size_t size_max)
{
    size_t first = bytes->size;

    for (uint64_t changes = fuzz_below(input, (uint64_t)changes_max + 1); changes > 0 && bytes->size > 0; changes--) {
        size_t range = fuzz_below(input, 2) && bytes->size > 24 ? 24 : bytes->size, at = fuzz_below(input, range);

        change(input, bytes, at, telling, size_max);
        if (at < first)
            first = at;
    }
    return first;
}

struct bytes fuzz_exact_copy(struct bytes bytes)
{
    char *copy = mem_alloc(bytes.size);

    if (bytes.size > 0)
        memcpy(copy, bytes.data, bytes.size);
    return bytes_of(copy, bytes.size);
}

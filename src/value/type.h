/* Type: what each type of value provides, so that value.c treats all of them alike. A type's .c has one struct of
 * operations; value.c has the table of them by enum value_type. How a type is written and read is in codec_<type>.c.
 */
#ifndef KELVIN_VALUE_TYPE_H
#define KELVIN_VALUE_TYPE_H

#include "value/value.h"

/* The sum over a value's elements, for value_digest. It does not depend on their order: where order matters, the index
 * is part of the element. */
struct value_sum {
    uint64_t lane[3];
};
void value_sum_add(struct value_sum *sum, struct bytes element);
/* Not the same as adding both: ("ab", "c") differs from ("a", "bc"). */
void value_sum_add_pair(struct value_sum *sum, struct bytes first, struct bytes second);

/* Each function is called with a value of this type. */
struct value_operations {
    const char *(*encoding_name)(const struct value *value);        /* as OBJECT ENCODING returns it */
    void (*free)(struct value *value);                              /* frees the object, if there is one; value_free
                                                                     * then clears the pointer */
    size_t (*memory)(const struct value *value, size_t samples);    /* this and the next are described in value.h */
    size_t (*free_effort)(const struct value *value);
    struct value (*copy)(const struct value *value);
    void (*digest)(const struct value *value, struct value_sum *sum);
};

extern const struct value_operations string_operations, list_operations, set_operations, zset_operations, hash_operations, stream_operations;

#endif

/* Type: what each type of value gives, so that value.c treats all of them alike. A type's .c has one struct of operations;
 * value.c has the table of them by enum value_type. How a type is written and read is in codec_<type>.c.
 */
#ifndef KELVIN_VALUE_TYPE_H
#define KELVIN_VALUE_TYPE_H

#include "value/value.h"

/* The sum of a value's elements, for value_digest. Their order does not matter: what has one puts the index into the element. */
struct value_sum {
    uint64_t lane[3];
};
void value_sum_add(struct value_sum *sum, struct bytes element);
/* Not the same as adding both: ("ab", "c") is not ("a", "bc"). */
void value_sum_add_pair(struct value_sum *sum, struct bytes first, struct bytes second);

/* All are given a value of this type. */
struct value_operations {
    const char *(*encoding_name)(const struct value *value);        /* as OBJECT ENCODING answers */
    void (*free)(struct value *value);                              /* the object, if there is one; value_free forgets it */
    size_t (*memory)(const struct value *value, size_t samples);    /* value.h has what these say */
    size_t (*effort)(const struct value *value);
    struct value (*copy)(const struct value *value);
    void (*digest)(const struct value *value, struct value_sum *sum);
};

extern const struct value_operations string_operations, list_operations, set_operations, zset_operations, hash_operations, stream_operations;

#endif

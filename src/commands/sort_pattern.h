/* Sort pattern: the BY and GET of SORT. "weight_*" is the string at the key with the element in place of the star,
 * "object_*->name" a field of the hash there, "#" the element itself. */
#ifndef KELVIN_COMMANDS_SORT_PATTERN_H
#define KELVIN_COMMANDS_SORT_PATTERN_H

#include <stdbool.h>

#include "base/bytes.h"

struct call;

struct sort_pattern {
    bool is_element;            /* "#" */
    bool has_star;              /* a pattern without one names no key */
    struct bytes before, after; /* the parts of the key's name around the star; borrowed from the pattern */
    bool has_field;
    struct bytes field;
};

struct sort_pattern sort_pattern_of(struct bytes pattern);

/* The name of the key for an element; lives as long as the call. The pattern has a star. */
struct bytes sort_pattern_name(const struct sort_pattern *pattern, struct call *call, struct bytes element);

/* The value for a pattern at the key that is argument `arg`: a string, or a field. False if there is none, or if the key has
 * another type. The bytes live as long as the call. */
bool sort_pattern_value(const struct sort_pattern *pattern, struct call *call, int arg, struct bytes *value);

#endif

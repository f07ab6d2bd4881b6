/* The limits of the encodings as the configuration has them: the *-max-listpack-*, set-max-intset-entries, list-* and stream-node-*
 * directives as a struct value_limits. The only list of them. */
#ifndef KELVIN_CONFIG_LIMITS_H
#define KELVIN_CONFIG_LIMITS_H

struct config;
struct value_limits;

/* Sets those fields; the others (the seed, what decoding may unpack) stay. Any thread; one relaxed load a field. */
void limits_read(const struct config *config, struct value_limits *limits);

#endif

/* Compressibility: what the codecs of tier-compression would make of the values of an image, from a sample of those of each database. */
#ifndef KELVIN_CHECK_COMPRESSIBILITY_H
#define KELVIN_CHECK_COMPRESSIBILITY_H

#include "base/bytes.h"

struct check;
struct compressibility;

struct compressibility *compressibility_create(void);
void compressibility_destroy(struct compressibility *compressibility);          /* NULL is fine */
/* A live value, as its payload (value/codec.h); `record_size`: the bytes of its record now. */
void compressibility_add(struct compressibility *compressibility, int db, struct bytes payload, size_t record_size);
/* Trains, and prints a few lines for each database. */
void compressibility_report(const struct compressibility *compressibility, struct check *check);

#endif

/* HyperLogLog: estimates how many different elements were added, in at most 12 KiB, with a standard error of 0.81 %.
 *
 * The bytes are those of Redis, so values are interchangeable; the format is described in docs/formats/hyperloglog.md.
 * Elements are hashed with MurmurHash64A (Appleby). 14 bits of the hash select one of 16384 registers, which keeps the
 * longest run of zeros seen in the remaining bits (Flajolet, Fusy, Gandouet, Meunier: "HyperLogLog: the analysis of a
 * near-optimal cardinality estimation algorithm", 2007; hash and representations after Heule, Nunkesser, Hall:
 * "HyperLogLog in practice", 2013). The estimate is that of Ertl: "New cardinality estimation algorithms for
 * HyperLogLog sketches", 2017.
 *
 * Sparse, while small: runs of equal registers. Dense: 6 bits per register. Bytes may come from users (SET, RESTORE),
 * so every function accepts any bytes for which hll_is_one is true, and reports it if the rest is corrupt.
 *
 * Owner: the owner of the bytes.
 */
#ifndef KELVIN_CONTAINERS_HLL_H
#define KELVIN_CONTAINERS_HLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"

enum {
    HLL_HEADER_SIZE = 16,
    HLL_REGISTERS = 1 << 14,
    HLL_DENSE_SIZE = HLL_HEADER_SIZE + HLL_REGISTERS * 6 / 8,
};

enum hll_result { HLL_SAME, HLL_CHANGED, HLL_CORRUPT };

/* True if the header is valid and, if it is dense, the size is right. */
bool hll_is_one(struct bytes hll);
bool hll_is_sparse(struct bytes hll);

/* Writes a sparse one without elements into an empty buffer. */
void hll_create(struct buffer *hll);

/* A sparse one becomes dense when it would grow beyond `sparse_size_max` bytes. Invalidates the cached count if
 * something changed. */
enum hll_result hll_add(struct buffer *hll, struct bytes element, size_t sparse_size_max);
/* HLL_SAME if it was dense already. */
enum hll_result hll_to_dense(struct buffer *hll);

/* Registers, one byte each. hll_read raises `registers` to those of `hll`; hll_merge raises those of `hll` to
 * `registers`. */
bool hll_read(struct bytes hll, uint8_t registers[HLL_REGISTERS]);              /* false: corrupt */
enum hll_result hll_raise(struct buffer *hll, const uint8_t registers[HLL_REGISTERS], size_t sparse_size_max);

/* Computes the estimate; false: corrupt. */
bool hll_count(struct bytes hll, uint64_t *count);
uint64_t hll_count_registers(const uint8_t registers[HLL_REGISTERS]);

/* The estimate cached in the header; false if something has changed since. */
bool hll_kept_count(struct bytes hll, uint64_t *count);
void hll_keep_count(char *hll, uint64_t count);
void hll_forget_count(char *hll);

/* The runs of a sparse one, as PFDEBUG DECODE shows them: "Z:7292 v:1,1 Z:9091". */
void hll_describe(struct bytes hll, struct buffer *out);

#endif

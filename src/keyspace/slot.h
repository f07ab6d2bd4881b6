/* Slot: which of the 16384 slots of Redis Cluster a key belongs to: the CRC-16 of its tag, or of the whole key, modulo 16384.
 *
 * The tag is what is between the first '{' and the first '}' after it, if there is at least one byte: keys with the same tag are in one slot.
 */
#ifndef KELVIN_KEYSPACE_SLOT_H
#define KELVIN_KEYSPACE_SLOT_H

#include <stdint.h>

#include "base/bytes.h"

enum { SLOT_COUNT = 16384 };

/* 0 to SLOT_COUNT - 1. */
uint16_t slot_of_key(struct bytes key);

#endif

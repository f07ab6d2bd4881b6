/* CRC-16 with the polynomial 0x1021 (XMODEM): not reflected, no inversion, first sum 0. Redis Cluster divides keys into slots by it.
 *
 * Computed without a table: a byte is eight operations on registers, which take as long as one lookup that depends on the one before.
 */
#ifndef KELVIN_BASE_CRC16_H
#define KELVIN_BASE_CRC16_H

#include <stdint.h>

#include "base/bytes.h"

uint16_t crc16(struct bytes bytes);

#endif

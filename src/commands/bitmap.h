/* Bitmap commands: strings taken as runs of bits, the first bit being the highest one of the first byte. bitmap.c has single
 * bits, counting and searching, bitmap_op.c combines whole strings, bitmap_field.c handles integers within them.
 */
#ifndef KELVIN_COMMANDS_BITMAP_H
#define KELVIN_COMMANDS_BITMAP_H

#include "call/command.h"

/* Private: an offset in bits that a string may have; with `width`, "#3" is three times as much. False: the error was replied. */
bool bit_offset_arg(struct call *call, int arg, int width, uint64_t *offset);

#endif

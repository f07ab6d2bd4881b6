/* Bitmap commands: strings as arrays of bits, of which the first bit is the highest one of the first byte. */
#ifndef KELVIN_COMMANDS_BITMAP_H
#define KELVIN_COMMANDS_BITMAP_H

#include "call/command.h"

/* An offset in bits that a string may have; with `width`, "#3" is three times the width. False: the error was replied. */
bool bit_offset_arg(struct call *call, int arg, int width, uint64_t *offset);

#endif

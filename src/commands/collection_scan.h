/* Collection scan: what HSCAN, SSCAN and ZSCAN share: key cursor [MATCH pattern] [COUNT count]. */
#ifndef KELVIN_COMMANDS_COLLECTION_SCAN_H
#define KELVIN_COMMANDS_COLLECTION_SCAN_H

#include "call/key.h"
#include "commands/scan_options.h"

struct collection_scan {
    struct scan_options options;
    struct key key;             /* present */
    struct reply elements;      /* the cursor precedes the elements in the reply but is known after them, so they are collected first */
    size_t count;               /* of the elements */
};

/* Runs the command. `step` adds the elements of one step, those that match the options, and sets the cursor to the next one. False: elements are missing (key_ask). */
void collection_scan(struct call *call, enum value_type type, bool (*step)(struct collection_scan *scan, uint64_t *cursor));

#endif

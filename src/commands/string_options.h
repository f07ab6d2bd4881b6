/* String options: those of SET, MSETEX and GETEX, and the expiry that they give. */
#ifndef KELVIN_COMMANDS_STRING_OPTIONS_H
#define KELVIN_COMMANDS_STRING_OPTIONS_H

#include "call/call.h"

enum string_option {
    OPTION_NX = 1 << 0,
    OPTION_XX = 1 << 1,
    OPTION_GET = 1 << 2,
    OPTION_KEEPTTL = 1 << 3,
    OPTION_PERSIST = 1 << 4,
    OPTION_EX = 1 << 5,
    OPTION_PX = 1 << 6,
    OPTION_EXAT = 1 << 7,
    OPTION_PXAT = 1 << 8,
    OPTION_IFEQ = 1 << 9,
    OPTION_IFNE = 1 << 10,
    OPTION_IFDEQ = 1 << 11,
    OPTION_IFDNE = 1 << 12,

    OPTION_TIMES = OPTION_EX | OPTION_PX | OPTION_EXAT | OPTION_PXAT,
    OPTION_ABSOLUTE = OPTION_EXAT | OPTION_PXAT,
    OPTION_COMPARISONS = OPTION_IFEQ | OPTION_IFNE | OPTION_IFDEQ | OPTION_IFDNE,
    OPTION_DIGESTS = OPTION_IFDEQ | OPTION_IFDNE,
    OPTIONS_OF_SET = OPTION_NX | OPTION_XX | OPTION_GET | OPTION_KEEPTTL | OPTION_TIMES | OPTION_COMPARISONS,
    OPTIONS_OF_MSETEX = OPTION_NX | OPTION_XX | OPTION_KEEPTTL | OPTION_TIMES,
    OPTIONS_OF_GETEX = OPTION_PERSIST | OPTION_TIMES,
};

struct string_options {
    uint32_t given;         /* enum string_option */
    int time_arg;           /* argument: the time; 0: there is none */
    int compared_arg;       /* argument: what the old value is compared with; 0: it is not compared */
};

/* Parses the arguments from `from` on. False: ERR_SYNTAX was replied. */
bool string_options_read(struct call *call, int from, uint32_t allowed, struct string_options *options);

/* When the key is to expire, in ms; -1 if no time was given. False: an error was replied. */
bool string_options_expire_ms(struct call *call, const struct string_options *options, int64_t *expire_ms);

#endif

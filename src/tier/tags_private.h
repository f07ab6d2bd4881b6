/* What reading and writing of tags files share. */
#ifndef KELVIN_TIER_TAGS_PRIVATE_H
#define KELVIN_TIER_TAGS_PRIVATE_H

enum {
    TAGS_VERSION = 2,           /* which is written */
    TAGS_KEY_UNKNOWN = 0,       /* of a twin, in place of its key's size + 1 */
};

/* By version - 1. */
static const char tags_magics[][8] = { "KTAGS1\n", "KTAGS2\n" };

#endif

/* Shared by reading and writing of tags files. */
#ifndef KELVIN_TIER_TAGS_PRIVATE_H
#define KELVIN_TIER_TAGS_PRIVATE_H

static const char tags_magic[8] = "KTAGS2\n";

#endif

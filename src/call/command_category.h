/* Command categories: the ACL categories of a row, by name. */
#ifndef KELVIN_CALL_COMMAND_CATEGORY_H
#define KELVIN_CALL_COMMAND_CATEGORY_H

#include "base/bytes.h"
#include "call/command.h"

enum { COMMAND_CATEGORY_COUNT = 21 };

/* The row's categories and those that follow from its flags: bits of enum command_category. */
uint32_t command_categories(const struct command *command);

/* "keyspace", "read" ..., without "@", in the order in which Redis lists them. */
const char *command_category_name(int index);
uint32_t command_category_flag(int index);
/* In any case; 0: there is none of that name. */
uint32_t command_category_of(struct bytes name);

#endif

/* Selector: commands, keys and channels that are allowed together. Private to acl/.
 *
 * While rules are being prepared it is changed by selector_apply (acl/selector_edit.c); after that it is immutable.
 */
#ifndef KELVIN_ACL_SELECTOR_H
#define KELVIN_ACL_SELECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/rules.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "call/command_table.h"

enum pattern_flag { PATTERN_READ = 1, PATTERN_WRITE = 2, PATTERN_READ_WRITE = 3 };
enum pattern_form { PATTERN_LITERAL, PATTERN_PREFIX, PATTERN_ANY };     /* a name; a name and "*"; any other */

/* A pattern of keys or channels. */
struct pattern {
    struct bytes text;          /* owned, followed by a NUL */
    uint8_t flags;              /* enum pattern_flag; of a channel: both */
    uint8_t form;
    bool is_head;               /* a PATTERN_PREFIX that is all in `head` */
    uint64_t head, head_mask;   /* how each text of 8 bytes or more that matches begins; the mask has the bytes that are certain. Set, like
                                 * is_head, by selector_finish */
};

struct pattern_list {
    struct pattern *items;
    size_t count;
};

/* "+select|0": the command is allowed if its first argument is this word. */
struct first_arg {
    uint32_t command;           /* id */
    struct bytes word;          /* owned */
};

struct selector {
    uint64_t *commands;         /* a bit for each row of the table, by id */
    size_t word_count;
    bool starts_with_all;       /* the rules of commands begin with +@all; else with -@all */
    bool all_keys, all_channels;
    struct pattern_list keys, channels;
    struct first_arg *first_args;
    size_t first_arg_count;
    char **command_rules;       /* after that, in order: "+get", "-@read", "+config|get" */
    size_t command_rule_count;
};

/* Allows nothing, or all channels. */
void selector_init(struct selector *selector, const struct command_table *commands, bool all_channels);
void selector_copy(struct selector *selector, const struct selector *from);
void selector_release(struct selector *selector);

/* Ends the changes of a selector: prepares what checks need. */
void selector_finish(struct selector *selector);
bool selector_allows_all(const struct selector *selector, const struct command_table *commands);
enum acl_verdict selector_check(const struct selector *selector, const struct acl_request *request, int *argument);
bool selector_reads_every_key(const struct selector *selector);
bool selector_allows_channel(const struct selector *selector, struct bytes channel, enum acl_channel kind);

/* The reason when a rule names a command or category that does not exist. */
#define SELECTOR_UNKNOWN "Unknown command or category name in ACL"

/* One rule of SETUSER that concerns commands, keys or channels. NULL: done; otherwise the reason, and nothing has changed. */
const char *selector_apply(struct selector *selector, const struct command_table *commands, struct bytes rule);

static inline bool selector_has(const struct selector *selector, uint32_t id)
{
    return selector->commands[id / 64] >> (id % 64) & 1;
}

bool selector_allows_keys(const struct selector *selector, const struct acl_request *request);

/* True: the request is allowed, like most. False: selector_check knows. */
static inline bool selector_allows_plainly(const struct selector *selector, const struct acl_request *request)
{
    return selector_has(selector, request->command->id) && (selector->all_channels || request->command->channels == CHANNELS_NONE) &&
        (selector->all_keys || selector_allows_keys(selector, request));
}

#endif

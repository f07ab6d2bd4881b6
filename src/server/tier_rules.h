/* TIER RULE, PIN and UNPIN: the operator's rules for keys (tier/key_rules.h), and the file that keeps them: "tier.rules" in `dir`.
 *
 * A change is in the file, synced, before it is in effect and replied. The file belongs to this server: it is neither in the log nor sent to replicas.
 */
#ifndef KELVIN_SERVER_TIER_RULES_H
#define KELVIN_SERVER_TIER_RULES_H

#include <stdbool.h>

struct call;
struct engine;
struct message;

/* At the start, after the tier was opened. A missing file has no rules. False: `message` says which line is wrong, or why it can't be read. */
bool tier_rules_load(struct engine *engine, struct message *message);

void tier_pin_command(struct call *call);
void tier_pinned_command(struct call *call);
void tier_rule_command(struct call *call);
void tier_unpin_command(struct call *call);

#endif

/* Secrets: a call's words as others may see them (SLOWLOG, MONITOR): passwords are "(redacted)".
 *
 * Those of AUTH, behind the AUTH of HELLO, and behind the names of parameters of CONFIG SET that hold one.
 */
#ifndef KELVIN_CALL_SECRETS_H
#define KELVIN_CALL_SECRETS_H

#include "call/call.h"

/* call->args, or a copy in the call's arena; call->arg_count of them. */
const struct bytes *secrets_hide(struct call *call);

#endif

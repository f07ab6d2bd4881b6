/* Secrets: a call's arguments as SLOWLOG and MONITOR may show them: passwords are "(redacted)".
 *
 * Those of AUTH, those after the AUTH of HELLO, and the values of CONFIG SET for parameters that are passwords.
 */
#ifndef KELVIN_CALL_SECRETS_H
#define KELVIN_CALL_SECRETS_H

#include "call/call.h"

/* call->args, or a copy in the call's arena with the same number of arguments. */
const struct bytes *secrets_hide(struct call *call);

#endif

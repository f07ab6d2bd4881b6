/* Witness: notes the values that a handler opened for writing, to check that a call that fails has changed none of them, not even
 * in place. In debug and sanitizer builds; in others it does nothing. */
#ifndef KELVIN_CALL_WITNESS_H
#define KELVIN_CALL_WITNESS_H

#include "call/key.h"

#ifdef KELVIN_DEBUG

/* Notes the value of a present key, unless it is inline (it can only be replaced) or large (that would take too long). In the
 * call's arena. */
void witness_note(const struct key *key);
/* True if the values are unchanged; their keys still exist. An object that was moved and not put back is left to the address
 * sanitizer. */
bool witness_agrees(const struct call *call);

#else

static inline void witness_note(const struct key *key)
{
}

static inline bool witness_agrees(const struct call *call)
{
    return true;
}

#endif

#endif

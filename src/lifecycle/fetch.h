/* Fetch: loads what the replay, or a replica's applier, will need, in bulk (tier/bulk.h), while it runs what was fetched before.
 *
 * The keys of some thousand commands are a *window*. The replay fills one, hands it over to a thread (kelvin-fetch), and goes on; before it runs
 * the first command of a window it waits until that window is loaded. So a key's record is read once however often the window names it, and
 * records that are neighbours on the disk are read together. A window whose first command runs next is loaded by the replay's thread itself, as
 * are all of an applier that is only a few commands behind. A key that is not fetched (its record is large, memory is short) is loaded when its
 * command runs. Of values in pages the roots are loaded first, and then the pages that they say the elements are in.
 *
 * Owner: the replay's thread, or the applier's. Bounds: WINDOWS windows of at most FETCH_KEYS_MAX keys; records of 1/16 of maxmemory in one.
 */
#ifndef KELVIN_LIFECYCLE_FETCH_H
#define KELVIN_LIFECYCLE_FETCH_H

#include "engine/engine.h"

enum {
    FETCH_KEYS_MAX = 1 << 17,       /* of a window; what is more is not fetched */
    FETCH_KEY_SIZE_MAX = 1024,      /* longer keys are not fetched */
};

struct fetch;

/* NULL: the system gives no thread. The engine has a tier. */
struct fetch *fetch_create(struct engine *engine);
/* Ends the thread; keys that are not loaded yet will not be. NULL is fine. */
void fetch_destroy(struct fetch *fetch);

/* Adds a key of the command with this number to the window that is being filled. Numbers do not go down. */
void fetch_add(struct fetch *fetch, uint64_t number, struct bytes key, uint64_t hash, int db);
/* The command will need this element of the key that was added last, which may be a hash or set in pages: its page is loaded, too. */
void fetch_add_element(struct fetch *fetch, struct bytes element);
/* The command with this number runs next: hands the window over, which may wait until an older one is loaded; returns when all windows are
 * loaded that begin with this command, or before it. */
void fetch_submit(struct fetch *fetch, uint64_t number);

#endif

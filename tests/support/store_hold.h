/* Store hold: keeps readers out of a store, as store_reopen does while LevelDB is closed. For tests that do something between two steps
 * of a reader. */
#ifndef KELVIN_SUPPORT_STORE_HOLD_H
#define KELVIN_SUPPORT_STORE_HOLD_H

#ifdef __cplusplus
extern "C" {
#endif

struct store;

/* From here on store_get and store_scan wait, until store_hold_end by the same thread. Writing goes on. */
void store_hold_begin(struct store *store);
void store_hold_end(struct store *store);
/* Waits until an iterator is open or about to be opened: its thread is in store_scan. */
void store_hold_await_scan(struct store *store);

#ifdef __cplusplus
}
#endif

#endif

/* Store hold: keeps readers out of a store, as store_reopen does while LevelDB is closed. For tests that do something between two steps
 * of a reader. */
#ifndef KELVIN_SUPPORT_STORE_HOLD_H
#define KELVIN_SUPPORT_STORE_HOLD_H

#ifdef __cplusplus
extern "C" {
#endif

struct store;
struct store_hold;

/* From here on store_get and store_scan wait, until store_hold_end. Writing goes on. */
struct store_hold *store_hold_begin(struct store *store);
void store_hold_end(struct store_hold *hold);
/* Waits until a thread waits in store_scan. */
void store_hold_await_scan(struct store_hold *hold);

/* Writes the list of key runs of a store that is not open. */
void store_write_runs(const char *dir, const char *text);

/* The tables of LevelDB's level 0. */
int store_level0_count(struct store *store);

#ifdef __cplusplus
}
#endif

#endif

/* Store image: makes an image of the directory that a store is open in. For tests that write a store by hand; failures CHECK. */
#ifndef KELVIN_SUPPORT_STORE_IMAGE_H
#define KELVIN_SUPPORT_STORE_IMAGE_H

#ifdef __cplusplus
extern "C" {
#endif

struct store;

/* Writes what is in memory, and the meta data, and closes the store. */
void store_image_close(struct store *store);
/* Replaces the list of key runs in an image's meta data: a line for each, `<number> <tombstones> <bytes> [<incarnation>:<entries>]...`. */
void store_image_set_runs(const char *dir, const char *lines);

#ifdef __cplusplus
}
#endif

#endif

/* Library box: libraries for tests, made by a real interpreter. */
#ifndef KELVIN_SUPPORT_LIBRARY_BOX_H
#define KELVIN_SUPPORT_LIBRARY_BOX_H

#include "script/library_set.h"

/* The text of a library; `functions` are names that are separated by blanks. In `text`, which is emptied first. */
struct bytes library_box_text(struct buffer *text, const char *name, const char *functions);
/* Held once; aborts the test if it is not valid. */
struct library *library_box_make(const char *name, const char *functions, uint64_t version);
/* A set of libraries, each as "name: function function". Held once. */
struct library_set *library_box_set(const char *const *libraries);

#endif

/* Pager: where a container has its pages, which are runs of bytes with numbers. A page exists, or not; one that exists is resident, or can't be used now. Containers
 * never wait for a page: they say that it is missing, and have changed nothing then.
 *
 * No call makes a page missing that was there before it. A page of no bytes is found, too: at an address that is not NULL.
 *
 * Bytes that are returned belong to the pager, and are valid until the next change, creation or drop of any page. Owner: the owner of the container.
 */
#ifndef KELVIN_CONTAINERS_PAGER_H
#define KELVIN_CONTAINERS_PAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pager_use { PAGER_USE, PAGER_LOOK };      /* a look does not make the page hotter */
/* Parts of what find reads, each of which is found with the one before it: where the page is, its first bytes, the rest. */
enum pager_part { PAGER_PLACE, PAGER_BEGIN, PAGER_REST };

/* The first member of a struct that knows more. */
struct pager {
    bool only_looks;            /* a use is a look, too: for questions about what will be used */
    /* A page that exists; NULL: it is not resident. */
    const char *(*find)(struct pager *pager, uint32_t number, enum pager_use use, size_t *size);
    /* A resident page is about to be changed and has `size` bytes from now on: what it had, cut off there, or bytes that are to be written after it. It keeps
     * its memory if there is room, so calls with sizes that differ little are cheap. */
    char *(*change)(struct pager *pager, uint32_t number, size_t size);
    /* A page that does not exist, or one that is not resident and whose bytes are not needed; its bytes are to be written. */
    char *(*create)(struct pager *pager, uint32_t number, size_t size);
    void (*drop)(struct pager *pager, uint32_t number);
    /* Not used by containers: a page that find has not found is read now. The caller has not foreseen that it needs it. */
    void (*bring)(struct pager *pager, uint32_t number);
    /* Asks the CPU for that part of a page that will be looked at, so that several searches wait for memory side by side. NULL: the pager does not do that. */
    void (*fetch)(struct pager *pager, uint32_t number, enum pager_part part);
};

#endif

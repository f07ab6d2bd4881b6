/* Slot words: the words of a command to another node, with ranges of slots as pairs of numbers. Owner: the caller. */
#ifndef KELVIN_CLUSTER_SLOT_WORDS_H
#define KELVIN_CLUSTER_SLOT_WORDS_H

#include "base/bytes.h"
#include "cluster/slots.h"

struct slot_words {
    struct bytes *words;
    int count;
    char (*numbers)[8];             /* what some of the words are; belong to it */
    int number_count;
};

void slot_words_init(struct slot_words *words);
void slot_words_release(struct slot_words *words);
void slot_words_add(struct slot_words *words, struct bytes word);          /* which is borrowed; at most 8 of them */
void slot_words_add_slots(struct slot_words *words, const struct slots *slots);        /* once */

#endif

/* Predict: what TIER ADVISE would say of a sequence, beside what the policy does at each of the sizes. */
#ifndef KELVIN_SIMULATE_PREDICT_H
#define KELVIN_SIMULATE_PREDICT_H

#include "sequence.h"

/* Prints a line for each of five sizes. Requests before `from` are the load: they do not count. `capacity` is that of maxmemory. */
void predict(const struct sequence *sequence, uint32_t from, uint64_t capacity, uint32_t rate);

#endif

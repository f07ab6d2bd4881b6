/* Progress: how far a long piece of work is, as text: a bar, a rate, and the time left. Pure: the caller has the clock and prints.
 *
 * The rate is a mean over about the last ten seconds, so that the time left follows work that becomes slower or faster.
 */
#ifndef KELVIN_BASE_PROGRESS_H
#define KELVIN_BASE_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

enum progress_unit { PROGRESS_COUNT, PROGRESS_BYTES };

/* Plain data; begin with progress_begin, or with zeros and progress_follow. */
struct progress {
    enum progress_unit unit;
    uint64_t total, done;           /* total 0: not known */
    int64_t begun_us, noted_us;     /* monotonic */
    double rate;                    /* units a second; below 0: not known yet */
};

void progress_begin(struct progress *progress, enum progress_unit unit, uint64_t total, int64_t now_us);
/* Notes how much is done. A number that is smaller than the last one, or a clock that stands, changes no rate. */
void progress_note(struct progress *progress, uint64_t done, int64_t now_us);

/* Notes how far work is that is seen from outside, whose total may change: it begins now if `progress` is all zero, if less is done than before, or if
 * the unit is another one. What was done until then says nothing about the rate. */
void progress_follow(struct progress *progress, enum progress_unit unit, uint64_t done, uint64_t total, int64_t now_us);

/* 0 to 1; 0 if the total is not known. */
double progress_fraction(const struct progress *progress);
/* Seconds until it is done at the present rate; below 0: not known. */
double progress_left_s(const struct progress *progress);

/* Appends "what [#####.....]  52 %  1:23 left  431k/s", at most `columns` characters: what does not fit is left out, the bar first. Without a
 * total there are the amount and the rate only. */
void progress_text(const struct progress *progress, const char *what, int columns, struct buffer *out);

/* Appends " 52 %  1:23 left  431k/s": the same without name and bar. */
void progress_facts(const struct progress *progress, struct buffer *out);

/* Appends ", 1:23 left at 431k/s" for a line of a log; nothing while that is not known. */
void progress_rest(const struct progress *progress, struct buffer *out);

/* Appends a bar of `width` characters, brackets included: "[####......]". A fraction that is no number from 0 to 1 is taken as the nearer end. */
void progress_bar(double fraction, int width, struct buffer *out);
/* Appends "0:05", "1:02:03" or "3 d 04:05" for a number of seconds. */
void progress_time(double seconds, struct buffer *out);
/* Appends a number with three digits or so and a unit: "999", "12.3k", "1.50M"; of bytes in powers of 1024: "12.3K". */
void progress_amount(double number, enum progress_unit unit, struct buffer *out);

#endif

/* Status: how an operation on the outside world (disk, network, bytes from outside) ended. Bugs use CHECK, users get
 * error replies.
 */
#ifndef KELVIN_BASE_STATUS_H
#define KELVIN_BASE_STATUS_H

#ifdef __clang__        /* GCC accepts this attribute on functions only */
#define STATUS_USED __attribute__((warn_unused_result))
#else
#define STATUS_USED
#endif

enum STATUS_USED status {
    STATUS_OK = 0,
    STATUS_NOT_FOUND,   /* what was asked for does not exist */
    STATUS_IO,          /* EIO and every other failed system call */
    STATUS_NO_SPACE,    /* ENOSPC, EDQUOT, or one of Kelvin's limits on disk space */
    STATUS_CORRUPT,     /* the bytes cannot be what they should be */
    STATUS_LOCKED,      /* another process or owner holds it */
    STATUS_VERSION,     /* written by a newer Kelvin */
    STATUS_INVALID,     /* an argument from outside is not valid */
    STATUS_TRUNCATED,   /* ends in the middle of a record */
    STATUS_CLOSED,      /* it is not open, or not any more */
    STATUS_TOO_LARGE,   /* larger than one of Kelvin's limits on the size of an item */
    STATUS_CANCELLED,   /* stopped before it was complete, as requested */
};

/* A short English name, for logs. */
const char *status_name(enum status status);

/* The status for an errno value; never STATUS_OK. */
enum status status_of_errno(int error);

#endif

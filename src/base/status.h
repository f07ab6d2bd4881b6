/* What the world may answer: disk, network, bytes from outside. Bugs use CHECK, users get error replies. */
#ifndef KELVIN_BASE_STATUS_H
#define KELVIN_BASE_STATUS_H

#ifdef __clang__        /* GCC knows this attribute for functions only */
#define STATUS_USED __attribute__((warn_unused_result))
#else
#define STATUS_USED
#endif

enum STATUS_USED status {
    STATUS_OK = 0,
    STATUS_NOT_FOUND,   /* what was asked for is not there */
    STATUS_IO,          /* EIO and every other failed system call */
    STATUS_NO_SPACE,    /* ENOSPC, EDQUOT, or a limit of ours on disk space */
    STATUS_CORRUPT,     /* bytes that can't be what they should be */
    STATUS_LOCKED,      /* somebody else holds it */
    STATUS_VERSION,     /* written by a newer Kelvin */
    STATUS_INVALID,     /* an argument from outside makes no sense */
    STATUS_TRUNCATED,   /* ends in the middle of a record */
    STATUS_CLOSED,      /* the thing is not open (any more) */
    STATUS_TOO_LARGE,   /* beyond a limit of ours on the size of one thing */
    STATUS_CANCELLED,   /* given up half way, as was asked for */
};

/* A short English name, for logs. */
const char *status_name(enum status status);

/* The status for an errno value; never STATUS_OK. */
enum status status_of_errno(int error);

#endif

#include "base/status.h"

#include <errno.h>

const char *status_name(enum status status)
{
    switch (status) {
    case STATUS_OK: return "ok";
    case STATUS_NOT_FOUND: return "not found";
    case STATUS_IO: return "I/O error";
    case STATUS_NO_SPACE: return "no space left";
    case STATUS_CORRUPT: return "corrupt data";
    case STATUS_LOCKED: return "locked by another process";
    case STATUS_VERSION: return "written by a newer version";
    case STATUS_INVALID: return "invalid argument";
    case STATUS_TRUNCATED: return "truncated";
    case STATUS_CLOSED: return "not open";
    case STATUS_TOO_LARGE: return "too large";
    case STATUS_CANCELLED: return "it was cancelled";
    }
    return "unknown status";
}

enum status status_of_errno(int error)
{
    switch (error) {
    case ENOENT: return STATUS_NOT_FOUND;
    case ENOSPC: case EDQUOT: return STATUS_NO_SPACE;
    default: return STATUS_IO;
    }
}

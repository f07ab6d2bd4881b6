/* Dial: opens a TCP connection to another server. The caller waits, so it decides how long and what ends the attempt. */
#ifndef KELVIN_BASE_DIAL_H
#define KELVIN_BASE_DIAL_H

#include <stdbool.h>

struct addrinfo;

struct dial {
    const struct addrinfo *addresses;   /* of getaddrinfo, tried in turn */
    const struct addrinfo *sources;     /* to connect from: the first one of the family is used; NULL: the system chooses */
    /* Waits until `fd` can be written to or has an error. False: this attempt is given up; the next address is tried. */
    bool (*wait)(void *context, int fd);
    void *context;
};

/* A connected socket that does not block, without delay (TCP_NODELAY), or -1 with errno of the last address; ECANCELED: `wait` gave it up. */
int dial(const struct dial *dial);

#endif

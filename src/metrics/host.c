#include "metrics/host.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

enum { NAME_SIZE = 256 };           /* a name in the DNS has 253 characters at most */

static const char local[] = "localhost";

/* Copies the name without its port, the brackets of an IPv6 address and the dot at its end. False: it is too long, or has a bracket too few. */
static bool take_name(const char *host, char name[NAME_SIZE])
{
    bool has_brackets = host[0] == '[';
    size_t size;

    host += has_brackets;
    size = strcspn(host, has_brackets ? "]" : ":");
    if (size >= NAME_SIZE || (has_brackets && host[size] != ']'))
        return false;
    if (!has_brackets && size > 0 && host[size - 1] == '.')
        size--;
    memcpy(name, host, size);
    name[size] = '\0';
    return true;
}

static bool is_local_name(const char *name)
{
    size_t size = strlen(name), local_size = sizeof(local) - 1;

    if (size < local_size || strcasecmp(name + size - local_size, local) != 0)
        return false;
    return size == local_size || name[size - local_size - 1] == '.';
}

bool host_is_own(const char *host, const char *machine)
{
    struct in6_addr address;
    char name[NAME_SIZE];

    if (host == NULL)
        return true;
    if (!take_name(host, name))
        return false;
    if (host[0] == '[')
        return inet_pton(AF_INET6, name, &address) == 1;
    return inet_pton(AF_INET, name, &address) == 1 || is_local_name(name) || (name[0] != '\0' && strcasecmp(name, machine) == 0);
}

bool host_is_loopback(const char *ip)
{
    static const char mapped[] = "::ffff:";

    if (strncasecmp(ip, mapped, sizeof(mapped) - 1) == 0)
        ip += sizeof(mapped) - 1;
    return strncmp(ip, "127.", 4) == 0 || strcmp(ip, "::1") == 0;
}

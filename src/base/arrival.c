#include "base/arrival.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/clock.h"

/* The clock first: if the process is stopped after that, the age grows, and the result is earlier. */
int64_t arrival_us(int fd)
{
    int64_t now_us = clock_mono_us();
    struct tcp_info info = { 0 };
    socklen_t size = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return now_us;
    return now_us - (int64_t)info.tcpi_last_data_recv * 1000;
}

/* Endpoint: the two ends of a connected socket as text: "127.0.0.1:6379", "[::1]:6379". Any thread. */
#ifndef KELVIN_BASE_ENDPOINT_H
#define KELVIN_BASE_ENDPOINT_H

enum { ENDPOINT_SIZE = 64 };

/* The end of the peer, or this side's. ":0" if the socket is not connected any more. */
void endpoint_of_peer(int fd, char text[ENDPOINT_SIZE]);
void endpoint_of_self(int fd, char text[ENDPOINT_SIZE]);

/* The addresses alone: "127.0.0.1", "::1"; "" if it is not connected any more. */
enum { ENDPOINT_IP_SIZE = 46 };
void endpoint_ip_of_peer(int fd, char ip[ENDPOINT_IP_SIZE]);
void endpoint_ip_of_self(int fd, char ip[ENDPOINT_IP_SIZE]);

#endif

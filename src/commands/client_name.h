/* Names of clients, and of their libraries. */
#ifndef KELVIN_COMMANDS_CLIENT_NAME_H
#define KELVIN_COMMANDS_CLIENT_NAME_H

#include "call/call.h"

enum { CLIENT_NAME_SIZE_MAX = 1024 };

/* Names of clients and libraries: printable ASCII without spaces, of a size that all clients may have; may be empty. False: an error was replied,
 * which calls them `what`. */
bool client_name_accept(struct call *call, struct bytes what, struct bytes name);

/* Replaces one of the client's names by a copy of the text; empty: NULL. */
void client_set_text(struct client *client, char **field, struct bytes text);

#endif

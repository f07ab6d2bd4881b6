/* Names of clients, and of their libraries. */
#ifndef KELVIN_COMMANDS_CLIENT_NAME_H
#define KELVIN_COMMANDS_CLIENT_NAME_H

#include "call/client.h"

/* Names of clients and libraries: printable ASCII without spaces; may be empty. */
bool client_name_is_valid(struct bytes name);
#define CLIENT_NAME_ERROR "ERR Client names cannot contain spaces, newlines or special characters."

/* Replaces one of the client's names by a copy of the text; empty: NULL. */
void client_set_text(struct client *client, char **field, struct bytes text);

#endif

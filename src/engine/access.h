/* Access: what the users of clients may do (acl/), asked before each call.
 *
 * A client whose user may do everything pays one test of `checks_acl`. For all others the rules that are valid now are asked: for a request
 * each time it starts (also after it has waited), for a transaction and a script for each of their commands, for a client that waits for a
 * key when it is served.
 *
 * A change of users is made by a command that is exclusive, so no unit is in the middle when rules change. Before its reply all workers
 * have passed a call boundary: no call that was checked with the old rules is still running. There each worker closes its clients that the
 * change concerns: those of users that were removed, and those that have subscriptions which their rules no longer allow.
 */
#ifndef KELVIN_ENGINE_ACCESS_H
#define KELVIN_ENGINE_ACCESS_H

#include "call/call.h"

struct acl_change;
struct acl_user;
struct engine;

/* Where a command is checked: what the error says, and the log of denied calls. */
enum access_context { ACCESS_TOP, ACCESS_EXEC, ACCESS_SCRIPT };

/* The client's user may not do everything: its calls are to be checked with access_allows. */
bool access_is_limited(const struct client *client);
/* `call` has its command and arguments. False: the error was replied and logged. */
bool access_allows(struct call *call, enum access_context context);
/* The same without a reply or an entry in the log. */
bool access_would_allow(struct call *call);

/* In a handler, for keys that the arguments do not name (SORT's BY and GET). */
bool access_reads_every_key(struct call *call);

/* In a handler, for arguments from `first` on that are keys although the command's row does not say so, as the executor must not load them
 * (TIER WHERE, TIER DEMOTE). Only whether they are there is looked at. False: the error was replied and logged. */
bool access_allows_arguments(struct call *call, int first);

/* Makes a client act as a user. The user is held; the client's earlier one is released. On the client's worker. NULL: it has none any more. */
void access_set_user(struct client *client, struct acl_user *user);
/* A new connection: it acts as the default user, and is authenticated if that needs no password. */
void access_begin(struct client *client);

/* Handlers of commands that change users:
 *
 *   if (!access_is_published(call)) {
 *       change = ...;                          checks the arguments, replies errors
 *       access_publish(call, change);          parked: the call runs again when all workers have passed a call boundary
 *       return;
 *   }
 *   reply_ok(call->reply);
 */
bool access_is_published(struct call *call);
const struct acl_change *access_change(struct call *call);     /* which is published; only if it is */
/* Publishes the change and takes it over. */
void access_publish(struct call *call, struct acl_change *change);
/* The same without waiting (requirepass): takes effect at once for new requests. Any worker. */
void access_publish_soon(struct engine *engine, struct acl_change *change);

#endif

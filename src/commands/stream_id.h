/* Stream IDs as arguments and in replies: "ms-seq", in decimal. */
#ifndef KELVIN_COMMANDS_STREAM_ID_H
#define KELVIN_COMMANDS_STREAM_ID_H

#include "call/call.h"
#include "containers/idmap.h"

enum { STREAM_ID_TEXT_SIZE = 48 };

void reply_stream_id(struct reply *reply, struct stream_id id);
struct bytes call_stream_id(struct call *call, struct stream_id id);   /* text that lives as long as the call */

/* A complete ID: "5-1", or "5", which is 5-0. Replies no error. */
bool stream_id_parse(struct bytes text, struct stream_id *id);

/* IDs as arguments. False: the error was replied. */
bool arg_stream_id(struct call *call, int arg, struct stream_id *id);
/* `count` arguments, in the call's arena. NULL: the error was replied. */
struct stream_id *arg_stream_ids(struct call *call, int first, int count);
/* Also "-" and "+", the smallest and the largest ID. */
bool arg_stream_id_or_extreme(struct call *call, int arg, struct stream_id *id);
/* Also "5-*": then `*has_seq` is false. */
bool arg_stream_id_to_add(struct call *call, int arg, struct stream_id *id, bool *has_seq);
/* Ends of a range: also "-" and "+", "5", which means all of 5, and "(5-1", which is exclusive. Both results are inclusive. */
bool arg_stream_start(struct call *call, int arg, struct stream_id *start);
bool arg_stream_range(struct call *call, int start_arg, int end_arg, struct stream_id *start, struct stream_id *end);

#endif

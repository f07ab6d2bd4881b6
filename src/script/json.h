/* cjson: JSON as lua-cjson 2.1.0 reads and writes it. Its settings belong to the run; a script that changes them changes
 * those of later runs of the same interpreter too, as in Redis. Tables of cjson.new have settings of their own.
 */
#ifndef KELVIN_SCRIPT_JSON_H
#define KELVIN_SCRIPT_JSON_H

#include <stdbool.h>

struct lua_State;

enum json_invalid { JSON_INVALID_REFUSED, JSON_INVALID_ACCEPTED, JSON_INVALID_AS_NULL };

struct json_settings {
    bool sparse_convert;                /* an array with too many holes becomes an object; otherwise it is an error */
    int sparse_ratio, sparse_safe;
    int encode_depth_max, decode_depth_max;
    int precision;                      /* digits of numbers, 1 to 14 */
    bool keep_buffer;                   /* without effect here: the buffer is Lua's */
    enum json_invalid encode_invalid;   /* NaN and infinity */
    bool decode_invalid;                /* also hex */
};

void json_settings_init(struct json_settings *settings);

/* Pushes the table `cjson`. */
void json_open(struct lua_State *lua);

/* The functions, in files of their own; the settings are found with json_settings_of. */
int json_encode(struct lua_State *lua);
int json_decode(struct lua_State *lua);
const struct json_settings *json_settings_of(struct lua_State *lua);

#endif

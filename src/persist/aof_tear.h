/* AOF tear: is the last command of a log torn, or damaged?
 *
 * An interrupted write leaves the first part of a command, and nothing (or zeros) after it. A damaged length that is larger than it was
 * looks the same to a reader: the file ends within the argument. But then the log goes on after it. So it is damage
 *   - if complete commands follow: two, or one and then the end or the beginning of another;
 *   - if the command is complete up to the last byte once one bit of that length is changed.
 * A torn argument can contain commands itself, a log for example: that is taken for damage, too. The server then refuses to start, and
 * nothing is lost; kelvin-check --repair truncates the log there.
 */
#ifndef KELVIN_PERSIST_AOF_TEAR_H
#define KELVIN_PERSIST_AOF_TEAR_H

#include <stdbool.h>
#include <stddef.h>

/* At most this many bytes of it are examined. */
enum { AOF_TEAR_SIZE_MAX = 64 << 20 };

/* `tail`: the log from the beginning of the incomplete command to its end, or the first AOF_TEAR_SIZE_MAX bytes of that; changed during the
 * call and restored. True: damage, and *again is the offset in `tail` where complete commands go on, or `size` if it was the last one. */
bool aof_tear_is_damage(char *tail, size_t size, size_t *again);

#endif

/* AOF tear: is the last command of a log torn, or damaged?
 *
 * A write that was interrupted leaves the first part of a command, and nothing (or zeros) after it. A length that is damaged, and says
 * more than it should, looks the same to a reader: the file ends inside of the argument. But then the log goes on after it. So it is damage
 *   - if whole commands follow: two, or one and then the end or the beginning of a third;
 *   - if the command is whole to the last byte once one bit of that length is changed.
 * An argument that was torn can contain commands itself, a log for example: that is taken for damage, too. The server then refuses to
 * start, and nothing is lost; kelvin-check --repair cuts the log there.
 */
#ifndef KELVIN_PERSIST_AOF_TEAR_H
#define KELVIN_PERSIST_AOF_TEAR_H

#include <stdbool.h>
#include <stddef.h>

/* So many bytes of it are looked at. */
enum { AOF_TEAR_SIZE_MAX = 64 << 20 };

/* `tail`: the log from the beginning of the incomplete command to the end, or its first AOF_TEAR_SIZE_MAX bytes; it is changed meanwhile,
 * but not afterwards. True: damage, and *again is the offset in it where whole commands go on, `size` if it was the last one. */
bool aof_tear_is_damage(char *tail, size_t size, size_t *again);

#endif

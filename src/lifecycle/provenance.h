/* Provenance: do log and dump belong together? A dump that was copied beside a log would otherwise be ignored silently. */
#ifndef KELVIN_LIFECYCLE_PROVENANCE_H
#define KELVIN_LIFECYCLE_PROVENANCE_H

#include <stdbool.h>

struct engine;

/* At the start, when the log is open and it is known whether a dump will be imported (aof_adopt): finds the data set's id
 * (engine->identity) and looks at the dump beside the log. False: the server may not start; the log says why, and what to do. */
bool provenance_check(struct engine *engine);

/* When everything is loaded, before aof_start, so that no log is ever there without its id: writes it beside the log, if there is none yet. False: it
 * can't be; it was logged. Nothing to do without a log. */
bool provenance_keep(struct engine *engine);

#endif

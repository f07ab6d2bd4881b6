/* Greeting: the first lines of the log. They name the version, the configuration, the directory of the data, whether the data survives a crash,
 * and whether the cold tier will ever do anything.
 */
#ifndef KELVIN_SERVER_GREETING_H
#define KELVIN_SERVER_GREETING_H

struct engine;

/* When configuration and log are open, the working directory is `dir`, and nothing else was done. Also has CONFIG SET of directives without effect
 * logged from then on. */
void greeting_log(struct engine *engine);

#endif

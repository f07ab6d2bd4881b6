/* Advice: TIER ADVISE, its fields of INFO, and the measures that the tier's models need of the engine (tier/advise.h has the method). */
#ifndef KELVIN_SERVER_ADVICE_H
#define KELVIN_SERVER_ADVICE_H

struct buffer;
struct call;
struct engine;

/* By the first worker's cron, as often as it likes. */
void advice_cron(struct engine *engine);

/* TIER ADVISE [HITRATIO percent | COST ram ssd [reads]] */
void advice_command(struct call *call);

void advice_info(struct buffer *out, struct engine *engine);

#endif

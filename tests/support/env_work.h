/* Work for the store's background thread, for tests in C. */
#ifndef KELVIN_SUPPORT_ENV_WORK_H
#define KELVIN_SUPPORT_ENV_WORK_H

#ifdef __cplusplus
extern "C" {
#endif

struct store_env;

void env_work_schedule(struct store_env *env, void (*function)(void *), void *argument);
void env_work_wait(struct store_env *env);

#ifdef __cplusplus
}
#endif

#endif

#include "support/env_work.h"

#include "store/store_disk.h"

void env_work_schedule(struct store_env *env, void (*function)(void *), void *argument)
{
    env->schedule(function, argument);
}

void env_work_wait(struct store_env *env)
{
    env->wait_for_work();
}

/* Steps of FUNCTION LOAD and RESTORE before they claim anything (call/command.h). */
#ifndef KELVIN_COMMANDS_FUNCTION_H
#define KELVIN_COMMANDS_FUNCTION_H

#include "call/command.h"

command_prepare function_load_prepare, function_restore_prepare;

#endif

#include "support/scaled.h"

#include <stdlib.h>

int scaled(int rounds)
{
    const char *is_short = getenv("KELVIN_SHORT");

    if (is_short == NULL || *is_short == '\0')
        return rounds;
    return rounds < 5 ? 1 : rounds / 5;
}

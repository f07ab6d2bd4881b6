#include "metrics/families.h"

void family_counter(struct exposition *out, const char *name, const char *unit, const char *help, double number)
{
    exposition_begin(out, &(struct metric){ name, METRIC_COUNTER, unit, help });
    exposition_number(out, NULL, 0, number);
}

void family_gauge(struct exposition *out, const char *name, const char *unit, const char *help, double number)
{
    exposition_begin(out, &(struct metric){ name, METRIC_GAUGE, unit, help });
    exposition_number(out, NULL, 0, number);
}

void family_labelled(struct exposition *out, const struct metric *family, const char *label, const struct family_sample *samples, int count)
{
    exposition_begin(out, family);
    for (int i = 0; i < count; i++)
        exposition_number(out, &(struct label){ label, bytes_of_string(samples[i].value) }, 1, samples[i].number);
}

/* Included first, by the compiler's -include, in each file of tests/unit: see unit_main.c. */
#ifndef KELVIN_UNIT_PROTOTYPE_H
#define KELVIN_UNIT_PROTOTYPE_H

/* Where `main` is a macro with the name of the file, this is the prototype of that function, for -Wmissing-prototypes. */
int main(void);

#endif

#include "base/grisu.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* fraction * 2^exponent */
struct scaled {
    uint64_t fraction;
    int exponent;
};

enum { POWER_FIRST = -348, POWER_STEP = 8, EXPONENT_LEAST = -60 };

/* The first 64 bits of 10^-348, 10^-340 ... 10^340, rounded. */
static const uint64_t powers[] = {
    0xfa8fd5a0081c0288, 0xbaaee17fa23ebf76, 0x8b16fb203055ac76, 0xcf42894a5dce35ea, 0x9a6bb0aa55653b2d, 0xe61acf033d1a45df,
    0xab70fe17c79ac6ca, 0xff77b1fcbebcdc4f, 0xbe5691ef416bd60c, 0x8dd01fad907ffc3c, 0xd3515c2831559a83, 0x9d71ac8fada6c9b5,
    0xea9c227723ee8bcb, 0xaecc49914078536d, 0x823c12795db6ce57, 0xc21094364dfb5637, 0x9096ea6f3848984f, 0xd77485cb25823ac7,
    0xa086cfcd97bf97f4, 0xef340a98172aace5, 0xb23867fb2a35b28e, 0x84c8d4dfd2c63f3b, 0xc5dd44271ad3cdba, 0x936b9fcebb25c996,
    0xdbac6c247d62a584, 0xa3ab66580d5fdaf6, 0xf3e2f893dec3f126, 0xb5b5ada8aaff80b8, 0x87625f056c7c4a8b, 0xc9bcff6034c13053,
    0x964e858c91ba2655, 0xdff9772470297ebd, 0xa6dfbd9fb8e5b88f, 0xf8a95fcf88747d94, 0xb94470938fa89bcf, 0x8a08f0f8bf0f156b,
    0xcdb02555653131b6, 0x993fe2c6d07b7fac, 0xe45c10c42a2b3b06, 0xaa242499697392d3, 0xfd87b5f28300ca0e, 0xbce5086492111aeb,
    0x8cbccc096f5088cc, 0xd1b71758e219652c, 0x9c40000000000000, 0xe8d4a51000000000, 0xad78ebc5ac620000, 0x813f3978f8940984,
    0xc097ce7bc90715b3, 0x8f7e32ce7bea5c70, 0xd5d238a4abe98068, 0x9f4f2726179a2245, 0xed63a231d4c4fb27, 0xb0de65388cc8ada8,
    0x83c7088e1aab65db, 0xc45d1df942711d9a, 0x924d692ca61be758, 0xda01ee641a708dea, 0xa26da3999aef774a, 0xf209787bb47d6b85,
    0xb454e4a179dd1877, 0x865b86925b9bc5c2, 0xc83553c5c8965d3d, 0x952ab45cfa97a0b3, 0xde469fbd99a05fe3, 0xa59bc234db398c25,
    0xf6c69a72a3989f5c, 0xb7dcbf5354e9bece, 0x88fcf317f22241e2, 0xcc20ce9bd35c78a5, 0x98165af37b2153df, 0xe2a0b5dc971f303a,
    0xa8d9d1535ce3b396, 0xfb9b7cd9a4a7443c, 0xbb764c4ca7a44410, 0x8bab8eefb6409c1a, 0xd01fef10a657842c, 0x9b10a4e5e9913129,
    0xe7109bfba19c0c9d, 0xac2820d9623bf429, 0x80444b5e7aa7cf85, 0xbf21e44003acdd2d, 0x8e679c2f5e44ff8f, 0xd433179d9c8cb841,
    0x9e19db92b4e31ba9, 0xeb96bf6ebadf77d9, 0xaf87023b9bf0ee6b,
};

static struct scaled power_at(int index)
{
    int decimal = POWER_FIRST + index * POWER_STEP;

    return (struct scaled){ powers[index], ((decimal * 217706) >> 16) - 63 };      /* 217706 / 2^16 is log2(10), exact enough here */
}

/* The index of the first power that brings a number with this exponent to at least EXPONENT_LEAST: its integer part has 32 bits then. */
static int power_for(int exponent)
{
    int index = ((-exponent - 87) * 19728 / 65536 - POWER_FIRST) / POWER_STEP;     /* 19728 / 2^16 is log10(2); one or two too few */

    while (exponent + power_at(index).exponent + 64 < EXPONENT_LEAST)
        index++;
    return index;
}

static struct scaled scaled_of(double number)
{
    const uint64_t hidden = 1ULL << 52;
    uint64_t bits;
    int biased;

    memcpy(&bits, &number, sizeof(bits));
    biased = (int)(bits >> 52);
    bits &= hidden - 1;
    return biased == 0 ? (struct scaled){ bits, -1074 } : (struct scaled){ bits + hidden, biased - 1075 };
}

static struct scaled normalized(struct scaled number)
{
    int shift = __builtin_clzll(number.fraction);

    return (struct scaled){ number.fraction << shift, number.exponent - shift };
}

static uint64_t product(uint64_t a, uint64_t b)
{
    return (uint64_t)(((unsigned __int128)a * b + (1ULL << 63)) >> 64);
}

/* The numbers from which the digits are generated: all fractions have the same exponent, `fraction_bits` below the point. */
struct generator {
    char *digits;
    int count;
    int fraction_bits;
    uint64_t interval;          /* between the highest and the lowest number that read back as this one */
    uint64_t distance;          /* from the highest one to the number itself */
};

/* The digits so far are of the highest number. Lowers the last one as long as that comes closer to the number itself: `rest` is how far the
 * digits are below the highest one, `unit` what the last digit is worth. */
static void come_closer(struct generator *to, uint64_t rest, uint64_t unit)
{
    while (rest < to->distance && to->interval - rest >= unit &&
        (rest + unit < to->distance || to->distance - rest > rest + unit - to->distance)) {
        to->digits[to->count - 1]--;
        rest += unit;
    }
}

static void add_digit(struct generator *to, unsigned digit)
{
    if (digit != 0 || to->count > 0)
        to->digits[to->count++] = (char)('0' + digit);
}

/* Returns the power of ten of the last digit. */
static int generate(struct generator *to, uint64_t highest)
{
    uint64_t whole = highest >> to->fraction_bits, part = highest & ((1ULL << to->fraction_bits) - 1);
    uint64_t unit = 1000000000;

    for (int power = 9; power >= 0; power--, unit /= 10) {
        uint64_t rest;

        add_digit(to, (unsigned)(whole / unit));
        whole %= unit;
        rest = (whole << to->fraction_bits) + part;
        if (rest <= to->interval) {
            come_closer(to, rest, unit << to->fraction_bits);
            return power;
        }
    }
    for (int power = -1;; power--) {
        part *= 10;
        to->interval *= 10;
        to->distance *= 10;
        add_digit(to, (unsigned)(part >> to->fraction_bits));
        part &= (1ULL << to->fraction_bits) - 1;
        if (part < to->interval) {
            come_closer(to, part, 1ULL << to->fraction_bits);
            return power;
        }
    }
}

int grisu_digits(double number, char digits[GRISU_DIGITS_MAX], int *point)
{
    struct scaled value = scaled_of(number), power;
    bool is_power_of_two = value.fraction == 1ULL << 52;        /* the next lower number is nearer */
    struct scaled high = normalized((struct scaled){ value.fraction * 2 + 1, value.exponent - 1 });
    struct scaled low = is_power_of_two ? (struct scaled){ value.fraction * 4 - 1, value.exponent - 2 }
                                        : (struct scaled){ value.fraction * 2 - 1, value.exponent - 1 };
    int index = power_for(high.exponent);
    uint64_t highest, lowest;
    struct generator to = { .digits = digits };

    power = power_at(index);
    value = normalized(value);
    low.fraction <<= low.exponent - high.exponent;
    /* Products are off by one at most: the interval is narrowed by that. */
    highest = product(high.fraction, power.fraction) - 1;
    lowest = product(low.fraction, power.fraction) + 1;
    to.fraction_bits = -(high.exponent + power.exponent + 64);
    to.interval = highest - lowest;
    to.distance = highest - product(value.fraction, power.fraction);
    *point = generate(&to, highest) - (POWER_FIRST + index * POWER_STEP) + to.count;
    return to.count;
}

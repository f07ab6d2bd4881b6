#include "commands/geohash.h"

#include <math.h>

#define EARTH_RADIUS_M 6372797.560856
#define RADIANS_PER_DEGREE (M_PI / 180.0)

/* Inserts a zero bit between any two bits: abcd -> 0a0b0c0d. In each step the halves of a group move apart. */
static uint64_t spread_bits(uint64_t bits)
{
    bits &= 0xffffffff;
    bits = (bits | bits << 16) & 0x0000ffff0000ffff;
    bits = (bits | bits << 8) & 0x00ff00ff00ff00ff;
    bits = (bits | bits << 4) & 0x0f0f0f0f0f0f0f0f;
    bits = (bits | bits << 2) & 0x3333333333333333;
    return (bits | bits << 1) & 0x5555555555555555;
}

static uint32_t gather_bits(uint64_t bits)
{
    bits &= 0x5555555555555555;
    bits = (bits | bits >> 1) & 0x3333333333333333;
    bits = (bits | bits >> 2) & 0x0f0f0f0f0f0f0f0f;
    bits = (bits | bits >> 4) & 0x00ff00ff00ff00ff;
    bits = (bits | bits >> 8) & 0x0000ffff0000ffff;
    return (uint32_t)(bits | bits >> 16);
}

static uint64_t interleave_bits(uint32_t longitude, uint32_t latitude)
{
    return spread_bits(longitude) << 1 | spread_bits(latitude);
}

/* Index among 2^step parts of the range from -limit to limit. */
static uint32_t part_of(double degrees, double limit, int step)
{
    return (uint32_t)((degrees + limit) / (limit + limit) * (double)(1u << step));
}

static double part_begin(uint64_t part, double limit, int step)
{
    return -limit + (double)part / (double)(1u << step) * (limit + limit);
}

static uint64_t encode_within(struct geo_point point, double latitude_max, int step)
{
    return interleave_bits(part_of(point.longitude, GEO_LONGITUDE_MAX, step), part_of(point.latitude, latitude_max, step));
}

uint64_t geohash_encode(struct geo_point point, int step)
{
    return encode_within(point, GEO_LATITUDE_MAX, step);
}

struct geo_box geohash_box(uint64_t bits, int step)
{
    uint64_t longitude = gather_bits(bits >> 1), latitude = gather_bits(bits);

    return (struct geo_box){
        .min = { part_begin(longitude, GEO_LONGITUDE_MAX, step), part_begin(latitude, GEO_LATITUDE_MAX, step) },
        .max = { part_begin(longitude + 1, GEO_LONGITUDE_MAX, step), part_begin(latitude + 1, GEO_LATITUDE_MAX, step) },
    };
}

static double held_within(double degrees, double limit)
{
    return degrees > limit ? limit : degrees < -limit ? -limit : degrees;
}

struct geo_point geohash_decode(uint64_t bits)
{
    struct geo_box box = geohash_box(bits, GEOHASH_STEP_MAX);

    return (struct geo_point){
        .longitude = held_within((box.min.longitude + box.max.longitude) / 2, GEO_LONGITUDE_MAX),
        .latitude = held_within((box.min.latitude + box.max.latitude) / 2, GEO_LATITUDE_MAX),
    };
}

/* A number that is not moved keeps the extra bit that the upper limit has. */
static uint32_t moved_part(uint32_t part, int by, int step)
{
    return by == 0 ? part : (part + (uint32_t)by) & ((1u << step) - 1);
}

uint64_t geohash_neighbour(uint64_t bits, int step, int east, int north)
{
    return interleave_bits(moved_part(gather_bits(bits >> 1), east, step), moved_part(gather_bits(bits), north, step));
}

uint64_t geohash_of_score(double score)
{
    if (score >= 0x1p64)
        return 0;
    if (score >= 0)
        return (uint64_t)score;
    return score > -0x1p63 ? (uint64_t)(int64_t)score : (uint64_t)1 << 63;
}

void geohash_text(struct geo_point point, char text[GEOHASH_TEXT_SIZE])
{
    static const char letters[] = "0123456789bcdefghjkmnpqrstuvwxyz";
    uint64_t bits = encode_within(point, 90, GEOHASH_STEP_MAX);

    for (int i = 0; i < GEOHASH_TEXT_SIZE - 1; i++)
        text[i] = letters[bits >> (47 - 5 * i) & 31];
    text[GEOHASH_TEXT_SIZE - 1] = letters[0];
}

double geo_radians(double degrees)
{
    return degrees * RADIANS_PER_DEGREE;
}

double geo_degrees_of_metres(double metres)
{
    return metres / EARTH_RADIUS_M / RADIANS_PER_DEGREE;
}

double geo_distance_north(double latitude, double other)
{
    return EARTH_RADIUS_M * fabs(geo_radians(other) - geo_radians(latitude));
}

double geo_distance(struct geo_point a, struct geo_point b)
{
    double east = sin((geo_radians(b.longitude) - geo_radians(a.longitude)) / 2), north, share;

    if (east == 0)
        return geo_distance_north(a.latitude, b.latitude);
    north = sin((geo_radians(b.latitude) - geo_radians(a.latitude)) / 2);
    share = north * north + cos(geo_radians(a.latitude)) * cos(geo_radians(b.latitude)) * east * east;
    /* Rounding may exceed 1 for antipodes. */
    return 2 * EARTH_RADIUS_M * asin(share > 1 ? 1 : sqrt(share));
}

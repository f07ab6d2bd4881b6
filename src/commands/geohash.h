/* Geohash: a place on earth as a number of 52 bits, and back. Pure functions.
 *
 * Longitude and latitude are each cut into 2^26 equal parts; the two numbers of 26 bits are interleaved (Morton order), longitude in
 * the odd bits, so that 52 bits fit into a double without loss and places near each other mostly have numbers near each other. With
 * fewer bits, 2 * step of them, a number names a *cell*, all whose places have numbers that begin with it. Step 1 has four cells.
 *
 *   bits = ... lon2 lat2 lon1 lat1 lon0 lat0
 *
 * Latitudes end where the Mercator projection is square, at 85.05112878 degrees. The upper limits themselves, 180 and 85.05112878, give
 * the part number 2^step, one bit more than there should be: this is what Redis stores for them, and it is kept.
 *
 * Sources: G. Niemeyer's geohash.org (the base 32 text), the EPSG:3857 limits, Morton's interleaving; checked against redis-server.
 */
#ifndef KELVIN_COMMANDS_GEOHASH_H
#define KELVIN_COMMANDS_GEOHASH_H

#include <stdint.h>

enum { GEOHASH_STEP_MAX = 26, GEOHASH_TEXT_SIZE = 11 };

#define GEO_LONGITUDE_MAX 180.0
#define GEO_LATITUDE_MAX 85.05112878

struct geo_point {
    double longitude, latitude;     /* degrees, east and north of zero */
};

/* A cell, as the ranges of degrees that are in it. */
struct geo_box {
    struct geo_point min, max;
};

/* The point is within the limits; 1 <= step <= 26. */
uint64_t geohash_encode(struct geo_point point, int step);
struct geo_box geohash_box(uint64_t bits, int step);
/* The middle of the smallest cell, clamped to the limits. Accepts any number. */
struct geo_point geohash_decode(uint64_t bits);
/* The cell that is `east` and `north` cells (-1, 0 or 1) away. Both directions wrap around: after the northernmost comes the
 * southernmost. */
uint64_t geohash_neighbour(uint64_t bits, int step, int east, int north);

/* The number in a score, which may be any double (a sorted set filled by ZADD). Fractions are truncated. What does not fit into
 * 64 bits becomes what x86 makes of it, as in Redis: a negative number its two's complement, a number far below zero 2^63, a
 * number from 2^64 on 0. */
uint64_t geohash_of_score(double score);

/* The 11 letters of geohash.org: base 32, latitudes up to the poles. The last is always 0, as 52 bits are 10.4 letters. */
void geohash_text(struct geo_point point, char text[GEOHASH_TEXT_SIZE]);

/* Metres along the great circle, on a sphere of 6372797.560856 m (haversine formula). */
double geo_distance(struct geo_point a, struct geo_point b);
double geo_distance_north(double latitude, double other);      /* along a meridian */
double geo_radians(double degrees);
/* Degrees of a great circle for a distance in metres. */
double geo_degrees_of_metres(double metres);

#endif

"""Geo commands, compared with redis-server."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, kelvin_only, main                                    # noqa: E402
from support.resp import Double                                                                     # noqa: E402
from support.server import scaled, seed_new                                                         # noqa: E402

LATITUDE_MAX = 85.05112878
SICILY = "GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 12.758489 38.788135 edge1 17.241510 38.788135 edge2"
UNITS = ("m", "km", "ft", "mi")


class GeoTest(PairCase):
    def test_add(self):
        self.both("""
            GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
            GEOADD g 13.361389 38.115556 Palermo
            GEOADD g CH 13.5 38.115556 Palermo 1 2 new
            GEOADD g NX 1 1 Palermo 1 1 newer
            GEOADD g XX CH 1 1 Palermo 1 1 newest
            GEOADD g nx ch ch 1 1 q
            GEOADD missing XX 1 1 a
            EXISTS missing
            GEOADD g 180 85.05112878 ne -180 -85.05112878 sw 180 -85.05112878 se -180 85.05112878 nw 0 0 zero -0 -0 minus
            ZRANGE g 0 -1 WITHSCORES
            GEOPOS g ne sw se nw zero minus Palermo nosuch
            GEOHASH g ne sw se nw zero minus Palermo nosuch
            TYPE g
            OBJECT ENCODING g
        """)

    def test_add_is_refused(self):
        self.both("""
            GEOADD
            GEOADD g 1 1
            GEOADD g 1 1 a 1
            GEOADD g 1 1 a 1 1
            GEOADD g NX XX 1 1 a
            GEOADD g NX 1 1
            GEOADD g NX CH XX
            GEOADD g NX CH NX
            GEOADD g foo 1 1 a
            GEOADD g INCR 1 1 a
            GEOADD g GT 1 a
            GEOADD g a 1 m
            GEOADD g 1 b m
            GEOADD g nan 1 m
            GEOADD g 1 inf m
            GEOADD g 180.0001 1 m
            GEOADD g 1 85.0511288 m
            GEOADD g -181 -90 m
            GEOADD g 1e300 1 m
            GEOADD g 1 1 fine 1 86 bad
            EXISTS g
            SET s v
            GEOADD s 1 86 a
            GEOADD s 1 1 a
            GEOPOS s a
            GEOPOS s
            GEOHASH s a
            GEODIST s a b
            GEODIST s a b foo
            GEOSEARCH s FROMLONLAT 1 1 BYRADIUS 1 foo
            GEORADIUS s 1 1 1 foo
            GEORADIUSBYMEMBER s a 1 foo
            GEOSEARCHSTORE d s FROMLONLAT 1 1 BYRADIUS 1 km
        """)

    def test_places_and_distances(self):
        self.both([SICILY.split()])
        self.both("""
            GEOPOS Sicily
            GEOPOS Sicily Palermo nosuch Catania
            GEOPOS missing Palermo nosuch
            GEOHASH Sicily
            GEOHASH Sicily Palermo nosuch Catania
            GEOHASH missing Palermo nosuch
            GEODIST Sicily Palermo Catania
            GEODIST Sicily Palermo Catania m
            GEODIST Sicily Palermo Catania KM
            GEODIST Sicily Palermo Catania Ft
            GEODIST Sicily Palermo Catania mi
            GEODIST Sicily Palermo Catania feet
            GEODIST Sicily Palermo Catania m m
            GEODIST Sicily Palermo Palermo
            GEODIST Sicily Palermo nosuch
            GEODIST Sicily nosuch Palermo foo
            GEODIST missing Palermo Catania
            GEODIST missing Palermo Catania foo
            GEODIST Sicily Palermo
            HELLO 3
            GEOPOS Sicily Palermo nosuch Catania
            GEOPOS missing Palermo
            GEOHASH Sicily Palermo nosuch
            GEODIST Sicily Palermo Catania km
            GEODIST Sicily Palermo nosuch
            GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 km ASC WITHCOORD WITHDIST WITHHASH
            GEOADD Sicily -180 0 west 180 0 east 0 -85.05112878 south
            GEOPOS Sicily west east south
        """)

    def test_scores_that_are_not_places(self):
        self.both("""
            ZADD g -1 a 1e300 b inf c -inf d 1.5 e -1e30 f 1.2e19 h 0 i 4503599627370495 j 4503599627370496 k 9007199254740992 l -0.5 m
            GEOPOS g a b c d e f h i j k l m
            GEOHASH g a b c d e f h i j k l m
            GEODIST g a b
            GEODIST g c d km
            GEOSEARCH g FROMMEMBER a BYRADIUS 100 km ASC WITHHASH WITHCOORD
            GEOSEARCH g FROMMEMBER c BYRADIUS 40000 km WITHHASH WITHDIST
            GEOSEARCH g FROMMEMBER k BYBOX 40000 40000 km WITHHASH WITHDIST
            GEOSEARCH g FROMMEMBER l BYBOX 1 1 km WITHHASH WITHDIST
        """)

    def test_search(self):
        self.both([SICILY.split()])
        self.both("""
            GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 km
            GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 km ASC
            GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 KM DESC
            GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHCOORD WITHDIST
            GEOSEARCH Sicily BYBOX 400 400 km WITHHASH FROMLONLAT 15 37 DESC ASC
            GEOSEARCH Sicily FROMMEMBER Palermo BYRADIUS 100 mi WITHDIST WITHDIST
            GEOSEARCH Sicily FROMMEMBER Palermo BYRADIUS 0 m
            GEOSEARCH Sicily FROMMEMBER Palermo BYBOX 0 0 m
            GEOSEARCH Sicily FROMMEMBER Palermo BYBOX 0 500 km
            GEOSEARCH Sicily FROMMEMBER Palermo BYBOX 500 0 km
            GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 km COUNT 1
            GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 km COUNT 1 DESC
            GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 km COUNT 2 ANY
            GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 km ANY COUNT 2 ASC
            GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 km COUNT 100 ANY DESC
            GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 km COUNT 9223372036854775807
            GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS inf km ASC
            GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 1e308 km ASC
            GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 5e-324 m
            GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX inf inf km
            GEOSEARCH missing FROMLONLAT 15 37 BYRADIUS 200 km
            GEOSEARCH missing FROMMEMBER m BYRADIUS 200 km
        """)

    def test_search_is_refused(self):
        self.both([SICILY.split()])
        for key in ("Sicily", "missing"):
            self.both("""
                GEOSEARCH %s FROMLONLAT 15 37 BYRADIUS 200
                GEOSEARCH %s FROMLONLAT 15 37 BYRADIUS 200 km foo
                GEOSEARCH %s FROMLONLAT 15 37 BYRADIUS 200 foo
                GEOSEARCH %s FROMLONLAT 15 37 BYRADIUS foo km
                GEOSEARCH %s FROMLONLAT 15 37 BYRADIUS -1 km
                GEOSEARCH %s FROMLONLAT 15 37 BYRADIUS -1 foo
                GEOSEARCH %s FROMLONLAT 15 37 BYRADIUS nan km
                GEOSEARCH %s FROMLONLAT 15 97 BYRADIUS foo km
                GEOSEARCH %s FROMLONLAT a 97 BYRADIUS foo km
                GEOSEARCH %s FROMLONLAT 15 37 BYBOX a 1 km
                GEOSEARCH %s FROMLONLAT 15 37 BYBOX 1 a km
                GEOSEARCH %s FROMLONLAT 15 37 BYBOX -1 1 km
                GEOSEARCH %s FROMLONLAT 15 37 BYBOX 1 -1 km
                GEOSEARCH %s FROMLONLAT 15 37 BYBOX 1 1 foo
                GEOSEARCH %s FROMLONLAT 15 37 BYBOX 1 km
                GEOSEARCH %s FROMLONLAT 15 37 BYBOX 1 1 km BYRADIUS 1 km
                GEOSEARCH %s FROMLONLAT 15 37 BYRADIUS 1 km BYRADIUS 1 km
                GEOSEARCH %s FROMLONLAT 15 37 FROMMEMBER Palermo BYRADIUS 1 km
                GEOSEARCH %s FROMMEMBER Palermo FROMLONLAT 15 37 BYRADIUS 1 km
                GEOSEARCH %s FROMMEMBER Palermo FROMMEMBER Catania BYRADIUS 1 km
                GEOSEARCH %s FROMLONLAT 1 1 FROMLONLAT 15 37 BYRADIUS 1 km
                GEOSEARCH %s FROMMEMBER nosuch BYRADIUS 1 km
                GEOSEARCH %s FROMMEMBER nosuch BYRADIUS foo km
                GEOSEARCH %s BYRADIUS 1 km ASC ASC ASC
                geosearch %s FROMLONLAT 1 1 ASC ASC
                GeoSearch %s BYRADIUS 1 km COUNT 1
                GEOSEARCH %s FROMLONLAT 1 1 ANY COUNT
                GEOSEARCH %s FROMLONLAT 1 1 BYRADIUS 1 km ANY
                GEOSEARCH %s FROMLONLAT 1 1 BYRADIUS 1 km COUNT
                GEOSEARCH %s FROMLONLAT 1 1 BYRADIUS 1 km COUNT 0
                GEOSEARCH %s FROMLONLAT 1 1 BYRADIUS 1 km COUNT -1 foo
                GEOSEARCH %s FROMLONLAT 1 1 BYRADIUS 1 km COUNT a
                GEOSEARCH %s FROMLONLAT 1 1 BYRADIUS 1 km COUNT 1 ANY ANY
                GEOSEARCH %s FROMLONLAT 1 1 BYRADIUS 1 km STORE x
                GEOSEARCH %s FROMLONLAT 1 1 BYRADIUS 1 km STOREDIST
                GEORADIUS %s 15 37 200
                GEORADIUS %s 15 37 200 foo
                GEORADIUS %s 15 37 foo km
                GEORADIUS %s 15 97 foo km
                GEORADIUS %s a 37 200 km
                GEORADIUS %s 15 37 -1 km
                GEORADIUS %s 15 37 200 km COUNT 0
                GEORADIUS %s 15 37 200 km ANY
                GEORADIUS %s 15 37 200 km STORE
                GEORADIUS %s 15 37 200 km STOREDIST
                GEORADIUS %s 15 37 200 km STORE d WITHDIST
                GEORADIUS %s 15 37 200 km STORE d WITHHASH
                GEORADIUS %s 15 37 200 km STOREDIST d WITHCOORD ANY
                GEORADIUS %s 15 37 200 km BYRADIUS 1 km
                GEORADIUS_RO %s 15 37 200 km STORE d
                GEORADIUS_RO %s 15 37 200 km STOREDIST d
                GEORADIUSBYMEMBER %s Palermo 200
                GEORADIUSBYMEMBER %s Palermo 200 foo
                GEORADIUSBYMEMBER %s Palermo foo km
                GEORADIUSBYMEMBER %s Palermo -1 foo
                GEORADIUSBYMEMBER %s nosuch 200 km
                GEORADIUSBYMEMBER %s nosuch foo km
                GEORADIUSBYMEMBER %s Palermo 1 km STORE d WITHHASH
                GEORADIUSBYMEMBER_RO %s Palermo 200 km STORE d
                GEOSEARCHSTORE d %s FROMLONLAT 15 37 BYRADIUS 200 km WITHDIST
                GEOSEARCHSTORE d %s FROMLONLAT 15 37 BYRADIUS 200 km WITHHASH
                GEOSEARCHSTORE d %s FROMLONLAT 15 37 BYRADIUS 200 km WITHCOORD
                GEOSEARCHSTORE d %s FROMLONLAT 15 37 BYRADIUS 200 km STORE e
                GEOSEARCHSTORE d %s FROMLONLAT 15 37 BYRADIUS 200 km STOREDIST e
                GEOSEARCHSTORE d %s BYRADIUS 200 km ASC ASC ASC
                GEOSEARCHSTORE d %s FROMLONLAT 15 37 ASC ASC
                EXISTS d e
            """.replace("%s", key))

    def test_store(self):
        self.both([SICILY.split()])
        self.both("""
            GEOSEARCHSTORE d Sicily FROMLONLAT 15 37 BYBOX 400 400 km
            ZRANGE d 0 -1 WITHSCORES
            GEOPOS d Palermo
            GEOSEARCHSTORE d Sicily FROMLONLAT 15 37 BYBOX 400 400 km ASC COUNT 3 STOREDIST
            ZRANGE d 0 -1 WITHSCORES
            EXPIRE d 100
            GEOSEARCHSTORE d Sicily FROMMEMBER Palermo BYRADIUS 10 mi storedist
            ZRANGE d 0 -1 WITHSCORES
            TTL d
            GEOSEARCHSTORE d Sicily FROMLONLAT 0 0 BYRADIUS 1 m
            EXISTS d
            GEOSEARCHSTORE d missing FROMLONLAT 0 0 BYRADIUS 1 m
            SET d v
            GEOSEARCHSTORE d missing FROMMEMBER x BYRADIUS 1 m
            EXISTS d
            SET d v
            GEOSEARCHSTORE d Sicily FROMMEMBER Palermo BYRADIUS 1000 km COUNT 2 ANY
            ZRANGE d 0 -1 WITHSCORES
            GEOSEARCHSTORE Sicily Sicily FROMMEMBER Palermo BYRADIUS 200 km
            ZRANGE Sicily 0 -1 WITHSCORES
            GEORADIUS Sicily 15 37 200 km STORE r
            ZRANGE r 0 -1 WITHSCORES
            GEORADIUS Sicily 15 37 200 km STOREDIST r DESC COUNT 1
            ZRANGE r 0 -1 WITHSCORES
            GEORADIUS Sicily 15 37 200 km STORE one STOREDIST two
            EXISTS one
            ZRANGE two 0 -1 WITHSCORES
            GEORADIUS Sicily 15 37 200 km STOREDIST two STORE two STORE three
            EXISTS one two three
            ZRANGE three 0 -1 WITHSCORES
            GEORADIUS Sicily 15 37 200 km STORE store STORE storedist
            ZRANGE storedist 0 -1 WITHSCORES
            GEORADIUSBYMEMBER Sicily Palermo 300 ft STOREDIST m
            ZRANGE m 0 -1 WITHSCORES
            GEORADIUSBYMEMBER missing Palermo 300 foo STORE m
            EXISTS m
            GEORADIUS missing 1 1 300 km STOREDIST two
            EXISTS two
            COMMAND GETKEYS GEORADIUS Sicily 15 37 200 km STORE one STOREDIST two
            COMMAND GETKEYS GEORADIUS Sicily 15 37 200 km STORE
            COMMAND GETKEYS GEORADIUSBYMEMBER Sicily store 200 km STORE store
            COMMAND GETKEYS GEORADIUS_RO Sicily 15 37 200 km STORE store
            COMMAND GETKEYS GEOSEARCHSTORE d s FROMMEMBER Palermo BYRADIUS 300 ft STOREDIST
        """)
        self.both([["CONFIG", "SET", "zset-max-listpack-entries", "2"]])
        self.both("""
            GEOSEARCHSTORE d three FROMLONLAT 15 37 BYRADIUS 400 km COUNT 2
            OBJECT ENCODING d
            GEOSEARCHSTORE d three FROMLONLAT 15 37 BYRADIUS 400 km
            OBJECT ENCODING d
        """)
        self.both([["CONFIG", "SET", "zset-max-listpack-entries", "128"]])

    def test_deprecated_commands(self):
        self.both([SICILY.split()])
        for suffix in ("", "_RO"):
            self.both("""
                GEORADIUS% Sicily 15 37 200 km
                GEORADIUS% Sicily 15 37 200 km WITHDIST WITHCOORD WITHHASH ASC
                GEORADIUS% Sicily 15 37 200 km COUNT 1 ANY DESC
                GEORADIUS% missing 15 37 200 km
                GEORADIUSBYMEMBER% Sicily Palermo 200 km WITHDIST
                GEORADIUSBYMEMBER% Sicily Palermo 200 mi DESC COUNT 2
                GEORADIUSBYMEMBER% missing Palermo 200 mi
            """.replace("%", suffix))

    def near(self, chosen, limit):
        kind = chosen.random()
        if kind < 0.1:
            return chosen.choice((-limit, limit, 0.0))
        if kind < 0.3:
            return chosen.choice((-1, 1)) * (limit - chosen.random() * 10 ** chosen.randrange(-6, 1))
        return chosen.uniform(-limit, limit)

    def point(self, chosen):
        return [b"%.*f" % (chosen.randrange(9), value) if abs(value) < limit - 1 else b"%.8f" % value
                for limit in (180, LATITUDE_MAX) for value in [self.near(chosen, limit)]]

    def area(self, chosen, names):
        def length():
            return b"%.*f" % (chosen.randrange(4), 10 ** chosen.uniform(-1, 7.5))
        words = [b"FROMMEMBER", chosen.choice(names)] if chosen.random() < 0.4 else [b"FROMLONLAT"] + self.point(chosen)
        unit = chosen.choice(UNITS).encode()
        return words + ([b"BYRADIUS", length(), unit] if chosen.random() < 0.5 else [b"BYBOX", length(), length(), unit])

    def test_random_searches(self):
        """Places all over the world, at the limits and close to each other; areas from a decimetre to more than the globe."""
        chosen = random.Random(seed_new())
        for encoding in ("128", "0"):
            self.both([["CONFIG", "SET", "zset-max-listpack-entries", encoding], ["DEL", "g"]])
            names = [b"m%d" % index for index in range(300)]
            commands = []
            for name in names:
                place = self.point(chosen)
                if chosen.random() < 0.4:
                    place = [b"%.6f" % chosen.gauss(13, 0.05 * 10 ** chosen.randrange(-3, 2)), b"%.6f" % chosen.gauss(38, 0.05)]
                commands.append([b"GEOADD", b"g"] + place + [name])
            self.both(commands)
            self.both([["GEOPOS", "g"] + [name.decode() for name in names], ["GEOHASH", "g"] + [name.decode() for name in names]])
            commands = []
            for _ in range(scaled(3000)):
                options = [word for word in (b"WITHDIST", b"WITHCOORD", b"WITHHASH") if chosen.random() < 0.3]
                kind = chosen.random()
                if kind < 0.3:
                    options += [b"COUNT", b"%d" % chosen.choice((1, 3, 10, 1000)), b"ANY"]
                commands.append([b"GEOSEARCH", b"g"] + self.area(chosen, names) + options)
                commands.append([b"GEODIST", b"g", chosen.choice(names), chosen.choice(names), chosen.choice(UNITS).encode()])
            self.both(commands)
        self.both([["CONFIG", "SET", "zset-max-listpack-entries", "128"]])

    def test_random_searches_in_order(self):
        """Different places, so that no two have the same distance."""
        chosen = random.Random(seed_new())
        names = [b"m%d" % index for index in range(300)]
        self.both([[b"GEOADD", b"g", b"%.8f" % chosen.uniform(-180, 180), b"%.8f" % chosen.uniform(-85, 85), name] for name in names])
        commands = []
        for _ in range(scaled(2000)):
            options = [chosen.choice((b"ASC", b"DESC", b"WITHHASH"))]
            if chosen.random() < 0.5:
                options += [b"COUNT", b"%d" % chosen.choice((1, 3, 10, 1000))]
            if chosen.random() < 0.5:
                commands.append([b"GEOSEARCH", b"g"] + self.area(chosen, names) + options + [b"WITHDIST"])
            else:
                commands.append([b"GEOSEARCHSTORE", b"d", b"g"] + self.area(chosen, names) + options[:1 if options[0] != b"WITHHASH" else 0])
                commands.append([b"GEOSEARCHSTORE", b"e", b"g"] + self.area(chosen, names) + [b"STOREDIST"])
                commands.append([b"ZRANGE", b"d", b"0", b"-1", b"WITHSCORES"])
                commands.append([b"ZRANGE", b"e", b"0", b"-1", b"WITHSCORES"])
        self.both(commands)


class GeoAloneTest(ServerCase):
    options = {"appendonly": "yes"}

    def test_coordinates_are_doubles_in_resp3(self):
        client = self.client(protocol=3)
        client.must("GEOADD", "g", "13.361389", "38.115556", "a")
        place = client.must("GEOPOS", "g", "a")[0]
        self.assertEqual([type(part) for part in place], [Double, Double])
        self.assertAlmostEqual(float(place[0]), 13.361389, 5)

    @kelvin_only
    def test_places_are_cold_and_survive_a_restart(self):
        if self.c.must("COMMAND", "INFO", "TIER") in ([None], [[]]):
            self.skipTest("no tier")
        for index in range(500):
            self.c.must("GEOADD", "g", "%.6f" % (index * 0.5 - 125), "%.6f" % (index * 0.25 - 60), "m%d" % index)
        self.c.must("GEOADD", "g", "CH", "1", "1", "m7")
        self.c.must("GEOSEARCHSTORE", "near", "g", "FROMLONLAT", "0", "0", "BYRADIUS", "2000", "km")
        self.c.must("GEORADIUS", "g", "0", "0", "2000", "km", "STOREDIST", "far", "STORE", "last")
        asked = [["GEOSEARCH", "g", "FROMLONLAT", "0", "0", "BYRADIUS", "3000", "km", "ASC", "WITHDIST", "WITHCOORD"],
                 ["ZRANGE", "near", "0", "-1", "WITHSCORES"], ["ZRANGE", "last", "0", "-1", "WITHSCORES"], ["EXISTS", "far"]]
        before = [self.c.must(*words) for words in asked]
        self.assertGreater(len(before[0]), 10)
        for key in ("g", "near", "last"):
            self.c.must("TIER", "DEMOTE", key)
        self.assertEqual([self.c.must(*words) for words in asked], before)
        self.c.close()
        self.server.restart()
        client = self.client()
        self.assertEqual([client.must(*words) for words in asked], before)


if __name__ == "__main__":
    main()

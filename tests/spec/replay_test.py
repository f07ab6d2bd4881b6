"""The data that the commands of every family create is exactly the same after kill -9 and replay, after a checkpoint, and after a
dump.rdb was loaded and written by redis-server. Replies are not compared here: the data before is the model.

Commands whose effect depends on chance or on the clock (SPOP, relative times, XADD *, deliveries) are drawn often.
"""
import os
import re
import shutil
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.differential import DATABASES, READ                                                    # noqa: E402
from support.generate import Generator                                                              # noqa: E402
from support.rdb import crc64                                                                       # noqa: E402
from support.resp import Error, Map, quote                                                          # noqa: E402
from support.server import REDIS, Server, scaled, seed_new, until                                   # noqa: E402

ENCODINGS = {"hash-max-listpack-entries": "8", "hash-max-listpack-value": "20", "set-max-intset-entries": "8",
             "zset-max-listpack-entries": "8", "zset-max-listpack-value": "20", "list-max-listpack-size": "4",
             "list-compress-depth": "1", "stream-node-max-entries": "5", "stream-node-max-bytes": "300"}
OWN_ENCODINGS = {"set-max-listpack-entries": "8", "set-max-listpack-value": "20"}
SETTLE_S = 0.15         # the short times below have expired by then
# Intentionally not logged: when a consumer was last seen. And fields of radix trees only.
CLOCKS = (b"seen-time", b"active-time", b"idle", b"inactive", b"radix-tree-keys", b"radix-tree-nodes")
BATCH = 40


def commands_of(server):
    with server.client() as client:
        return {name.decode().lower() for name in client.must("COMMAND", "LIST")}


class Writer:
    """Draws commands: those of Generator, converted to real ones, and some whose effect does not depend on their words only."""

    def __init__(self, seed, commands, field_times):
        self.generator = Generator(seed, commands)
        self.random = self.generator.random
        self.field_times = field_times

    def short_ms(self):
        return b"%d" % self.random.choice((1, 2, 5, 20, 60))

    def fields(self, with_values=False):
        names = sorted({self.generator.field() for _ in range(self.random.randrange(1, 5))})
        out = [b"FIELDS", b"%d" % len(names)]
        for name in names:
            out += [name, self.generator.value()] if with_values else [name]
        return out

    def time_words(self):
        draw = self.random
        return draw.choice(([b"EX", b"%d" % draw.randrange(1000, 9000)], [b"PX", self.short_ms()], [b"PX", b"%d" % draw.randrange(10 ** 6, 10 ** 9)],
                            [b"EXAT", b"4000000000"], [b"PXAT", b"4000000000001"], [b"PXAT", b"5"]))

    def of_field_times(self):
        draw, key = self.random, b"h%d" % self.random.randrange(6)
        condition = draw.choice(([], [], [], [b"NX"], [b"XX"], [b"GT"], [b"LT"]))
        return draw.choice((
            lambda: [b"HEXPIRE", key, b"%d" % draw.choice((0, 1000, 5000))] + condition + self.fields(),
            lambda: [b"HPEXPIRE", key, self.short_ms()] + condition + self.fields(),
            lambda: [b"HPEXPIRE", key, b"%d" % draw.randrange(10 ** 6, 10 ** 9)] + condition + self.fields(),
            lambda: [b"HEXPIREAT", key, draw.choice((b"1", b"4000000000"))] + condition + self.fields(),
            lambda: [b"HPEXPIREAT", key, b"%d" % draw.randrange(4 * 10 ** 12, 5 * 10 ** 12)] + condition + self.fields(),
            lambda: [b"HPERSIST", key] + self.fields(),
            lambda: [b"HGETDEL", key] + self.fields(),
            lambda: [b"HGETEX", key] + draw.choice(([], [b"PERSIST"], self.time_words())) + self.fields(),
            lambda: [b"HSETEX", key] + draw.choice(([], [], [b"FNX"], [b"FXX"])) + draw.choice(([], [b"KEEPTTL"], self.time_words())) +
            self.fields(True),
            lambda: [b"HINCRBYFLOAT", key, self.generator.field(), draw.choice((b"0.1", b"1e-3", b"-7.25"))],
            lambda: [b"HINCRBY", key, self.generator.field(), b"3"],
        ))()

    def of_the_moment(self):
        draw, generator = self.random, self.generator
        family = draw.choice((b"s", b"n", b"h", b"l", b"t", b"z", b"p", b"g", b"x"))
        key = family + b"%d" % draw.randrange(6)
        stream = b"x%d" % draw.randrange(6)
        group = [b"g%d" % draw.randrange(3), b"c%d" % draw.randrange(4)]
        return draw.choice((
            lambda: [b"PEXPIRE", key, self.short_ms()],
            lambda: [b"EXPIRE", key, b"%d" % draw.randrange(1000, 5000)],
            lambda: [b"SET", b"s%d" % draw.randrange(6), generator.value(), b"PX", self.short_ms()],
            lambda: [b"SET", b"s%d" % draw.randrange(6), generator.value(), b"EX", b"5000"],
            lambda: [b"GETEX", b"s%d" % draw.randrange(6)] + self.time_words(),
            lambda: [b"PSETEX", b"s%d" % draw.randrange(6), self.short_ms(), b"short"],
            lambda: [b"GETDEL", b"n%d" % draw.randrange(6)],
            lambda: [b"INCRBYFLOAT", b"n%d" % draw.randrange(6), draw.choice((b"0.1", b"1e-5", b"-3.75"))],
            lambda: [b"SPOP", b"t%d" % draw.randrange(6), b"%d" % draw.choice((1, 2, 5, 30))],
            lambda: [b"SPOP", b"t%d" % draw.randrange(6)],
            lambda: [b"SORT", b"t%d" % draw.randrange(6), b"BY", b"nosort", b"STORE", b"l%d" % draw.randrange(6)],
            lambda: [b"SORT", b"l%d" % draw.randrange(6), b"ALPHA", b"GET", b"#", b"GET", b"s*", b"STORE", b"l%d" % draw.randrange(6)],
            lambda: [b"ZINCRBY", b"z%d" % draw.randrange(6), draw.choice((b"0.1", b"1e-17", b"-0.3")), generator.zmember()],
            lambda: [b"XADD", stream, b"*", b"f", generator.value()],
            lambda: [b"XADD", stream, b"MAXLEN", b"~", b"12", b"*", b"f", generator.value()],
            lambda: [b"XGROUP", b"CREATE", stream, group[0], b"0", b"MKSTREAM"],
            lambda: [b"XREADGROUP", b"GROUP"] + group + [b"COUNT", b"3", b"STREAMS", stream, b">"],
            lambda: [b"XREADGROUP", b"GROUP"] + group + [b"NOACK", b"STREAMS", stream, b">"],
            lambda: [b"XREADGROUP", b"GROUP"] + group + [b"STREAMS", stream, b"0"],
            lambda: [b"XAUTOCLAIM", stream] + group + [b"0", b"0", b"COUNT", b"3"],
        ))()

    def next(self):
        """Returns a list of commands."""
        roll = self.random.random()
        if roll < 0.12:
            return [self.of_the_moment()]
        if roll < 0.30 and self.field_times:
            return [self.of_field_times()]
        args = self.generator.next()
        if args[0] == b"@pop":
            return [[b"SPOP"] + args[1:]]
        if args[0] == b"@sort":
            return [args[1:]]
        if args[0] == b"@roundtrip":
            return [[b"@restore"] + args[1:]]
        return [args]

    def run(self, client, count):
        """Runs about `count` commands. Returns them."""
        done = []
        while len(done) < count:
            batch = []
            while len(batch) < BATCH:
                batch += self.next()
            # The payload of DUMP has to be known before RESTORE.
            plain = [args for args in batch if args[0] != b"@restore"]
            client.pipeline(plain)
            for args in batch:
                if args[0] == b"@restore":
                    payload = client.call(b"DUMP", args[1])
                    if isinstance(payload, bytes) and not isinstance(payload, Error):
                        client.call(b"RESTORE", args[2], args[3], payload, *args[4:])
            done += batch
        return done


FOOTER_SIZE = 10
TELLING = bytes((0, 1, 2, 3, 4, 5, 9, 17, 18, 24, 25, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xc0, 0xc3, 0xe0, 0xf0, 0xf1, 0xf4, 0xfe, 0xff))


def dump_of(payload):
    """Returns a payload with the footer that RESTORE requires."""
    data = payload + b"\x0c\x00"
    return data + crc64(data)


def mutated(draw, payload):
    out = bytearray(payload)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        at = draw.randrange(len(out))
        kind = draw.randrange(5)
        if kind == 0:
            out[at] = draw.choice(TELLING)
        elif kind == 1:
            out[at] ^= 1 << draw.randrange(8)
        elif kind == 2:
            out[at] = (out[at] + draw.choice((1, -1))) & 255
        elif kind == 3:             # numbers of eight bytes: times, IDs, scores
            out[at:at + 8] = draw.choice((b"\xff" * 8, b"\x00" * 8, b"\xff" * 7 + b"\x7f", b"\x7f" + b"\xff" * 7, b"\x80" + bytes(7), bytes(7) + b"\x80",
                                          b"\xf0\x7f" + bytes(6), bytes(6) + b"\xf0\x7f", bytes(6) + b"\xf8\x7f"))[:len(out) - at]
        else:
            out.insert(at, draw.choice(TELLING))
    return bytes(out)


def strip(reply):
    """Returns the reply without times that are not data."""
    if isinstance(reply, Map):
        return [(name, strip(value)) for name, value in reply if name not in CLOCKS]
    if type(reply) is list:
        if len(reply) % 2 == 0 and reply and reply[0] in (b"length", b"name"):
            return [(name, strip(value)) for name, value in zip(reply[::2], reply[1::2]) if name not in CLOCKS]
        return [strip(each) for each in reply]
    return reply


def in_order(kind, reply):
    if kind == b"hash":
        return sorted(zip(reply[::2], reply[1::2]))
    if kind == b"set":
        return sorted(reply)
    if kind == b"zset":
        return [(member, float(score)) for member, score in zip(reply[::2], reply[1::2])]
    return strip(reply)


def state(client, field_times=False):
    """Returns {(database, key): [type, expiry, value, expiries of fields]}."""
    out = {}
    for database in range(DATABASES):
        client.must("SELECT", database)
        keys = sorted(client.must("KEYS", "*"))
        kinds = [bytes(kind) for kind in client.pipeline([[b"TYPE", key] for key in keys])]
        times = client.pipeline([[b"PEXPIRETIME", key] for key in keys])
        values = client.pipeline([READ[kind](key) for kind, key in zip(kinds, keys)])
        for key, kind, when, value in zip(keys, kinds, times, values):
            if isinstance(value, Error):
                raise AssertionError("%r can't be read: %r" % (key, value))
            out[database, key] = entry = [kind, when, in_order(kind, value)]
            if kind == b"hash" and field_times and value:
                fields = value[::2]
                ends = client.must("HPEXPIRETIME", key, "FIELDS", len(fields), *fields)
                entry[2] = sorted(pair for pair, end in zip(zip(fields, value[1::2]), ends) if end != -2)          # one may have died since it was read
                entry.append(sorted(pair for pair in zip(fields, ends) if pair[1] != -2))
    client.must("SELECT", 0)
    return out


def shown(entry):
    return re.sub(r"((\\\\x..|.)\\2{20})\\2+", r"\\1...", repr(entry))[:3000]


class ReplayTest(unittest.TestCase):
    def same(self, before, after, what):
        for name in sorted(set(before) | set(after)):
            was, is_now = before.get(name), after.get(name)
            if was != is_now:
                last = [quote(args)[:300] for args in self.seen if any(name[1] == arg for arg in args[1:])][-12:]
                self.fail("%s: database %d, key %r (seed %d)\n    was %s\n    is  %s\nthe last commands with this key:\n    %s" % (
                    what, name[0], name[1], self.seed, shown(was), shown(is_now), "\n    ".join(last)))

    def options(self, **more):
        return {**ENCODINGS, **OWN_ENCODINGS, "appendonly": "yes", "appendfsync": "no", **more}

    def setUp(self):
        self.seed, self.seen = seed_new(), []

    def settled(self, server, field_times=True):
        time.sleep(SETTLE_S)
        with server.client() as client:
            return state(client, field_times)

    def rewritten(self, server):
        until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0" and
              server.info("persistence")["aof_rewrite_scheduled"] == "0", what="the end of the rewrite")
        self.assertEqual(server.info("persistence")["aof_last_bgrewrite_status"], "ok")

    def write(self, server, writer, count):
        with server.client() as client:
            self.seen += writer.run(client, count)

    def replays(self, options, count, rounds):
        print("  %d times %d commands, seed %d" % (rounds, count, self.seed), file=sys.stderr)
        with Server(options) as server:
            writer = Writer(self.seed, commands_of(server), field_times=True)
            for number in range(rounds):
                self.write(server, writer, count)
                before = self.settled(server)
                server.restart(kill=True)
                self.same(before, self.settled(server), "after kill -9 and replay (round %d)" % number)

    @kelvin_only
    def test_a_replayed_log_gives_the_same_data(self):
        self.replays(self.options(**{"auto-aof-rewrite-percentage": "0"}), scaled(8000), 3)

    @kelvin_only
    def test_a_replayed_log_gives_the_same_data_while_memory_is_tiny(self):
        self.replays(self.options(**{"auto-aof-rewrite-percentage": "0", "maxmemory": "16mb", "tier-high-watermark": "20", "tier-low-watermark": "10"}),
                     scaled(4000), 3)

    @kelvin_only
    def test_a_checkpoint_gives_the_same_data(self):
        print("  seed %d" % self.seed, file=sys.stderr)
        with Server(self.options()) as server:
            writer = Writer(self.seed, commands_of(server), field_times=True)
            for kill in (True, False, True):
                self.write(server, writer, scaled(4000))
                before = self.settled(server)
                with server.client() as client:
                    client.must("BGREWRITEAOF")
                self.rewritten(server)
                server.restart(kill=kill)
                self.same(before, self.settled(server), "after a checkpoint and %s" % ("kill -9" if kill else "an orderly shutdown"))

    @kelvin_only
    def test_a_dump_to_redis_and_back(self):
        print("  seed %d" % self.seed, file=sys.stderr)
        with Server(self.options(appendonly="no")) as ours, Server(ENCODINGS, binary=REDIS, start=False) as redis:
            writer = Writer(self.seed, commands_of(ours), field_times=False)
            self.write(ours, writer, scaled(8000))
            before = self.settled(ours, field_times=False)
            with ours.client() as client:
                client.must("SAVE")
            shutil.copy(os.path.join(ours.folder, "dump.rdb"), redis.folder)
            redis.start()
            self.same(before, self.settled(redis, field_times=False), "in redis-server")
            with redis.client() as client:
                client.must("SAVE")
            with Server(self.options(appendonly="no"), start=False) as again:
                shutil.copy(os.path.join(redis.folder, "dump.rdb"), again.folder)
                again.start()
                self.same(before, self.settled(again, field_times=False), "back from redis-server")

    @kelvin_only
    def test_redis_replays_the_log(self):
        """The log of a start without data has no image: redis-server must have the same data after loading it."""
        print("  seed %d" % self.seed, file=sys.stderr)
        with Server(self.options(**{"auto-aof-rewrite-percentage": "0"})) as ours, \
                Server(dict(ENCODINGS, appendonly="yes"), binary=REDIS, start=False) as redis:
            writer = Writer(self.seed, commands_of(ours), field_times=False)
            self.write(ours, writer, scaled(8000))
            before = self.settled(ours, field_times=False)
            folder = os.path.join(redis.folder, "appendonlydir")
            shutil.copytree(os.path.join(ours.folder, "appendonlydir"), folder)
            with open(os.path.join(folder, "appendonly.aof.manifest")) as manifest:
                lines = [line for line in manifest if " type i" in line]
            with open(os.path.join(folder, "appendonly.aof.manifest"), "w") as manifest:
                manifest.writelines(lines)
            redis.start()
            self.same(before, self.settled(redis, field_times=False), "in redis-server, from our log")

    @kelvin_only
    def test_hostile_payloads_are_replayed(self):
        """Modified payloads that RESTORE accepts, and HyperLogLogs with wrong bytes; then commands on them. Each of them is demoted from
        time to time, and must be the same after a restart."""
        print("  seed %d" % self.seed, file=sys.stderr)
        taken = 0
        with Server(self.options(**{"auto-aof-rewrite-percentage": "0"})) as server:
            writer = Writer(self.seed, commands_of(server), field_times=True)
            draw = writer.random
            for number in range(3):
                with server.client() as client:
                    self.seen += writer.run(client, scaled(800))
                    keys = client.must("KEYS", "*")
                    for _ in range(scaled(800)):
                        key = draw.choice(keys)
                        dump = client.call("DUMP", key)
                        if isinstance(dump, bytes) and not isinstance(dump, Error) and len(dump) < 3000:
                            words = [b"RESTORE", draw.choice(keys), b"0", dump_of(mutated(draw, dump[:-FOOTER_SIZE])), b"REPLACE"]
                            taken += not isinstance(client.call(*words), Error)
                            self.seen.append(words)
                        if draw.random() < 0.2:
                            words = [b"SETRANGE", b"p%d" % draw.randrange(6), b"%d" % draw.randrange(4, 60), bytes([draw.choice(TELLING)])]
                            client.call(*words)
                            self.seen.append(words)
                        self.seen += writer.run(client, 1)
                        if draw.random() < 0.1:
                            client.must("TIER", "DEMOTE", draw.choice(keys))
                before = self.settled(server)
                server.restart(kill=True)
                self.same(before, self.settled(server), "after kill -9 and replay (round %d)" % number)
        self.assertGreater(taken, scaled(200))

    @kelvin_only
    def test_commands_that_overflow_or_fail_midway_do_not_prevent_a_restart(self):
        commands = (
            "XADD s 1-1 f v", "XSETID s 1-1 ENTRIESADDED 9223372036854775807", "XADD s 2-1 f v",
            "XADD t 1-1 f v", "XADD t 2-1 f v", "XGROUP CREATE t g 0 ENTRIESREAD 9223372036854775807", "XREADGROUP GROUP g c STREAMS t >",
            "XCLAIM t g d 0 1-1 RETRYCOUNT 9223372036854775807", "XCLAIM t g e 0 1-1", "XREADGROUP GROUP g e STREAMS t 0")
        with Server(self.options()) as server:
            with server.client() as client:
                for command in commands:
                    client.must(*command.split())
                # A sparse HyperLogLog that is too short: some elements have a register, some do not.
                for key, size in (("p", 0), ("big", 5000)):
                    client.must("SET", key, b"HYLL\x01" + bytes(11) + b"\x60\x00" + b"\x80" * size)
                    self.assertIn(b"INVALIDOBJ", client.call("PFADD", key, *["e%d" % index for index in range(60)]))
                self.assertEqual(client.must("GET", "p"), b"HYLL\x01" + bytes(11) + b"\x60\x00")
            before = self.settled(server)
            server.restart(kill=True)
            self.same(before, self.settled(server), "after kill -9 and replay")
            with server.client() as client:
                for key in ("s", "t", "p", "big"):
                    self.assertEqual(client.must("TIER", "DEMOTE", key), 1)
                client.must("BGREWRITEAOF")
            self.same(before, self.settled(server), "after a demotion")
            server.restart()
            self.same(before, self.settled(server), "after a checkpoint")

    @kelvin_only
    def test_a_cold_key_that_is_source_and_destination_is_replayed_as_one(self):
        """Enough keys that look-ahead does not reach the last ones, and no other command uses them: replay loads the source after it has
        looked up the destination."""
        missing = ["missing:%d" % index for index in range(70)]
        with Server(self.options(**{"tier-warmup": "no", "auto-aof-rewrite-percentage": "0"})) as server:
            with server.client() as client:
                client.must("SADD", "s", "a", "b")
                client.must("ZADD", "z", 1, "a", 2, "b")
                client.must("SET", "b", "bits")
                client.must("BGREWRITEAOF")
            self.rewritten(server)
            server.restart(kill=True)
            with server.client() as client:
                client.must("SUNIONSTORE", "s", *missing, "s")
                client.must("ZUNIONSTORE", "z", 71, *missing, "z")
                client.must("BITOP", "OR", "b", *missing, "b")
            before = self.settled(server)
            server.restart(kill=True)
            self.same(before, self.settled(server), "after kill -9 and replay")
            with server.client() as client:
                self.assertEqual(client.must("DEL", "s", "z", "b"), 3)
                self.assertEqual(client.must("EXISTS", "s", "z", "b"), 0)
                self.assertEqual(client.must("DBSIZE"), 0)

    def test_a_difference_is_found(self):
        """A test of the comparison."""
        with Server(dict(ENCODINGS)) as server, server.client() as client:
            client.must("HSET", "h", "f", "1")
            client.must("XADD", "x", "1-1", "f", "1")
            before = state(client)
            client.must("HSET", "h", "f", "2")
            with self.assertRaises(AssertionError):
                self.same(before, state(client), "nothing")
            client.must("HSET", "h", "f", "1")
            self.same(before, state(client), "the same again")
            client.must("XGROUP", "CREATE", "x", "g", "0")
            with self.assertRaises(AssertionError):
                self.same(before, state(client), "nothing")


if __name__ == "__main__":
    main()

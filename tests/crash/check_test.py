"""kelvin-check on the files of a busy server: all types, several workers, more data than memory, running checkpoints; after a shutdown
and after a kill. A correct server leaves files without faults."""
import os
import random
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.check import verify                                                                    # noqa: E402
from support.resp import Error                                                                      # noqa: E402
from support.server import Server, is_sanitized, scaled, seed_new                                   # noqa: E402

KEYS, WRITERS = 3000, 6
REFUSALS = (b"OOM", b"WRONGTYPE", b"ERR no such key", b"ERR The ID specified", b"BUSYGROUP", b"NOGROUP", b"ERR source and destination")


def command(chance):
    """Returns a change of a value of any type. Keys with the same prefix have the same type, except after RENAME and COPY."""
    number, text = chance.randrange(KEYS), os.urandom(chance.choice((3, 30, 300, 3000)))
    field, score = "f%d" % chance.randrange(400), chance.choice((chance.random(), chance.randrange(1000)))
    kind = chance.choice("slhzxt")
    key = "%s%d" % (kind, number)
    few = chance.choice((1, 2, 40))
    if chance.random() < 0.12:
        other = "%s%d" % (kind, chance.randrange(KEYS))
        return chance.choice((["DEL", key], ["UNLINK", key], ["PEXPIRE", key, chance.choice((20, 500, 10 ** 7))], ["PERSIST", key],
                              ["RENAME", key, other], ["COPY", key, other, "REPLACE"], ["TIER", "DEMOTE", key, other], ["MOVE", key, 1]))
    return {
        "s": lambda: chance.choice((["SET", key, text], ["APPEND", key, text[:300]], ["SETBIT", key, number, 1], ["SETEX", key, 1000, text])),
        "l": lambda: chance.choice((["RPUSH", key] + [text[:300]] * few, ["LPUSH", key, text[:200]], ["LPOP", key], ["LTRIM", key, 0, 500])),
        "h": lambda: chance.choice((["HSET", key] + [w for i in range(few) for w in ("%s%d" % (field, i), text[:100])], ["HDEL", key, field + "0"],
                                    ["HPEXPIRE", key, chance.choice((50, 10 ** 6)), "FIELDS", 1, field + "0"])),
        "z": lambda: chance.choice((["ZADD", key] + [w for i in range(few) for w in (score + i, "%s%d" % (field, i))], ["ZREM", key, field + "0"],
                                    ["ZINCRBY", key, 1, field + "0"])),
        "x": lambda: chance.choice((["XADD", key, "MAXLEN", "~", 500, "*", field, text[:100]], ["XGROUP", "CREATE", key, "g", 0, "MKSTREAM"],
                                    ["XREADGROUP", "GROUP", "g", "c", "COUNT", 3, "STREAMS", key, ">"], ["XTRIM", key, "MAXLEN", 100])),
        "t": lambda: chance.choice((["SADD", key] + ["%s%d" % (field, i) for i in range(few)], ["SADD", key, number], ["SREM", key, field + "0"],
                                    ["SPOP", key], ["PFADD", "p%d" % number, field])),
    }[kind]()


class Busy(threading.Thread):
    def __init__(self, server, seed):
        super().__init__(daemon=True)
        self.server, self.random, self.stop, self.wrong, self.done = server, random.Random(seed), threading.Event(), None, 0
        self.start()

    def run(self):
        try:
            with self.server.client(timeout=120) as client:
                while not self.stop.is_set() and not self.wrong:
                    batch = [command(self.random) for _ in range(20)]
                    for args, reply in zip(batch, client.pipeline(batch)):
                        self.done += 1
                        if isinstance(reply, Error) and not reply.startswith(REFUSALS):
                            self.wrong = "%r: %r" % (args[:4], reply)
        except OSError:
            pass


@kelvin_only
class BusyTest(unittest.TestCase):
    def life(self, server, seed, seconds, kill):
        busy = [Busy(server, "%d/%d" % (seed, i)) for i in range(WRITERS)]
        with server.client(timeout=120) as client:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                client.call("BGREWRITEAOF")
                time.sleep(0.2)
            if kill:
                server.kill9()
        for writer in busy:
            writer.stop.set()
        for writer in busy:
            writer.join(120)
            self.assertIsNone(writer.wrong)
        if not kill:
            self.assertEqual(server.terminate(240), 0, server.log_tail())
        self.assertIsNone(server.alarm())
        return sum(writer.done for writer in busy)

    def test_the_files_of_a_busy_server_have_no_faults(self):
        seed, done = seed_new(), 0
        with self.subTest(seed=seed):
            server = Server({"appendonly": "yes", "appendfsync": "everysec", "io-threads": "4", "maxmemory": "24mb", "tier-segment-size": "256kb", "tier-write-buffer": "256kb",
                             "auto-aof-rewrite-percentage": "0"})
            self.addCleanup(server.discard)
            for life, kill in enumerate((False, True, True, False)):
                done += self.life(server, seed + life, scaled(4), kill)
                status, text = verify(server.folder)
                if kill and status == 1:        # the kill interrupted a write, whose part a start truncates as well
                    self.assertIn("torn", text)
                    status, text = verify(server.folder, "--repair")
                self.assertEqual(status, 0, text)
                server.expect_crash = True
                server.start()
                with server.client(timeout=120) as client:
                    self.assertGreater(client.must("DBSIZE"), 0)
                self.assertGreater(int(server.info("tiering")["tier_cold_keys"]), 0)
            self.assertIsNone(server.alarm())
            server.stop()
        if not is_sanitized():
            self.assertGreater(done, 1000)


if __name__ == "__main__":
    main()

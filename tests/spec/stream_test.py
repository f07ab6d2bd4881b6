"""Streams, compared with redis-server."""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.compare import stream_facts                                                            # noqa: E402
from support.case import PairCase, ServerCase, kelvin_only, main                                    # noqa: E402
from support.resp import Error, Status                                                              # noqa: E402
from support.server import REDIS, Server, until                                                     # noqa: E402

FILL = """
    XADD s 1-1 a 1 b 2
    XADD s 1-2 a 3 b 4
    XADD s 2-0 other x
    XADD s 5-0 a 5 b 6
    XADD s 7-3 a "" b "bin\\x00\\xff"
"""
GROUPS = """
    XGROUP CREATE s g 0
    XGROUP CREATE s h $ ENTRIESREAD 2
    XGROUP CREATECONSUMER s g idle
    XREADGROUP GROUP g anna COUNT 2 STREAMS s >
    XREADGROUP GROUP g bert COUNT 2 STREAMS s >
    XACK s g 1-1 9-9
"""
SEE = """
    XRANGE s - +
    XREVRANGE s + -
    XLEN s
    XINFO STREAM s
    XINFO GROUPS s
    XPENDING s g
"""


class StreamTest(PairCase):
    def test_add(self):
        self.both(FILL + """
            XADD s 7-* a 1
            XADD s 7-3 a 1
            XADD s 0-0 a 1
            XADD s 8 a
            XADD s x a 1
            XADD s NOMKSTREAM 9-0 a 1
            XADD missing NOMKSTREAM 9-0 a 1
            EXISTS missing
            XADD s MAXLEN 3 10-0 a 1
            XADD s MAXLEN = 2 11-0 a 1
            XADD s MINID 11 12-0 a 1
            XADD s MAXLEN -1 13-0 a 1
            XADD s MAXLEN 1 MINID 1 13-0 a 1
            XADD s MAXLEN 1 LIMIT 5 13-0 a 1
            XADD s LIMIT 5 13-0 a 1
            XADD s 18446744073709551615-18446744073709551615 a 1
            XADD s * a 1
            XRANGE s - +
            SET t v
            XADD t 1-1 a 1
        """)

    def test_range(self):
        self.both(FILL + """
            XRANGE s 1 2
            XRANGE s (1-1 (5-0
            XRANGE s (7-3 +
            XRANGE s 5 1
            XRANGE s - + COUNT 2
            XRANGE s - + COUNT 0
            XRANGE s - + COUNT -1
            XREVRANGE s + (2 COUNT 1
            XRANGE s x +
            XRANGE s - y
            XRANGE s (- +
            XRANGE s (18446744073709551615-18446744073709551615 +
            XRANGE s - (0-0
            XRANGE missing - +
            XDEL s 2-0 2-0 9-9
            XRANGE s - +
        """)

    def test_trim(self):
        self.both(FILL + """
            XTRIM s MAXLEN 4
            XTRIM s MINID 2
            XTRIM s MAXLEN ~ 1
            XTRIM s MAXLEN 1 LIMIT 4
            XTRIM s MAXLEN
            XTRIM s NOSUCH 1
            XTRIM missing MAXLEN 0
            XRANGE s - +
            XTRIM s MAXLEN 0
            EXISTS s
            XINFO STREAM s
        """)

    def test_setid(self):
        self.both(FILL + """
            XSETID s 7-3
            XSETID s 7-2
            XSETID s 9-0 ENTRIESADDED 10 MAXDELETEDID 8-0
            XSETID s 8-0 ENTRIESADDED 1
            XSETID s 9-0 ENTRIESADDED 1
            XSETID s 9-0 ENTRIESADDED -1
            XSETID s 9-0 MAXDELETEDID 10-0
            XSETID s 9-0 NOSUCH
            XSETID missing 1-0
            XINFO STREAM s
        """)

    @kelvin_only
    def test_setid_is_refused_below_an_id_that_a_node_still_has(self):
        """See docs/differences.md; Redis accepts it."""
        self.both("""
            XADD s 1-0 a 1
            XADD s 5-0 a 1
            XDEL s 5-0
            XSETID s 5-0 MAXDELETEDID 1-0
        """)
        self.assertEqual(self.r.must("XSETID", "s", "3-0"), Status(b"OK"))
        self.assertIsInstance(self.c.call("XSETID", "s", "3-0"), Error)
        self.assertEqual(self.c.must("XADD", "s", "6-0", "a", "1"), b"6-0")

    def test_names_of_groups_that_are_option_words(self):
        for options in ("COUNT 1 GROUP streams c", "NOACK GROUP g streams", "BLOCK 1 GROUP STREAMS STREAMS", "GROUP g c GROUP streams c",
                        "GROUP streams streams", "GROUP group count", "GROUP g c GROUP group streams", "GROUP g"):
            for name in ("s", "streams", "c"):
                self.both("XREADGROUP %s STREAMS %s >" % (options, name))
                self.both("XGROUP CREATE %s streams 0 MKSTREAM" % name)
                self.both("XADD %s 1-1 a b" % name)
                self.both("XREADGROUP %s STREAMS %s >\nXREADGROUP %s STREAMS %s 0\nDEL %s" % (options, name, options, name, name))

    def test_groups(self):
        self.both(FILL + GROUPS + SEE + """
            XGROUP CREATE s g 0
            XGROUP CREATE missing g 0
            XGROUP CREATE made g 0 MKSTREAM
            XREADGROUP GROUP g anna STREAMS s 0
            XPENDING s g - + 10
            XPENDING s g - + 10 bert
            XPENDING s g (1-2 5 1
            XPENDING s nosuch
            XCLAIM s g cleo 0 1-2 TIME 1000 RETRYCOUNT 7 JUSTID
            XCLAIM s g cleo 0 2-0 LASTID 6-0
            XCLAIM s g cleo 0 7-3 FORCE
            XCLAIM s g cleo 0 7-3 NOSUCH
            XCLAIM s nosuch cleo 0 7-3
            XAUTOCLAIM s g dora 0 0 COUNT 2
            XDEL s 5-0
            XAUTOCLAIM s g dora 0 0 JUSTID
            XAUTOCLAIM s g dora x 0
            XPENDING s g
            XGROUP DELCONSUMER s g dora
            XGROUP SETID s g 2-0
            XGROUP DESTROY s h
            XGROUP DESTROY s h
            XINFO GROUPS s
        """ + SEE)

    def test_dumps_are_exchanged_with_redis(self):
        self.both(FILL + GROUPS)
        for source, target in ((self.c, self.r), (self.r, self.c)):
            target.must("RESTORE", "s", 0, source.must("DUMP", "s"), "REPLACE")
            self.both(SEE)


@kelvin_only
class ColdStreamTest(StreamTest):
    """The same, with all keys demoted before each command."""

    def before_command(self):
        self.c.must("TIER", "DEMOTE", "s", "made")


@kelvin_only
class StreamRecoveryTest(ServerCase):
    options = {"appendonly": "yes", "appendfsync": "always"}

    def test_all_data_is_there_after_a_kill(self):
        for line in (FILL + GROUPS).split("\n"):
            if line.strip():
                self.c.must(*[word.strip('"') for word in line.split()])
        self.c.must("XDEL", "s", "2-0")
        self.c.must("XTRIM", "s", "MAXLEN", "3")
        see = [line.split() for line in SEE.split("\n") if line.strip() and "INFO STREAM" not in line]
        before = [self.c.must(*command) for command in see], self.c.must("DEBUG", "DIGEST-VALUE", "s")
        self.server.restart(kill=True)
        client = self.client()
        self.assertEqual(([client.must(*command) for command in see], client.must("DEBUG", "DIGEST-VALUE", "s")), before)


@kelvin_only
class ActiveTimeTest(ServerCase):
    """The time at which a consumer last received an entry (only in 7.2), in addition to the time of its last command."""
    options = {"appendonly": "yes", "appendfsync": "always"}

    def setUp(self):
        super().setUp()
        for command in ("XADD s 1-1 a 1", "XADD s 2-1 a 2", "XGROUP CREATE s g 0", "XGROUP CREATECONSUMER s g never",
                        "XREADGROUP GROUP g anna STREAMS s >"):
            self.c.must(*command.split())
        # It continues to read, and receives nothing.
        def asks():
            self.c.must("XREADGROUP", "GROUP", "g", "anna", "STREAMS", "s", ">")
            return self.quiet()[0] >= 20
        until(asks, what="time passes")

    def quiet(self):
        """Returns the inactive time of the consumer that read last, and that of the consumer that never read."""
        anna, never = self.c.must("XINFO", "CONSUMERS", "s", "g")
        see = lambda consumer: dict(zip(consumer[::2], consumer[1::2]))
        return see(anna)[b"inactive"] - see(anna)[b"idle"], see(never)[b"inactive"]

    def full(self):
        group, = dict(zip(*[iter(self.c.must("XINFO", "STREAM", "s", "FULL"))] * 2))[b"groups"]
        consumers = dict(zip(*[iter(group)] * 2))[b"consumers"]
        return [[consumer[i] for i in (1, 3, 5)] for consumer in consumers]         # name, seen, active

    def test_it_is_loaded_from_the_store(self):
        before = self.full()
        self.assertLess(before[0][2], before[0][1])
        for _ in range(3):
            self.assertEqual(self.c.must("TIER", "DEMOTE", "s"), 1)
            self.assertEqual(self.full(), before)
        self.assertGreaterEqual(self.quiet()[0], 20)
        self.assertEqual(self.quiet()[1], -1)

    def test_it_is_in_checkpoints_and_copies(self):
        before = self.full()
        self.c.must("BGREWRITEAOF")
        until(lambda: self.server.info()["aof_rewrite_in_progress"] == "0" and self.server.info()["aof_rewrite_scheduled"] == "0",
              what="the checkpoint")
        self.server.restart(kill=True)
        self.c = self.client()
        self.assertEqual(self.full(), before)
        self.c.must("COPY", "s", "t")
        self.c.must("RENAME", "t", "s")
        self.assertEqual(self.full(), before)

    def test_a_dump_does_not_have_it(self):
        """A dump has the format of Redis 7.0. 7.2 loads it with active = last seen."""
        before = self.full()
        dump = self.c.must("DUMP", "s")
        self.assertEqual(dump[:1], b"\x13")
        self.c.must("RESTORE", "s", 0, dump, "REPLACE")
        self.assertEqual(self.full(), [[name, seen, seen] for name, seen, _ in before])


class SavedStreamTest(PairCase):
    def test_redis_loads_a_dump(self):
        """Including groups, consumers and pending entries, although the store has them in a format that 7.0 does not know."""
        self.both(FILL + GROUPS)
        see = [line.split() for line in SEE.strip().split("\n")]
        before = [stream_facts(self.r.must(*command)) for command in see]
        self.c.must("SAVE")
        with tempfile.TemporaryDirectory(prefix="kelvin-test-") as folder:
            shutil.copy(os.path.join(self.server.folder, "dump.rdb"), folder)
            with Server({}, binary=REDIS, folder=folder) as redis, redis.client() as client:
                self.assertEqual([stream_facts(client.must(*command)) for command in see], before)


if __name__ == "__main__":
    main()

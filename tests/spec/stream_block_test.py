"""XREAD and XREADGROUP that wait: which commands serve them or end their wait."""
import itertools
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                              # noqa: E402
from support.scripts import ScriptCase                                                                   # noqa: E402
from support.resp import Error, NULL_ARRAY, encode                                                  # noqa: E402
from support.server import scaled, seed_new, until                                                   # noqa: E402


class StreamBlockTest(ServerCase):
    options = {"appendonly": "yes"}

    def waiting(self, *args, count=1):
        """A client with a waiting command."""
        client = self.client()
        client.send(encode(args))
        deadline = time.monotonic() + 20
        while self.server.info()["blocked_clients"] != str(count):
            self.assertLess(time.monotonic(), deadline, "it does not wait")
            time.sleep(0.005)
        return client

    def test_xread_returns_only_new_entries(self):
        self.c.must("XADD", "s", "1-1", "a", "1")
        reader = self.waiting("XREAD", "BLOCK", 0, "STREAMS", "t", "s", "$", "$")
        self.c.must("SET", "t", "a string")         # of another type: it continues to wait
        self.c.must("DEL", "t", "s")
        self.c.must("XADD", "s", "2-1", "b", "2")
        self.assertEqual(reader.receive(), [[b"s", [[b"2-1", [b"b", b"2"]]]]])

    def test_timeouts(self):
        for args in (["XREAD", "BLOCK", 30, "STREAMS", "s", "0"], ["XREAD", "STREAMS", "s", "0"]):
            self.assertEqual(self.c.call(*args), NULL_ARRAY)
        for timeout, text in ((b"-1", "negative"), (b"1.5", "not an integer"), (b"9223372036854775807", "out of range")):
            self.assertIn(text.encode(), self.c.call("XREAD", "BLOCK", timeout, "STREAMS", "s", "0"))

    def test_the_reader_of_a_deleted_group_gets_an_error(self):
        self.c.must("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        ends = [(["XGROUP", "DESTROY", "s", "g"], b"NOGROUP"), (["DEL", "s"], b"NOGROUP"), (["SET", "s", "x"], b"WRONGTYPE"),
                (["FLUSHALL"], b"NOGROUP"), (["RENAME", "s", "other"], b"NOGROUP"), (["PEXPIRE", "s", 20], b"NOGROUP")]
        for command, text in ends:
            self.c.must("DEL", "s")
            self.c.must("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
            reader = self.waiting("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")
            self.assertEqual(self.c.must("XINFO", "CONSUMERS", "s", "g")[0][1], b"c")
            self.c.must(*command)
            reply = reader.receive()
            self.assertIsInstance(reply, Error)
            self.assertTrue(reply.startswith(text), (command, reply))

    def test_readers_of_a_group_are_served_in_turn_and_it_is_logged(self):
        self.c.must("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        readers = [self.waiting("XREADGROUP", "GROUP", "g", "c%d" % i, "COUNT", 1, "BLOCK", 0, "STREAMS", "s", ">", count=i + 1) for i in range(3)]
        for i in range(3):
            self.c.must("XADD", "s", "%d-1" % (i + 1), "n", i)
        for i in range(3):
            self.assertEqual(readers[i].receive(), [[b"s", [[b"%d-1" % (i + 1), [b"n", b"%d" % i]]]]])
        digest = self.c.must("DEBUG", "DIGEST-VALUE", "s")
        self.server.restart(kill=True)
        with self.server.client() as client:
            self.assertEqual(client.must("DEBUG", "DIGEST-VALUE", "s"), digest)
            self.assertEqual(client.must("XPENDING", "s", "g")[0], 3)

    def test_databases_are_swapped_under_a_group(self):
        """As in 7.2: the command is run again on the current data."""
        for made, text in (([], b"NOGROUP"), (["SET", "s", "x"], b"WRONGTYPE"), (["XADD", "s", "1-1", "a", "1"], b"NOGROUP"),
                           (["XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"], None)):
            self.c.must("FLUSHALL")
            self.c.must("SELECT", 1)
            if made:
                self.c.must(*made)
            self.c.must("SELECT", 0)
            self.c.must("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
            reader = self.waiting("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")
            self.c.must("SWAPDB", 0, 1)
            if text is None:                # this group exists here: it continues to wait
                self.c.must("XADD", "s", "5-1", "a", "1")
                self.assertEqual(reader.receive(), [[b"s", [[b"5-1", [b"a", b"1"]]]]])
            else:
                self.assertTrue(reader.receive().startswith(text), (made, text))

    def test_readers_of_other_groups_and_xread_continue_to_wait(self):
        self.c.must("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        self.c.must("XGROUP", "CREATE", "s", "h", "$")
        gone = self.waiting("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")
        other = self.waiting("XREADGROUP", "GROUP", "h", "c", "BLOCK", 0, "STREAMS", "s", ">", count=2)
        plain = self.waiting("XREAD", "BLOCK", 0, "STREAMS", "s", "$", count=3)
        self.c.must("XGROUP", "DESTROY", "s", "g")
        self.assertTrue(gone.receive().startswith(b"NOGROUP No such key 's' or consumer group 'g'"))
        self.assertEqual(self.server.info()["blocked_clients"], "2")
        self.c.must("XADD", "s", "1-1", "a", "1")
        for reader in (other, plain):
            self.assertEqual(reader.receive(), [[b"s", [[b"1-1", [b"a", b"1"]]]]])

    def test_a_reader_that_is_unblocked(self):
        for how, text in (([], NULL_ARRAY), (["TIMEOUT"], NULL_ARRAY), (["ERROR"], Error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK"))):
            reader = self.client()
            number = reader.must("CLIENT", "ID")
            reader.send(encode(["XREAD", "BLOCK", 0, "STREAMS", "s", "$"]))
            until(lambda: self.server.info()["blocked_clients"] == "1", what="it waits")
            self.assertEqual(self.c.must("CLIENT", "UNBLOCK", number, *how), 1)
            self.assertEqual(reader.receive(), text)


def refused(reply):
    """The error for a reader of a group whose stream or group was deleted: 7.0 has special texts, 7.2 runs the command again."""
    if isinstance(reply, Error) and reply.startswith((b"UNBLOCKED the stream key", b"NOGROUP", b"WRONGTYPE")):
        return Error(b"gone")
    return reply


class StreamScriptTest(ScriptCase):
    """Random scripts with waiting readers and commands that may serve them or delete their streams. Without XSETID: after an ID that no
    entry has, 7.0 replies without entries; 7.2 runs the command again, and waits. And either only streams, or one key for each reader: if
    another key of a reader has become a string, 7.2, which runs the command again, returns an error."""

    def normal(self, reply):
        return refused(reply)

    def step(self, rand, ids, strings):
        key = lambda: rand.choice("stu")
        group = lambda: rand.choice(("g", "g", "h"))
        if rand.random() < 0.35:
            keys = rand.sample("stu", 1 if strings else rand.choice((1, 2, 3)))
            count = ["COUNT", str(rand.randrange(1, 3))] if rand.random() < 0.5 else []
            if rand.random() < 0.5:
                return None, ["XREAD"] + count + ["BLOCK", "0", "STREAMS"] + keys + [rand.choice(("$", "$", "0", "9999999")) for _ in keys]
            no_ack = ["NOACK"] if rand.random() < 0.3 else []
            return None, ["XREADGROUP", "GROUP", group(), rand.choice("abc")] + count + no_ack + ["BLOCK", "0", "STREAMS"] + keys[:1] + [">"]
        what = rand.randrange(22)
        number = next(ids)
        if what < 9:
            return "p", ["XADD", key(), "%d-%s" % (number, rand.choice(("1", "*"))), "n", str(number)]
        if what < 13:
            return "p", ["XGROUP", "CREATE", key(), group(), rand.choice(("0", "$")), "MKSTREAM"]
        return "p", [["XGROUP", "DESTROY", key(), group()], ["DEL", key()], ["SET", key(), "x"] if strings else ["XLEN", key()], ["RENAME", key(), key()],
                     ["COPY", key(), key(), "REPLACE"], ["XTRIM", key(), "MAXLEN", "1"], ["XACK", key(), group(), "%d-0" % (number - 3)],
                     ["XPENDING", key(), group()], ["XGROUP", "SETID", key(), group(), "0"]][what - 13]

    def test_random_scripts(self):
        seed = seed_new()
        rand, ids = random.Random(seed), itertools.count(1)
        print("  seed %d" % seed, file=sys.stderr)
        for round_ in range(scaled(12)):
            steps = [self.step(rand, ids, round_ % 4 < 2) for _ in range(80)]
            self.run_script([(name or "w%d" % index, args) for index, (name, args) in enumerate(steps)], protocol=2 + round_ % 2)
            self.c.must("FLUSHALL")
            self.r.must("FLUSHALL")


@kelvin_only
class ColdStreamPlayTest(StreamScriptTest):
    """The same with all keys cold before every command."""
    demote = True


@kelvin_only
class WorkersStreamPlayTest(StreamScriptTest):
    options = {"io-threads": "4"}


if __name__ == "__main__":
    main()

"""XREAD and XREADGROUP that wait: what serves them, and what ends their waiting."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, main                                                           # noqa: E402
from support.resp import Error, NULL_ARRAY, encode                                                          # noqa: E402


class StreamBlockTest(ServerCase):
    options = {"appendonly": "yes"}

    def waiting(self, *args, count=1):
        """A client in a command that waits."""
        client = self.client()
        client.send(encode(args))
        deadline = time.monotonic() + 20
        while self.server.info()["blocked_clients"] != str(count):
            self.assertLess(time.monotonic(), deadline, "it does not wait")
            time.sleep(0.005)
        return client

    def test_xread_gets_what_comes_and_nothing_older(self):
        self.c.must("XADD", "s", "1-1", "a", "1")
        reader = self.waiting("XREAD", "BLOCK", 0, "STREAMS", "t", "s", "$", "$")
        self.c.must("SET", "t", "a string")         # of another type: it goes on waiting
        self.c.must("DEL", "t", "s")
        self.c.must("XADD", "s", "2-1", "b", "2")
        self.assertEqual(reader.receive(), [[b"s", [[b"2-1", [b"b", b"2"]]]]])

    def test_the_time_is_up(self):
        for args in (["XREAD", "BLOCK", 30, "STREAMS", "s", "0"], ["XREAD", "STREAMS", "s", "0"]):
            self.assertEqual(self.c.call(*args), NULL_ARRAY)
        for timeout, text in ((b"-1", "negative"), (b"1.5", "not an integer"), (b"9223372036854775807", "out of range")):
            self.assertIn(text.encode(), self.c.call("XREAD", "BLOCK", timeout, "STREAMS", "s", "0"))

    def test_a_group_waits_and_its_reader_is_told_when_it_goes(self):
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

    def test_readers_of_a_group_are_served_in_turn_and_it_is_in_the_log(self):
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


if __name__ == "__main__":
    main()

"""Requests that wait while replies are not read.

Long strings in replies take a share of maxmemory (PARKED_FOR_REPLIES): a client that waits for room goes on when others have left, or do not read.
"""
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                              # noqa: E402
from support.resp import OK, Status, encode                                                          # noqa: E402
from support.server import until                                                                    # noqa: E402

SIZE = 1500000          # one fits into a quarter of maxmemory, two do not
WAIT_S = 60


@kelvin_only
class ReplyRoomTest(ServerCase):
    options = {"maxmemory": "11mb", "save": "", "appendonly": "no"}

    def setUp(self):
        super().setUp()
        for number in range(3):
            self.c.must("SET", "key:%d" % number, b"v" * SIZE)
        self.holder, self.waiter = self.client(), self.client(timeout=WAIT_S)
        self.holder.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.holder.send(encode(["GET", "key:0"]) + encode(["GET", "key:0"]) + encode(["GET", "key:0"]))
        until(lambda: b"events=rw" in self.c.must("CLIENT", "LIST"), WAIT_S, "that the socket of the holder is full")
        self.waiter.send(encode(["GET", "key:1"]))
        until(lambda: b"flags=b" in self.c.must("CLIENT", "LIST"), WAIT_S, "that the other client waits for room")

    def test_the_holder_is_closed(self):
        self.holder.close()
        self.assertEqual(len(self.waiter.receive()), SIZE)

    def test_the_holder_does_not_read(self):
        """After ten seconds it is closed, though its replies alone are not too many."""
        self.assertEqual(len(self.waiter.receive()), SIZE)


@kelvin_only
class LowerLimitTest(ServerCase):
    """What may be pending becomes less while a request waits for something else. It depends on the number of clients, too."""

    options = {"save": "", "appendonly": "no", "client-output-pending-max": "64mb"}
    SIZE = 16 << 20

    def check(self, request, pauses, go_on, reply):
        self.c.must("CONFIG", "SET", "client-output-pending-max", "64mb")
        self.c.must("SET", "large", b"v" * self.SIZE)
        if pauses:
            self.c.must("CLIENT", "PAUSE", 3600000, "WRITE")
        sleeper = self.client(timeout=WAIT_S)
        sleeper.send(encode(["GET", "large"]) + encode(request) + encode(["PING"]))
        until(lambda: b"flags=b" in self.c.must("CLIENT", "LIST"), WAIT_S, "that its second request waits")
        until(lambda: b"events=rw" in self.c.must("CLIENT", "LIST"), WAIT_S, "that its socket is full")
        self.c.must("CONFIG", "SET", "client-output-pending-max", "64kb")
        self.c.must(*go_on)
        self.assertEqual(len(sleeper.receive()), self.SIZE)
        self.assertEqual([sleeper.receive(), sleeper.receive()], [reply, Status(b"PONG")])

    def test_a_write_that_is_paused(self):
        self.check(["SET", "key", "value"], True, ["CLIENT", "UNPAUSE"], OK)

    def test_a_script_that_is_paused(self):
        self.check(["EVAL", "return redis.call('INCR', KEYS[1])", 1, "key"], True, ["CLIENT", "UNPAUSE"], 1)

    def test_a_client_that_waits_for_an_element(self):
        self.check(["BLPOP", "list", 0], False, ["RPUSH", "list", "a"], [b"list", b"a"])


if __name__ == "__main__":
    main()

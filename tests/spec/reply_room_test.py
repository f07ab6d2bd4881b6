"""Long strings in replies take a share of maxmemory (PARKED_FOR_REPLIES): a client that waits for room goes on when others have left, or do not read."""
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                              # noqa: E402
from support.resp import encode                                                                     # noqa: E402
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


if __name__ == "__main__":
    main()

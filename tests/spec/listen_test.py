"""The addresses at which a server listens, changed while it runs."""
import os
import socket
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.case import kelvin_only, main                                                          # noqa: E402
from support.resp import OK, Client, Error, Status                                                  # noqa: E402
from support.server import REDIS, Server, port_free                                                   # noqa: E402

PONG = Status(b"PONG")


def is_open(host, port):
    try:
        with Client((host, port), timeout=10) as client:
            return client.call("PING") == PONG
    except ConnectionRefusedError:
        return False


class ListenTest(unittest.TestCase):
    """The same changes at both servers: the same replies, and the same addresses are open afterwards."""

    def setUp(self):
        self.servers = [Server({"bind": ["127.0.0.1"], "unixsocket": "s.sock"}, binary=binary) for binary in (None, REDIS)]
        for server in self.servers:
            self.addCleanup(server.stop)
        self.controls = []
        for server in self.servers:
            control = Client(os.path.join(server.folder, "s.sock"))
            self.addCleanup(control.close)
            self.controls.append(control)

    def set_both(self, *args):
        """`args` with PORT, the server's own, and TAKEN, a port that another socket listens at."""
        replies = []
        for server, control in zip(self.servers, self.controls):
            words = [str(server.port) if word == "PORT" else str(self.taken_port) if word == "TAKEN" else word for word in args]
            replies.append(control.call("CONFIG", "SET", *words))
        self.assertEqual(replies[0], replies[1], args)
        return replies[0]

    def open_both(self, hosts=("127.0.0.1", "127.0.0.2", "127.0.0.3", "::1")):
        found = [[host for host in hosts if is_open(host, server.port)] for server in self.servers]
        self.assertEqual(found[0], found[1])
        return found[0]

    def take_a_port(self):
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        self.taken_port = taken.getsockname()[1]

    def test_bind(self):
        self.assertEqual(self.open_both(), ["127.0.0.1"])
        for value, wanted in (("127.0.0.1 127.0.0.2", ["127.0.0.1", "127.0.0.2"]), ("127.0.0.2", ["127.0.0.2"]),
                              ("*", ["127.0.0.1", "127.0.0.2", "127.0.0.3"]), ("127.0.0.3", ["127.0.0.3"]),
                              ("* -::*", None), ("0.0.0.0", ["127.0.0.1", "127.0.0.2", "127.0.0.3"]),
                              ("127.0.0.1 -198.51.100.1", ["127.0.0.1"]), ("", []), ("127.0.0.1", ["127.0.0.1"])):
            self.assertEqual(self.set_both("bind", value), OK, value)
            found = self.open_both()
            if wanted is not None:
                self.assertEqual(found, wanted, value)

    def test_addresses_that_can_not_be_bound_change_nothing(self):
        for value in ("198.51.100.1", "127.0.0.1 198.51.100.1", "127.0.0.2 198.51.100.1"):
            reply = self.set_both("bind", value)
            self.assertIsInstance(reply, Error, value)
            self.assertIn(b"Failed to bind to specified addresses.", reply)
            self.assertEqual(self.open_both(), ["127.0.0.1"])
            self.assertEqual(self.controls[0].must("CONFIG", "GET", "bind"), [b"bind", b"127.0.0.1"])

    def test_a_port_that_is_taken_changes_nothing(self):
        self.take_a_port()
        reply = self.set_both("port", "TAKEN")
        self.assertIn(b"Unable to listen on this port. Check server logs.", reply)
        self.assertEqual(self.open_both(), ["127.0.0.1"])

    def test_no_port(self):
        self.assertEqual(self.set_both("port", "0"), OK)
        self.assertEqual(self.open_both(), [])
        self.assertEqual(self.set_both("port", "PORT"), OK)
        self.assertEqual(self.open_both(), ["127.0.0.1"])


@kelvin_only
class PortTest(unittest.TestCase):
    def test_the_port_moves_and_connections_stay(self):
        with Server({"io-threads": "4"}) as server:
            clients = [server.client() for _ in range(8)]
            ports = [server.port]
            for client in clients:                      # each worker has two of them
                ports.append(port_free())
                self.assertEqual(client.call("CONFIG", "SET", "port", str(ports[-1])), OK)
                self.assertEqual([is_open("127.0.0.1", port) for port in ports[-2:]], [False, True])
            for client in clients:
                self.assertEqual(client.call("PING"), PONG)
                client.close()

    def test_port_and_bind_at_once(self):
        with Server() as server, server.client() as client:
            port = port_free()
            self.assertEqual(client.call("CONFIG", "SET", "port", str(port), "bind", "127.0.0.2"), OK)
            self.assertFalse(is_open("127.0.0.1", server.port))
            self.assertFalse(is_open("127.0.0.1", port))
            self.assertTrue(is_open("127.0.0.2", port))
            # A later directive is refused: what came before it is undone.
            self.assertIsInstance(client.call("CONFIG", "SET", "port", str(server.port), "bind", "127.0.0.1", "tls-port", "1"), Error)
            self.assertFalse(is_open("127.0.0.1", server.port))
            self.assertTrue(is_open("127.0.0.2", port))

    def test_an_address_in_the_way_listens_again_after_a_failure(self):
        """All addresses are asked for, one of which is this server's already, and another one another program's."""
        with Server() as server, server.client() as client, socket.socket() as other:
            other.bind(("127.0.0.2", server.port))
            other.listen()
            self.assertIsInstance(client.call("CONFIG", "SET", "bind", "0.0.0.0"), Error)
            self.assertTrue(is_open("127.0.0.1", server.port))
            other.close()
            self.assertEqual(client.call("CONFIG", "SET", "bind", "0.0.0.0"), OK)
            self.assertTrue(is_open("127.0.0.2", server.port))


if __name__ == "__main__":
    main()

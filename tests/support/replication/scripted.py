"""A primary whose every byte the test decides. It replies to the handshake; at PSYNC the test takes over:

    primary = ScriptedPrimary()
    link = primary.link()               # a replica has connected and asked
    link.asked                          # (ID, offset) of its PSYNC
    link.full(rdb)                      # or link.full(rdb, framing="length"), link.continues(), link.send(any bytes)
    link.send_commands(["SELECT", 0], ["SET", "k", "v"])
    link.wait_ack()                     # until the replica acknowledged all that was sent
"""
import queue
import socket
import threading

from ..resp import Incomplete, encode
from ..server import REDIS, Server, until
from .recorder import MARK_SIZE

REPLID = b"1234567890abcdef1234567890abcdef12345678"
OTHER_REPLID = b"fedcba0987654321fedcba0987654321fedcba09"


def encode_all(commands):
    return b"".join(map(encode, commands))


class Request:
    """Commands of a replica: arrays of bulk strings, lines, and the newlines between them."""

    def __init__(self):
        self.data = b""

    def feed(self, data):
        self.data += data

    def next(self):
        """The next command; [] for a newline that only says that the replica lives."""
        if b"\n" not in self.data:
            raise Incomplete
        line, rest = self.data.split(b"\n", 1)
        if not line.startswith(b"*"):
            self.data = rest
            return line.split()
        args = []
        for _ in range(int(line[1:])):
            size, rest = self.part(rest)
            if len(rest) < size + 2:
                raise Incomplete
            args.append(rest[:size])
            rest = rest[size + 2:]
        self.data = rest
        return args

    @staticmethod
    def part(rest):
        if b"\n" not in rest:
            raise Incomplete
        line, rest = rest.split(b"\n", 1)
        return int(line[1:]), rest

# No end of it is a beginning of it: the last bytes of an RDB can not be taken for its first ones (b"e" * 40 after a checksum that ended with an "e").
MARK = b"m" + b"e" * (MARK_SIZE - 1)


class Link:
    """A replica's connection after its PSYNC. `sent` is the offset of the bytes that were sent; `ack` the last acknowledged one."""

    def __init__(self, connection, handshake, asked):
        self.connection, self.handshake, self.asked = connection, handshake, asked
        self.id, self.sent, self.ack, self.acks, self.newlines = REPLID, 0, None, [], 0
        self.others, self.is_closed = [], threading.Event()

    # Sending

    def raw(self, data):
        """Bytes that do not count as the stream."""
        self.connection.sendall(data)
        return self

    def send(self, data):
        self.connection.sendall(data)
        self.sent += len(data)
        return self

    def send_commands(self, *commands):
        return self.send(encode_all(commands))

    def refuse(self, line):
        return self.raw(b"-%s\r\n" % line)

    def full_header(self, replid=REPLID, offset=1):
        self.id, self.sent = replid, offset
        return self.raw(b"+FULLRESYNC %s %d\r\n" % (replid, offset))

    def send_rdb(self, rdb, framing="eof", mark=MARK):
        return self.raw(b"$EOF:%s\r\n" % mark + rdb + mark if framing == "eof" else b"$%d\r\n" % len(rdb) + rdb)

    def full(self, rdb, framing="eof", replid=REPLID, offset=1):
        """+FULLRESYNC and the RDB. With "eof" the stream may only follow after wait_ack(). The offset is not 0, which a replica acknowledges while
        it loads."""
        return self.full_header(replid, offset).send_rdb(rdb, framing)

    def continues(self, replid=None):
        """+CONTINUE from where the replica asked."""
        self.sent = self.asked[1] - 1
        if replid is not None:
            self.id = replid
        return self.raw(b"+CONTINUE %s\r\n" % replid if replid is not None else b"+CONTINUE\r\n")

    def cut(self):
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.connection.close()

    # What the replica says

    def take(self, args):
        if not args:
            self.newlines += 1
        elif args[0].upper() == b"REPLCONF" and args[1].lower() == b"ack":
            self.ack = int(args[2])
            self.acks.append(self.ack)
        else:
            self.others.append(args)

    def wait_ack(self, offset=None, timeout=20):
        wanted = self.sent if offset is None else offset
        try:
            until(lambda: self.ack is not None and self.ack >= wanted or self.is_closed.is_set(), timeout, "ack")
        except AssertionError:
            raise AssertionError("no acknowledgement of %d in %d s, the last one is %s" % (wanted, timeout, self.ack)) from None
        if self.ack != wanted:
            raise AssertionError("acknowledged %s of %d%s" % (self.ack, wanted, ", then closed" if self.is_closed.is_set() else ""))
        return self

    def wait_closed(self, timeout=20):
        """Until the replica has closed the connection."""
        until(self.is_closed.is_set, timeout, "the replica closes the connection")
        return self


class ScriptedPrimary:
    """`replies`: other replies than +OK and +PONG to commands of the handshake, by name: {b"PING": b"-NOAUTH no\\r\\n"}; None: silence."""

    def __init__(self, replies=None):
        self.replies, self.links, self.handshakes = replies or {}, queue.Queue(), []
        self.all, self.is_ended = [], False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.port = self.address[1]
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            if self.is_ended:
                connection.close()
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.all.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        requests, handshake, link = Request(), [], None
        self.handshakes.append(handshake)
        try:
            while True:
                try:
                    args = requests.next()
                except Incomplete:
                    data = connection.recv(1 << 16)
                    if not data:
                        break
                    requests.feed(data)
                    continue
                if link:
                    link.take(args)
                elif args:
                    link = self.greet(connection, handshake, args)
        except OSError:
            pass
        if link:
            link.is_closed.set()

    def greet(self, connection, handshake, args):
        """Replies to one command of the handshake; returns the link after a PSYNC."""
        handshake.append(args)
        name = args[0].upper()
        if name == b"PSYNC" and name not in self.replies:
            link = Link(connection, handshake, (args[1], int(args[2])))
            self.links.put(link)
            return link
        reply = self.replies.get(name, b"+PONG\r\n" if name == b"PING" else b"+OK\r\n")
        if reply is not None:
            connection.sendall(reply)
        return None

    def link(self, timeout=20):
        """The next replica that asks with PSYNC."""
        try:
            return self.links.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError("no PSYNC in %d s; handshakes: %r" % (timeout, self.handshakes)) from None

    def close(self):
        """The port stays closed afterwards."""
        self.is_ended = True
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        for connection in self.all:
            connection.close()


def make_rdb(*commands):
    """The bytes of an RDB that redis-server writes after these commands."""
    with Server({"dbfilename": "made.rdb"}, binary=REDIS) as server:
        with server.client() as client:
            for args in commands:
                client.must(*args)
            client.must("SAVE")
        with open("%s/made.rdb" % server.folder, "rb") as file:
            return file.read()

"""A small RESP2/RESP3 client that keeps every reply type distinct.

A status is not a bulk string, and a null array is not a null bulk: a client library that does not distinguish them would hide
differences that the tests check. Replies become:

    +OK        Status(b"OK")          $2 OK   b"OK"            $-1   None
    -ERR x     Error(b"ERR x")        :1      int              *-1   NULL_ARRAY      _  NULL
    *2 ...     list                   %1 ...  Map of pairs     ~2    Set             >2 Push
    ,1.5       Double("1.5")          #t      Bool             =     Verbatim        (  BigNumber
"""
import select
import socket
import time


class Typed(bytes):
    """Bytes of one reply type; equal only to bytes of the same type."""

    def __eq__(self, other):
        return type(self) is type(other) and bytes.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((type(self).__name__, bytes(self)))

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, bytes.__repr__(self))


class Status(Typed):
    pass


class Error(Typed):
    pass


class Double(Typed):
    pass


class Verbatim(Typed):
    pass


class BigNumber(Typed):
    pass


class Bool(Typed):
    pass


class Null:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


class TypedList(list):
    def __eq__(self, other):
        return type(self) is type(other) and list.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    __hash__ = None

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, list.__repr__(self))


class Map(TypedList):
    """A list of (key, value) pairs in the order of the reply."""


class Set(TypedList):
    pass


class Push(TypedList):
    pass


OK = Status(b"OK")
QUEUED = Status(b"QUEUED")
NULL_ARRAY = Null("NULL_ARRAY")
NULL = Null("NULL")


class Incomplete(Exception):
    pass


class ProtocolError(Exception):
    """The server sent data that is not RESP."""


class Closed(ConnectionError):
    """The server closed the connection."""


class Parser:
    """Parses replies. `next()` raises Incomplete until the bytes of a complete reply have been fed."""

    def __init__(self):
        self.buffer = bytearray()
        self.at = 0

    def feed(self, data):
        if self.at > 1 << 16 and self.at * 2 > len(self.buffer):
            del self.buffer[:self.at]
            self.at = 0
        self.buffer += data

    def next(self):
        start = self.at
        try:
            return self._reply()
        except Incomplete:
            self.at = start
            raise

    def _line(self):
        end = self.buffer.find(b"\r\n", self.at)
        if end < 0:
            raise Incomplete
        line = bytes(self.buffer[self.at:end])
        self.at = end + 2
        return line

    def _body(self, size):
        end = self.at + size
        if len(self.buffer) < end + 2:
            raise Incomplete
        body = bytes(self.buffer[self.at:end])
        if self.buffer[end:end + 2] != b"\r\n":
            raise ProtocolError("no CRLF after a bulk of %d bytes: %r" % (size, body[:64]))
        self.at = end + 2
        return body

    def _many(self, count):
        return [self._reply() for _ in range(count)]

    def _reply(self):
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            return None if rest == b"-1" else self._body(int(rest))
        if kind == b":":
            if str(int(rest)).encode() != rest:
                raise ProtocolError("not a plain integer: %r" % line)
            return int(rest)
        if kind == b"+":
            return Status(rest)
        if kind == b"-":
            return Error(rest)
        if kind == b"*":
            return NULL_ARRAY if rest == b"-1" else self._many(int(rest))
        if kind == b"_" and not rest:
            return NULL
        if kind == b"%":
            flat = self._many(2 * int(rest))
            return Map(zip(flat[::2], flat[1::2]))
        if kind == b"~":
            return Set(self._many(int(rest)))
        if kind == b">":
            return Push(self._many(int(rest)))
        if kind == b",":
            return Double(rest)
        if kind == b"#" and rest in (b"t", b"f"):
            return Bool(rest)
        if kind == b"=":
            return Verbatim(self._body(int(rest)))
        if kind == b"(":
            return BigNumber(rest)
        raise ProtocolError("not a reply: %r" % line[:128])


def encode(args):
    """Returns one command as RESP. Strings, numbers and bytes are sent as bulk strings."""
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        if not isinstance(arg, (bytes, bytearray)):
            arg = str(arg).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(arg), arg))
    return b"".join(parts)


def split(line):
    """Split a line of a script as redis-cli does: blanks separate, "..." takes \\n \\r \\t \\xHH, '...' is literal."""
    args, at, size = [], 0, len(line)
    while True:
        while at < size and line[at].isspace():
            at += 1
        if at == size:
            return args
        word = bytearray()
        if line[at] == '"':
            at += 1
            while line[at] != '"':
                if line[at] == "\\" and line[at + 1] == "x":
                    word.append(int(line[at + 2:at + 4], 16))
                    at += 4
                elif line[at] == "\\":
                    word += {"n": "\n", "r": "\r", "t": "\t"}.get(line[at + 1], line[at + 1]).encode()
                    at += 2
                else:
                    word += line[at].encode()
                    at += 1
            at += 1
        elif line[at] == "'":
            end = line.index("'", at + 1)
            word += line[at + 1:end].encode()
            at = end + 1
        else:
            while at < size and not line[at].isspace():
                word += line[at].encode()
                at += 1
        args.append(bytes(word))


def quote(args):
    """The inverse of split()."""
    words = []
    for arg in args:
        if not isinstance(arg, (bytes, bytearray)):
            arg = str(arg).encode()
        if arg and all(33 <= byte < 127 and byte not in b"\"'\\#@" for byte in arg):
            words.append(arg.decode())
        else:
            words.append('"' + "".join(
                "\\" + chr(byte) if byte in b"\"\\" else chr(byte) if 32 <= byte < 127 else "\\x%02x" % byte
                for byte in arg) + '"')
    return " ".join(words)


class Client:
    """One connection. `call` for a command, `pipeline` for many, `send`/`receive` for raw bytes and pushes."""

    def __init__(self, address, timeout=20.0, protocol=2):
        self.timeout = timeout
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.settimeout(timeout)
            self.socket.connect(address)
        else:
            self.socket = socket.create_connection(address, timeout=timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.parser = Parser()
        if protocol == 3:
            self.call("HELLO", 3)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def _fill(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise Closed("the server closed the connection")
        self.parser.feed(data)

    def receive(self):
        """Returns the next reply (or push)."""
        while True:
            try:
                return self.parser.next()
            except Incomplete:
                self._fill()

    def call(self, *args):
        self.socket.sendall(encode(args))
        return self.receive()

    def run(self, line):
        """Runs a command that is written as in redis-cli."""
        return self.call(*split(line))

    def must(self, *args):
        """Like call(), but raises on an error reply."""
        reply = self.call(*args)
        if isinstance(reply, Error):
            raise AssertionError("%s: %s" % (quote(args)[:200], bytes(reply).decode("latin1")))
        return reply

    def exchange(self, data, count):
        """Send bytes to which the server sends `count` replies, reading while writing so that neither side can block."""
        replies, view = [], memoryview(data)
        deadline = time.monotonic() + self.timeout
        self.socket.setblocking(False)
        try:
            while len(replies) < count or view:
                try:
                    while len(replies) < count:
                        replies.append(self.parser.next())
                    if not view:
                        break
                except Incomplete:
                    pass
                readable, writable, _ = select.select(
                    [self.socket], [self.socket] if view else [], [], max(0.0, deadline - time.monotonic()))
                if not readable and not writable:
                    raise socket.timeout("%d of %d replies after %.0f s" % (len(replies), count, self.timeout))
                if readable:
                    self._fill()
                    deadline = time.monotonic() + self.timeout
                if writable:
                    view = view[self.socket.send(view[:1 << 18]):]
        finally:
            self.socket.settimeout(self.timeout)
        return replies

    def pipeline(self, commands):
        commands = list(commands)
        return self.exchange(b"".join(map(encode, commands)), len(commands))

    def raw(self, size, quiet=0.05):
        """Reads at least `size` bytes, unless the server closes the connection or the time is up, and then until nothing arrives
        for `quiet` seconds. Returns (bytes, closed)."""
        data = bytearray(self.parser.buffer[self.parser.at:])
        self.parser = Parser()
        try:
            while True:
                enough = len(data) >= size
                self.socket.settimeout(quiet if enough else self.timeout)
                more = self.socket.recv(1 << 18)
                if not more:
                    return bytes(data), True
                data += more
        except socket.timeout:
            return bytes(data), False
        except ConnectionResetError:
            return bytes(data), True
        finally:
            self.socket.settimeout(self.timeout)

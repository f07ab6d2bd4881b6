"""A replica that keeps every byte: it asks with PSYNC, records the RDB and the stream, acknowledges or is silent, stops reading, leaves and
comes back. What a primary sends must fit its offsets; `check` compares."""
import re
import socket
import threading
import time

from ..resp import Closed, Parser, Incomplete, encode
from ..server import until

ID = re.compile(rb"[0-9a-f]{40}")
MARK_SIZE = 40


class Refused(Exception):
    """The primary replied to PSYNC or REPLCONF with an error."""


def commands_of(data):
    """The complete commands in bytes of a stream, and the number of bytes they take. Newlines between commands are not allowed."""
    parser, found = Parser(), []
    parser.feed(data)
    while parser.at < len(data):
        try:
            args = parser.next()
        except Incomplete:
            break
        if not isinstance(args, list) or not args or not all(type(arg) is bytes for arg in args):
            raise AssertionError("no command in the stream: %r" % (args,))
        found.append(args)
    return found, parser.at


class Recorder:
    """`rdb` and `stream` are what was received; the stream begins after `start`, the offset of +FULLRESYNC or the first +CONTINUE.
    `ack_s`: the pause between acknowledgements; None: silent (also after the RDB, so a diskless primary sends no stream)."""

    def __init__(self, address, capa=("eof", "psync2"), ack_s=0.1, before=(), port=None):
        self.address, self.capa, self.ack_s, self.before, self.port = address, capa, ack_s, before, port
        self.id, self.start = b"?", None
        self.rdb, self.stream, self.newlines, self.framing = b"", bytearray(), 0, None
        self.socket, self.thread, self.failure = None, None, None
        self.is_loaded, self.reads, self.ending = threading.Event(), threading.Event(), threading.Event()
        self.reads.set()
        self.rest = b""

    @property
    def offset(self):
        return None if self.start is None else self.start + len(self.stream)

    # Connecting

    def read_line(self):
        """One line, without the newlines that keep the connection alive before it."""
        while True:
            at = self.rest.find(b"\n")
            if at < 0:
                data = self.socket.recv(1 << 16)
                if not data:
                    raise Closed("the primary closed the connection; before: %r" % self.rest[-100:])
                self.rest += data
                continue
            line, self.rest = self.rest[:at].rstrip(b"\r"), self.rest[at + 1:]
            if line:
                return line
            self.newlines += 1

    def ask(self, *args):
        self.socket.sendall(encode(args))
        reply = self.read_line()
        if reply.startswith(b"-"):
            raise Refused(reply.decode("latin1"))
        return reply

    def connect(self, timeout=30):
        """The handshake up to PSYNC."""
        self.socket, self.rest = socket.create_connection(self.address, timeout=timeout), b""
        self.ask("PING")
        for command in self.before:
            self.ask(*command)
        self.ask("REPLCONF", "listening-port", self.port or self.socket.getsockname()[1])
        self.ask("REPLCONF", *[word for name in self.capa for word in ("capa", name)]) if self.capa else None
        return self

    def psync(self, replid=b"?", offset=-1):
        """Sends PSYNC, reads the reply. Returns b"FULLRESYNC" or b"CONTINUE"; of another ID than expected `id` changes."""
        words = self.ask("PSYNC", replid, offset).split()
        if words[0] == b"+FULLRESYNC":
            if not ID.fullmatch(words[1]):
                raise AssertionError("the ID of %r" % (words,))
            self.id, self.start, self.stream = words[1], int(words[2]), bytearray()
            self.is_loaded.clear()
        elif words[0] == b"+CONTINUE":
            self.id = words[1] if len(words) > 1 else self.id
            if self.start is None:
                self.start = offset - 1
            self.is_loaded.set()
        else:
            raise AssertionError("the reply to PSYNC: %r" % (words,))
        return words[0][1:]

    def full(self):
        """Connects for a full synchronization, and records from then on."""
        found = self.connect().psync()
        if found != b"FULLRESYNC":
            raise AssertionError("the reply to PSYNC ? -1 is %r" % found)
        return self.record()

    def resume(self):
        """Connects again and asks for what follows the recorded bytes. Returns True if the primary continues; else a full one begins."""
        self.failure = None                 # the primary may have ended the last connection before cut() did
        continued = self.connect().psync(self.id, self.offset + 1) == b"CONTINUE"
        self.record()
        return continued

    # Recording

    def record(self):
        self.ending.clear()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        if self.ack_s is not None:
            threading.Thread(target=self.acknowledge, args=(self.socket,), daemon=True).start()
        return self

    def run(self):
        try:
            if not self.is_loaded.is_set():
                self.read_rdb()
            self.stream += self.rest
            while not self.ending.is_set():
                self.reads.wait()
                data = self.socket.recv(1 << 16)
                if not data:
                    raise Closed("the primary closed the connection")
                self.stream += data
        except (OSError, AssertionError) as error:
            if not self.ending.is_set():
                self.failure = error

    def read_rdb(self):
        header = self.read_line()
        if not header.startswith(b"$"):
            raise AssertionError("the header of the RDB: %r" % header)
        self.framing = "eof" if header.startswith(b"$EOF:") else "length"
        data, self.rest = bytearray(self.rest), b""
        mark = header[5:] if self.framing == "eof" else None
        size = None if mark else int(header[1:])
        if mark is not None and len(mark) != MARK_SIZE:
            raise AssertionError("the mark of %r" % header)
        while data[-MARK_SIZE:] != mark if mark else len(data) < size:
            self.reads.wait()
            more = self.socket.recv(1 << 16)
            if not more:
                raise Closed("the primary closed the connection in the RDB, at %d" % len(data))
            # A replica looks for the mark where its reading ends: the stream may follow only after its first acknowledgement.
            if mark and mark in data[-MARK_SIZE:] + more and not (data + more).endswith(mark):
                raise AssertionError("%d bytes follow the mark before the first acknowledgement" % (len(more)))
            data += more
        self.rdb = bytes(data[:-MARK_SIZE] if mark else data[:size])
        self.rest = b"" if mark else bytes(data[size:])
        self.is_loaded.set()
        if mark and self.ack_s is not None:
            self.ack()

    def ack(self, offset=None):
        self.socket.sendall(encode(["REPLCONF", "ACK", self.offset if offset is None else offset]))

    def acknowledge(self, connection):
        """Until the connection of this time ends."""
        while not self.ending.wait(self.ack_s) and self.socket is connection:
            try:
                if self.is_loaded.is_set():
                    self.ack()
                else:
                    connection.sendall(b"\n")
            except OSError:
                return

    def stop_reading(self):
        self.reads.clear()

    def read_on(self):
        self.reads.set()

    def cut(self):
        """Closes the connection. What was received stays; resume() continues."""
        self.ending.set()
        self.reads.set()
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.thread.join(20)
        self.socket.close()

    close = cut

    # Looking

    def wait_loaded(self, timeout=30):
        until(lambda: self.is_loaded.is_set() or self.failure, timeout, "the RDB")
        self.check()
        return self

    def wait_offset(self, offset, timeout=30):
        try:
            until(lambda: self.offset >= offset or self.failure, timeout, "offset %d" % offset)
        except AssertionError as error:
            raise AssertionError("%s; the recorder is at %d" % (error, self.offset)) from None
        self.check()
        return self

    def check(self):
        if self.failure:
            raise AssertionError("the recording replica: %s: %s" % (type(self.failure).__name__, self.failure))

    def commands(self):
        """All complete commands of the stream so far."""
        return commands_of(bytes(self.stream))[0]

    def level(self, server, timeout=10):
        """Waits until the server's offset is that of the bytes received; fails if they are too many or too few. No client may write."""
        deadline = time.monotonic() + timeout
        while True:
            wanted, had = int(server.info("replication")["master_repl_offset"]), self.offset
            self.check()
            if wanted == had == int(server.info("replication")["master_repl_offset"]):
                break
            if time.monotonic() > deadline:
                raise AssertionError("master_repl_offset is %d, the bytes received end at %d" % (wanted, had))
            time.sleep(0.02)
        return self

    def settled(self, server, timeout=10):
        """level(), and the stream, which began with a command, ends with a complete one. Returns the bytes; more may come, as keys expire."""
        deadline = time.monotonic() + timeout
        while True:
            self.level(server, timeout)
            data = bytes(self.stream)
            done = commands_of(data)[1]
            if done == len(data):
                return data
            if time.monotonic() > deadline:
                raise AssertionError("the stream ends within a command: %r" % data[done:done + 100])

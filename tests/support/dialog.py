"""Scripts with named clients, compared line by line on the server under test and on redis-server.

    class WatchTest(DialogCase):
        def test_a_change_fails_exec(self):
            self.dialog('''
                a WATCH k
                b SET k 1
                a MULTI
                a GET k
                a EXEC
            ''')

A line is a client's name and a command. Every reply is compared, and so is everything that arrives without being asked for: pushes, more
replies, the end of a connection. The parser keeps all types apart, so equal replies are equal bytes, except for what compare.py allows
for a command; the elements of an EXEC are compared by the commands that were queued. Before the command may be one of these marks:

    ~           only the type of the reply is compared, and errors
    !           the command is sent, and no reply is expected (it waits)
    @fields     not a command: `a @fields b flags multi` compares these fields of client b in a CLIENT LIST of client a
    @waiting    waits until this number of clients is blocked
    @closed     the connection is closed on both servers
    @sleep      waits for this number of milliseconds

The script may be a list of argument lists as well, for arguments with quotes or line breaks.
"""
import os
import re
import select
import time

from . import compare
from .case import PairCase, shown
from .resp import Closed, Error, Incomplete, Push, QUEUED, encode, quote, split
from .scripts import blocked
from .server import is_redis, until

CLOSED = "closed"
DATABASES = int(os.environ.get("DIALOG_DATABASES") or 3)     # those whose keys are demoted


class Speaker:
    """One named client on both servers."""

    def __init__(self, ours, theirs):
        self.ours, self.theirs = ours, theirs
        self.queue = None           # the commands since MULTI, or None
        self.pending = []           # commands whose replies have not arrived yet

    def note(self, mark, args, reply):
        """Keeps the list of queued commands, from the oracle's reply. Returns what the reply is compared by."""
        name = args[0].lower() if args else b""
        queue = self.queue
        if reply == QUEUED and queue is not None:
            queue.append((mark, args))
            return None
        if name == b"multi" and not isinstance(reply, Error):
            self.queue = []
        elif name in (b"exec", b"discard", b"reset", b"quit"):
            self.queue = None
        return queue if name == b"exec" else None


def next_reply(client):
    try:
        return client.receive()
    except Closed:
        return CLOSED
    except ConnectionResetError:
        return CLOSED


def rest_of(clients, quiet):
    """Returns for each of the clients what else has arrived, parsed, as soon as nothing has come to any of them for `quiet` seconds."""
    replies = [[] for _ in clients]
    is_open = [True for _ in clients]
    while True:
        for client, received in zip(clients, replies):
            try:
                while True:
                    received.append(client.parser.next())
            except Incomplete:
                pass
        ready = select.select([client.socket for client, still in zip(clients, is_open) if still], [], [], quiet)[0]
        if not ready:
            return replies
        for index, client in enumerate(clients):
            if is_open[index] and client.socket in ready:
                try:
                    client._fill()
                except (Closed, ConnectionResetError):
                    is_open[index] = False
                    replies[index].append(CLOSED)


class DialogCase(PairCase):
    demote = False      # whether all keys are made cold before each command

    def make_cold(self):
        for database in range(DATABASES):
            self.watcher.must("SELECT", database)
            keys = self.watcher.must("KEYS", "*")
            if keys:
                self.watcher.must("TIER", "DEMOTE", *keys)

    def setUp(self):
        super().setUp()
        self.watcher = self.server.client()
        self.addCleanup(self.watcher.close)

    def alike(self, mark, args, ours, theirs, queue):
        if mark == "~":
            return compare.kind(ours, theirs, args)
        if isinstance(queue, list) and isinstance(theirs, list) and isinstance(ours, list):
            return type(ours) is type(theirs) and len(ours) == len(theirs) and all(
                (compare.kind if kind == "~" else compare.same)(one, other, queued) for one, other, (kind, queued) in zip(ours, theirs, queue))
        return compare.same(ours, theirs, args)

    def dialog(self, script, protocol=2, quiet=0.0):
        """Returns the replies of the server under test. `quiet`: how long to wait after each line for what no command asked for."""
        self.speakers, self.log, self.protocol = {}, [], protocol
        replies = [self.say(name, mark, args, quiet) for name, mark, args in lines_of(script)]
        extra = self.extra(0.03)
        if any(ours != theirs for ours, theirs in extra.values()):
            extra = {name: tuple(one if one[-1:] == [CLOSED] else one + other for one, other in zip(extra[name], more))
                     for name, more in self.extra(0.5).items()}
        for name, (ours, theirs) in extra.items():
            self.check(ours == theirs, "%s: at the end, also received" % name, ours, theirs)
            self.speakers[name].ours.close()
            self.speakers[name].theirs.close()
        return replies

    def extra(self, quiet):
        """Returns by name what else the clients of both servers have received."""
        both = rest_of([client for speaker in self.speakers.values() for client in (speaker.ours, speaker.theirs)], quiet)
        return dict(zip(self.speakers, zip(both[::2], both[1::2])))

    def both_protocols(self, script):
        for protocol in (2, 3):
            with self.subTest(protocol=protocol):
                self.c.must("FLUSHALL")
                self.r.must("FLUSHALL")
                self.dialog(script, protocol)

    def check(self, fine, line, ours, theirs):
        if not fine:
            alive = "" if self.server.alive() else "\nthe server under test crashed; its log:\n" + self.server.log_tail()
            self.fail("%s\n    ours     %s\n    redis    %s\nafter\n%s%s" % (line, shown(ours), shown(theirs), "\n".join(self.log[-25:]), alive))

    def speaker(self, name):
        if name not in self.speakers:
            ours, theirs = self.clients(protocol=self.protocol)
            self.speakers[name] = Speaker(ours, theirs)
        return self.speakers[name]

    def say(self, name, mark, args, quiet):
        speaker = self.speaker(name)
        if mark.startswith("@"):
            return getattr(self, "do_" + mark[1:])(speaker, args)
        if self.demote and not is_redis():
            self.make_cold()
        line = "%s %s" % (name, quote(args))
        for client in (speaker.theirs, speaker.ours):
            client.send(encode(args))
        if mark == "!":
            speaker.pending.append(args)
            self.log.append("    %s -> waits" % line[:300])
            return None
        speaker.pending.append(args)
        ours = theirs = None
        for pending in speaker.pending:
            theirs, ours = next_reply(speaker.theirs), self.ours_next(speaker, line)
            queue = speaker.note(mark, pending, theirs)
            self.check(self.alike(mark, pending, ours, theirs, queue), line[:600], ours, theirs)
        speaker.pending = []
        self.log.append("    %s -> %s" % (line[:300], shown(ours)[:200]))
        if quiet:
            for who, (ours_too, theirs_too) in self.extra(quiet).items():
                self.check(ours_too == theirs_too, "%s; then %s received" % (line[:300], who), ours_too, theirs_too)
        return ours

    def ours_next(self, speaker, line):
        try:
            return next_reply(speaker.ours)
        except OSError as error:
            self.check(False, line[:600], "%s: %s" % (type(error).__name__, error), "(a reply)")

    # What is not a command

    def do_fields(self, speaker, args):
        found = []
        other = self.speakers[args[0].decode()]
        for asker, asked in ((speaker.ours, other.ours), (speaker.theirs, other.theirs)):
            address = "%s:%d" % asked.socket.getsockname()
            lines = [line for line in asker.must("CLIENT", "LIST").decode().split("\n") if " addr=%s " % address in line]
            facts = dict(re.findall(r"([a-z-]+)=(\S*)", lines[0])) if lines else {}
            found.append([facts.get(word.decode()) for word in args[1:]])
        self.check(found[0] == found[1], "CLIENT LIST of %s: %s" % (args[0].decode(), quote(args[1:])), found[0], found[1])
        self.log.append("    %s has %s" % (args[0].decode(), found[0]))
        return found[0]

    def do_waiting(self, speaker, args):
        for client in (self.r, self.c):
            until(lambda: blocked(client) == int(args[0]), what="%s clients wait" % args[0].decode())

    def do_closed(self, speaker, args):
        ends = [next_reply(client) for client in (speaker.ours, speaker.theirs)]
        self.check(ends == [CLOSED, CLOSED], "the connection is closed", *ends)

    def do_receive(self, speaker, args):
        """Receives a reply or push that another client's command caused."""
        theirs, ours = next_reply(speaker.theirs), next_reply(speaker.ours)
        pending = speaker.pending.pop(0) if speaker.pending and not isinstance(theirs, Push) else []
        self.check(compare.same(ours, theirs, pending), "received", ours, theirs)
        self.log.append("    received %s" % shown(ours))
        return ours

    def do_sleep(self, speaker, args):
        time.sleep(int(args[0]) / 1000)


def lines_of(script):
    """Yields (client, mark, arguments)."""
    if isinstance(script, str):
        script = [line.strip() for line in script.splitlines() if line.strip() and not line.strip().startswith("#")]
    for line in script:
        if isinstance(line, str):
            name, _, rest = line.partition(" ")
            words = split(rest)
        else:
            name, words = line[0], [each if isinstance(each, bytes) else str(each).encode() for each in line[1:]]
        mark = ""
        if words and words[0] in (b"~", b"!"):
            mark, words = words[0].decode(), words[1:]
        elif words and words[0].startswith(b"@"):
            mark, words = words[0].decode(), words[1:]
        yield name, mark, words


__all__ = ["DialogCase"]

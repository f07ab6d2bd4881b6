"""Run the same commands on two servers, compare every reply and periodically the whole data set, and shrink failing sequences.

A sequence is a list of argument lists; besides commands it may contain [b"@roundtrip", source, target, ms, ...] (DUMP and
RESTORE within each server), [b"@pop", key, count...] (a SPOP on ours, and the same members removed from the oracle's set),
[b"@sort", ...] (a SORT, except of sorted sets), [b"@setid", key, ID, ...] (an XSETID, except below a deleted ID) and
[b"@demote", key] (TIER DEMOTE on ours only, in the selected database).
"""
import os
import tempfile
import time

from . import compare
from .resp import Closed, Error, NULL_ARRAY, ProtocolError, Set, quote, split

BATCH = 40
DATABASES = 4


# Commands that are run separately, not in a batch.
ALONE = {b"@roundtrip": "_roundtrip", b"@pop": "_pop", b"@sort": "_sort", b"@setid": "_setid"}


BELOW_DELETED = Error(b"ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")


class Difference(Exception):
    def __init__(self, command, ours, theirs, done, what="replies differ"):
        super().__init__(what)
        self.what, self.command, self.ours, self.theirs, self.done = what, command, ours, theirs, done

    def __str__(self):
        def cut(value):
            text = repr(value)
            return text if len(text) < 1500 else text[:1500] + "..."
        return "%s\n    command  %s\n    ours     %s\n    redis    %s" % (
            self.what, quote(self.command)[:1500], cut(self.ours), cut(self.theirs))


class Runner:
    """`ours` and `oracle` are Servers. `tick` is called between batches with the number of commands done."""

    alone = ALONE

    def __init__(self, ours, oracle, tick=None, deep_every=400, protocol=2):
        self.ours, self.oracle = ours, oracle
        self.tick = tick
        self.deep_every = deep_every
        self.protocol = protocol
        self.demoted = 0
        self.a = self.b = None

    def connect(self):
        self.disconnect()
        if not self.ours.alive():
            self.ours.start()
        self.a, self.b = (server.client(protocol=self.protocol) for server in (self.ours, self.oracle))

    def disconnect(self):
        for client in (self.a, self.b):
            if client:
                client.close()

    def start_empty(self):
        self.connect()
        self.a.must("FLUSHALL")
        self.b.must("FLUSHALL")

    def run(self, sequence, deep_every=None):
        """Raises Difference at the first difference. The servers start empty."""
        self.start_empty()
        deep_every = deep_every or self.deep_every
        done, deep_at = 0, deep_every
        while done < len(sequence):
            batch = sequence[done:done + BATCH]
            if batch[0][0] in self.alone:
                batch = batch[:1]
                getattr(self, self.alone[batch[0][0]])(batch[0], done)
            else:
                for index, args in enumerate(batch):
                    if args[0] in self.alone:
                        batch = batch[:index]
                        break
                self._batch(batch, done)
            done += len(batch)
            if self.tick:
                self.tick(done)
            if done >= deep_at or done == len(sequence):
                self.compare_all(done)
                deep_at = done + deep_every
        return done

    def _replies(self, client, batch, done, ours):
        try:
            return client.pipeline(batch)
        except (Closed, OSError, ProtocolError) as error:
            if not ours:
                raise
            raise Difference(batch[-1], error, "(a reply)", done + len(batch),
                             "no valid reply from the server under test in a batch that ends with") from None

    def _batch(self, batch, done):
        theirs = iter(self._replies(self.b, [args for args in batch if args[0] != b"@demote"], done, False))
        ours = self._replies(self.a, [[b"TIER", b"DEMOTE", args[1]] if args[0] == b"@demote" else args for args in batch],
                             done, True)
        for index, (args, reply) in enumerate(zip(batch, ours)):
            if args[0] == b"@demote":
                if type(reply) is not int:
                    raise Difference([b"TIER", b"DEMOTE", args[1]], reply, "(an integer)", done + index + 1)
                self.demoted += reply
                continue
            expected = next(theirs)
            if not compare.same(reply, expected, args):
                raise Difference(args, reply, expected, done + index + 1)

    def _roundtrip(self, args, done):
        _, source, target, ttl, *words = args
        payloads = self._replies(self.a, [[b"DUMP", source]], done, True) + self.b.pipeline([[b"DUMP", source]])
        if type(payloads[0]) is not type(payloads[1]):
            raise Difference([b"DUMP", source], payloads[0], payloads[1], done + 1)
        if type(payloads[0]) is not bytes:
            return
        replies = self._replies(self.a, [[b"RESTORE", target, ttl, payloads[0]] + words], done, True) + \
            self.b.pipeline([[b"RESTORE", target, ttl, payloads[1]] + words])
        if replies[0] != replies[1]:
            raise Difference([b"RESTORE", target, ttl, payloads[0]] + words, replies[0], replies[1], done + 1)

    def _sort(self, args, done):
        """Redis converts a sorted set to a skiplist when SORT reads it; Kelvin does not. So these are tested in sort_test.py."""
        command = args[1:]
        if len(command) > 1 and bytes(self.b.call(b"TYPE", command[1])) == b"zset":
            return
        reply, = self._replies(self.a, [command], done, True)
        expected = self.b.call(*command)
        if not compare.same(reply, expected, command):
            raise Difference(command, reply, expected, done + 1)

    def _setid(self, args, done):
        """Redis 7.0 allows a last ID below that of a deleted entry; 7.2 and Kelvin do not."""
        command = [b"XSETID"] + args[1:]
        reply, = self._replies(self.a, [command], done, True)
        if reply == BELOW_DELETED and len(args) > 2 and bytes(self.b.call(b"TYPE", args[1])) == b"stream":
            return
        expected = self.b.call(*command)
        if not compare.same(reply, expected, command):
            raise Difference(command, reply, expected, done + 1)

    def _pop(self, args, done):
        """SPOP removes random members, so the same ones are removed from the oracle's set; everything else about the reply is checked."""
        command = [b"SPOP"] + args[1:]
        reply, = self._replies(self.a, [command], done, True)
        members = reply if isinstance(reply, list) else [reply]
        if not isinstance(reply, (bytes, list)) or isinstance(reply, Error) or not members:
            expected = self.b.call(*command)
            if reply != expected or type(reply) is not type(expected):
                raise Difference(command, reply, expected, done + 1)
            return
        size, removed = self.b.pipeline([[b"SCARD", args[1]], [b"SREM", args[1]] + members])
        wanted = min(int(args[2]), size) if len(args) > 2 else 1
        if type(reply) is not (bytes if len(args) == 2 else Set if self.protocol == 3 else list):
            raise Difference(command, reply, "(another type)", done + 1)
        if len(members) != wanted or removed != wanted:
            raise Difference(command, reply, "%d of these %d members existed" % (removed, size), done + 1)

    # The whole data set

    def compare_all(self, done=0, encodings=True):
        """DBSIZE, KEYS, a full SCAN, and type, encoding, expiry and value of every key, in every database that is used.
        Encodings may differ after a restart: 3.0, which INCRBYFLOAT made 3, is an integer after replay."""
        now = [client.must("CLIENT", "INFO").split(b" db=")[1].split()[0] for client in (self.a, self.b)]
        if now[0] != now[1]:
            raise Difference([b"CLIENT", b"INFO"], now[0], now[1], done, "the selected databases differ")
        for database in range(DATABASES):
            select = [[b"SELECT", b"%d" % database]]
            states = [self._keys(client, select) for client in (self.a, self.b)]
            for _ in range(50):         # DBSIZE counts expired keys until they are deleted
                if states[0][0] == states[1][0] or states[0][1] != states[1][1]:
                    break
                time.sleep(0.1)
                states = [self._keys(client, select) for client in (self.a, self.b)]
            self._same_keys(states, database, done)
            keys = states[0][1]
            self._same_values(select, keys, database, done, encodings)
        self.a.must("SELECT", now[0])
        self.b.must("SELECT", now[1])

    @staticmethod
    def _keys(client, select):
        _, size, keys = client.pipeline(select + [[b"DBSIZE"], [b"KEYS", b"*"]])
        scanned, cursor = [], b"0"
        while True:
            reply = client.must("SCAN", cursor, "COUNT", 7)
            scanned += reply[1]
            cursor = reply[0]
            if cursor == b"0":
                return size, sorted(keys), sorted(set(scanned))

    @staticmethod
    def _same_keys(states, database, done):
        (size, keys, scanned), (their_size, their_keys, _) = states
        in_db = "in database %d: " % database
        if keys != their_keys:
            raise Difference([b"KEYS", b"*"], keys, their_keys, done, in_db + "KEYS differ")
        if size != their_size:
            raise Difference([b"DBSIZE"], size, their_size, done, in_db + "DBSIZE differs")
        if scanned != keys:
            raise Difference([b"SCAN", b"0"], scanned, keys, done, in_db + "a full SCAN (ours) is not KEYS (redis)")

    def _same_values(self, select, keys, database, done, encodings):
        queries = [[name, key] for key in keys for name in (b"TYPE", b"PEXPIRETIME")] + \
                [[b"OBJECT", b"ENCODING", key] for key in keys if encodings]
        ours, theirs = (client.pipeline(queries) for client in (self.a, self.b))
        types = {}
        for args, reply, expected in zip(queries, ours, theirs):
            if args[0] == b"TYPE":
                types[args[1]] = bytes(expected)
            if not compare.same(reply, expected, args):
                raise Difference(args, reply, expected, done, "in database %d: state differs" % database)
        reads = [READ[types[key]](key) for key in keys if types[key] in READ]
        for args, reply, expected in zip(reads, self.a.pipeline(reads), self.b.pipeline(reads)):
            if not compare.same(reply, expected, args):
                raise Difference(args, reply, expected, done, "in database %d: values differ" % database)


READ = {
    b"string": lambda key: [b"GET", key],
    b"hash": lambda key: [b"HGETALL", key],
    b"list": lambda key: [b"LRANGE", key, b"0", b"-1"],
    b"set": lambda key: [b"SMEMBERS", key],
    b"zset": lambda key: [b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
    b"stream": lambda key: [b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"],
}


def minimise(fails, sequence, seconds=60):
    """Delta debugging: returns the shortest failing sequence that is found in the given time."""
    deadline = time.monotonic() + seconds
    parts = 2
    while len(sequence) >= 2:
        size = max(1, -(-len(sequence) // parts))
        for start in range(0, len(sequence), size):
            if time.monotonic() > deadline:
                return sequence
            shorter = sequence[:start] + sequence[start + size:]
            if fails(shorter):
                sequence, parts = shorter, max(parts - 1, 2)
                break
        else:
            if size == 1:
                return sequence
            parts = min(parts * 2, len(sequence))
    return sequence


def explain(runner, sequence, first, seed, seconds=60):
    """Returns the report of a failure: the difference, and the shortest script that reproduces it."""
    def fails(shorter):
        try:
            runner.run(shorter, deep_every=len(shorter) + 1)
        except Difference as difference:
            # Another difference is another bug, and must not replace this one.
            if difference.what != first.what or difference.command[0].lower() != first.command[0].lower():
                return False
            last[0] = difference
            return True
        except (Closed, OSError, AssertionError, IndexError, ValueError):     # also a command that was cut in the middle
            return not runner.ours.alive()
        return False

    last = [first]
    sequence = sequence[:first.done]
    shortest = sequence[-300:] if len(sequence) > 300 and fails(sequence[-300:]) else sequence
    if fails(shortest):
        shortest = shrink_arguments(fails, minimise(fails, shortest, seconds))
        fails(shortest)
        note = "%d of %d commands are enough" % (len(shortest), len(sequence))
    else:
        note = "it could not be reproduced; the last commands before the failure"
        shortest = shortest[-40:]
    path = os.path.join(tempfile.gettempdir(), "kelvin-failure-%s.txt" % seed)
    with open(path, "w") as file:
        file.write(to_script(shortest) + "\n")
    tail = ""
    if not runner.ours.alive():
        tail = "\nthe server under test crashed; its log:\n" + runner.ours.log_tail()
    return "%s\n\nseed %s; %s (tests/spec/differential_test.py --replay %s):\n%s\n\n%s%s" % (
        first, seed, note, path, "\n".join(line if len(line) < 400 else line[:400] + "..."
                                           for line in to_script(shortest).split("\n")), last[0], tail)


def shrink_arguments(fails, sequence):
    """Shorten long arguments if the sequence still fails."""
    for index, args in enumerate(sequence):
        for position, arg in enumerate(args):
            if len(arg) > 20:
                shorter = sequence[:index] + [args[:position] + [arg[:8]] + args[position + 1:]] + sequence[index + 1:]
                if fails(shorter):
                    sequence, args = shorter, shorter[index]
    return sequence


def to_script(sequence):
    return "\n".join((args[0].decode() + " " + quote(args[1:])) if args[0].startswith(b"@") else quote(args)
                     for args in sequence)


def from_script(text):
    return [split(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]


__all__ = ["Runner", "Difference", "explain", "minimise", "to_script", "from_script", "Error", "NULL_ARRAY"]

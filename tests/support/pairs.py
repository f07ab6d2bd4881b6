"""Pairs of keys that transactions and scripts change together: a reader that sees them differ has seen a part of one.

A pair is a:N and b:N, both strings, hashes or lists, by N. `Changer` changes random pairs in all the ways there are, `Looker` reads them.
"""
import random
import threading

from .resp import Error, NULL, NULL_ARRAY

PAIRS = 18
PADDING = b"x" * 400        # so that a hash or a list is worth demoting


def kind(number):
    return ("string", "hash", "list")[number % 3]


def add(number, key):
    """The command that adds 1 to one side."""
    return {"string": [b"INCR", key], "hash": [b"HINCRBY", key, b"count", b"1"], "list": [b"RPUSH", key, PADDING]}[kind(number)]


def count(number, key):
    """The command that reads one side."""
    return {"string": [b"GET", key], "hash": [b"HGET", key, b"count"], "list": [b"LLEN", key]}[kind(number)]


def sides(number):
    return b"a:%d" % number, b"b:%d" % number


def value(reply):
    return 0 if reply in (None, NULL) or isinstance(reply, type(NULL)) else int(reply)


ADD = ("local function add(key, kind) if kind == 'string' then return redis.call('INCR', key) elseif kind == 'hash' then return redis.call('HINCRBY', key, 'count', 1) "
       "else return redis.call('RPUSH', key, string.rep('x', 400)) end end; ")
COUNT = ("local function count(key, kind) if kind == 'string' then return redis.call('GET', key) or '0' elseif kind == 'hash' then return redis.call('HGET', key, 'count') or '0' "
         "else return tostring(redis.call('LLEN', key)) end end; ")
DECLARED = ADD + "add(KEYS[1], ARGV[1]); add(KEYS[2], ARGV[1]); return 1"
ONE = ADD + "return add(KEYS[1], ARGV[1])"
COMPUTED = ADD + "add('a:' .. ARGV[2], ARGV[1]); add('b:' .. ARGV[2], ARGV[1]); return 1"
# A loop between the two, so that the other workers have time to look.
SLOW = ADD + "add('b:' .. ARGV[2], ARGV[1]); local x = 0; for i = 1, 20000 do x = x + i end; add('a:' .. ARGV[2], ARGV[1]); return 1"
FAILS = ADD + "add(KEYS[1], ARGV[1]); add(KEYS[2], ARGV[1]); redis.call('NOSUCH')"
LOOK = COUNT + "return {count('a:' .. ARGV[2], ARGV[1]), count('b:' .. ARGV[2], ARGV[1])}"
LIBRARY = "#!lua name=pairs\nredis.register_function('add_pair', function(keys, args) %sadd(keys[1], args[1]); add('b:' .. args[2], args[1]); return 1 end)" % ADD


class Client(threading.Thread):
    def __init__(self, server, seed):
        super().__init__(daemon=True)
        self.server, self.random, self.halt = server, random.Random(seed), threading.Event()
        self.wrong = None
        self.done = 0
        self.may_end = False        # whether the server is going to be killed

    def run(self):
        try:
            with self.server.client(timeout=60) as client:
                while not self.halt.is_set() and not self.wrong:
                    self.once(client)
                    self.done += 1
        except OSError as error:
            if not self.halt.is_set() and not self.may_end:
                self.wrong = "%s: %s" % (type(error).__name__, error)

    def stop(self):
        self.halt.set()
        self.join(60)
        if self.is_alive():
            self.wrong = self.wrong or "it still waits for a reply"


class Changer(Client):
    """`sent` and `acknowledged` count the changes of each pair; `ways` limits how."""

    def __init__(self, server, seed, ways=None):
        super().__init__(server, seed)
        self.ways = ways or ("exec", "declared", "computed", "slow", "function", "fails", "exec of scripts")
        self.sent, self.acknowledged = [0] * PAIRS, [0] * PAIRS

    def once(self, client):
        number = self.random.randrange(PAIRS)
        a, b = sides(number)
        words = [kind(number).encode(), b"%d" % number]
        way = self.random.choice(self.ways)
        self.sent[number] += 1
        if way == "exec":
            reply = client.pipeline([[b"MULTI"], add(number, a), add(number, b), [b"EXEC"]])[-1]
        elif way == "exec of scripts":
            reply = client.pipeline([[b"MULTI"], [b"EVAL", ONE, b"1", a] + words, add(number, b), [b"EXEC"]])[-1]
        elif way == "function":
            reply = client.call(b"FCALL", b"add_pair", b"1", a, *words)
        else:
            script = {"declared": DECLARED, "computed": COMPUTED, "slow": SLOW, "fails": FAILS}[way]
            keys = [b"2", a, b] if way in ("declared", "fails") else [b"0"]
            reply = client.call(b"EVAL", script, *keys, *words)
        if isinstance(reply, Error) and way != "fails" or reply is None or reply is NULL_ARRAY:
            self.wrong = "%s of pair %d: %r" % (way, number, reply)
            return
        self.acknowledged[number] += 1


class Looker(Client):
    def once(self, client):
        number = self.random.randrange(PAIRS)
        a, b = sides(number)
        way = self.random.choice(("exec", "script") + (("mget",) if kind(number) == "string" else ()))
        if way == "mget":
            found = client.call(b"MGET", a, b)
        elif way == "exec":
            found = client.pipeline([[b"MULTI"], count(number, a), count(number, b), [b"EXEC"]])[-1]
        else:
            found = client.call(b"EVAL", LOOK, b"0", kind(number).encode(), b"%d" % number)
        if not isinstance(found, list) or isinstance(found[0], Error) or value(found[0]) != value(found[1]):
            self.wrong = "%s of pair %d: %r" % (way, number, found)


def prepare(server):
    with server.client() as client:
        client.must("FUNCTION", "LOAD", "REPLACE", LIBRARY)
        client.pipeline([[b"HSET", side, b"padding", PADDING] for number in range(PAIRS) if kind(number) == "hash" for side in sides(number)])


def totals(server):
    """The values of all pairs; raises if the sides of one differ."""
    with server.client(timeout=60) as client:
        found = []
        for number in range(PAIRS):
            a, b = [value(client.must(*count(number, side))) for side in sides(number)]
            if a != b:
                raise AssertionError("pair %d (%s): %d and %d" % (number, kind(number), a, b))
            found.append(a)
        return found


NAMES = [side for number in range(PAIRS) for side in sides(number)]

__all__ = ["Changer", "Looker", "prepare", "totals", "NAMES", "PAIRS"]

"""Writers that record which commands were acknowledged, and a check of the data of a server after it was killed.

Each writer has its own keys and sends numbered commands over one connection, several at a time. The server executes them
in order, so after a crash the writer's keys must be in the state after some prefix of its commands, and this prefix must
contain every command that was acknowledged.
"""
import random
import threading
import time

from .resp import Client, Error, Incomplete, encode, quote

BIG_FIELDS = 600        # too large for a listpack
LIFETIMES = [b"%d" % (700 * 4 ** index) for index in range(7)]          # seconds: records of keys that live about as long are in one segment


class Data:
    """The state after a number of commands: {(database, key): (bytes or {field: value}, whether it expires)}, and the selected database."""

    def __init__(self, keys=None):
        self.keys = dict(keys or {})
        self.db = 0

    def copy(self):
        other = Data(self.keys)
        other.db = self.db
        return other

    def of(self, key):
        return self.keys.get((self.db, key), (None, False))

    def put(self, key, value, expires=False):
        self.keys[self.db, key] = (value, expires)

    def __len__(self):
        return len(self.keys)


def apply(data, args):
    """Applies a command, in the form of a client or of the log. Returns the (database, key)s that it may have changed, or
    None for "any"."""
    name, key = args[0].upper(), args[1] if len(args) > 1 else None
    value, expires = data.of(key)
    if name == b"SET":
        words = [word.upper() for word in args[3:]]
        data.put(key, args[2], bool({b"PX", b"PXAT", b"EX", b"EXAT"} & set(words)) or b"KEEPTTL" in words and expires)
    elif name == b"SETEX":
        data.put(key, args[3], True)
    elif name == b"APPEND":
        data.put(key, (value or b"") + args[2], expires)
    elif name == b"INCRBY":
        data.put(key, b"%d" % (int(value or b"0") + int(args[2])), expires)
    elif name in (b"HSET", b"HMSET"):
        data.put(key, {**(value or {}), **dict(zip(args[2::2], args[3::2]))}, expires)
    elif name in (b"DEL", b"UNLINK"):
        for each in args[1:]:
            data.keys.pop((data.db, each), None)
        return [(data.db, each) for each in args[1:]]
    elif name in (b"EXPIRE", b"PEXPIREAT"):
        if value is not None:
            data.put(key, value, True)
    elif name == b"PERSIST":
        if value is not None:
            data.put(key, value, False)
    elif name == b"RENAME":
        if value is not None:
            del data.keys[data.db, key]
            data.put(args[2], value, expires)
        return [(data.db, key), (data.db, args[2])]
    elif name == b"SELECT":
        data.db = int(key)
        return []
    elif name == b"FLUSHDB":
        data.keys = {at: what for at, what in data.keys.items() if at[0] != data.db}
        return None
    elif name == b"SWAPDB":
        swapped = {int(key): int(args[2]), int(args[2]): int(key)}
        data.keys = {(swapped.get(at[0], at[0]), at[1]): what for at, what in data.keys.items()}
        return None
    else:
        raise ValueError("unknown command of the model: " + quote(args)[:100])
    return [(data.db, key)]


class Writer(threading.Thread):
    """Runs until the connection breaks, `stop` is set, or `limit` commands were sent. `model` is the state after the commands of
    earlier lives; `commands` and `acknowledged` count those of this life. With several `databases`, no other client may use
    them, as it flushes and swaps them. Errors that begin with one of `tolerated` are refusals: the command was not executed,
    and is removed. The value of `moment` is stored with each acknowledgement, in `moments`. `reads`: periodically reads its keys."""

    def __init__(self, address, number, seed, model=None, keys=40, value_size=600, demote=False, databases=(0,), tolerated=(),
                 limit=None, moment=None, pause=0, reads=False):
        super().__init__(daemon=True)
        self.address, self.number, self.databases = address, number, databases
        self.random = random.Random("%s/%s" % (seed, number))
        self.model = (model or Data()).copy()
        self.model.db = 0
        self.keys, self.value_size, self.demote, self.limit, self.pause = keys, value_size, demote, limit, pause
        self.tolerated = tuple(tolerated)
        self.live = self.model.copy() if reads else None
        self.moment, self.moments = moment, []
        self.commands = []
        self.acknowledged = 0
        self.refused = 0
        self.wrong = None
        self.stop = threading.Event()

    def key(self):
        return b"w%d:%d" % (self.number, self.random.randrange(self.keys))

    def command(self, serial):
        """Returns a numbered change of one of the writer's keys."""
        kind, key = self.random.randrange(100), self.key()
        value = (b"%d.%d;" % (self.number, serial)) * self.random.randrange(1, 2 + self.value_size // 8)
        any_key = self.random.choice((b"s:", b"h:", b"n:")) + key
        if len(self.databases) > 1 and self.random.random() < 0.08:
            kind = self.random.randrange(10)
            if kind == 0:
                return [b"FLUSHDB"]
            if kind == 1:
                return [b"SWAPDB"] + [b"%d" % db for db in self.random.sample(self.databases, 2)]
            return [b"SELECT", b"%d" % self.random.choice(self.databases)]
        if kind < 38:
            return [b"SET", b"s:" + key, value]
        if kind < 45:
            return [b"SETEX", b"s:" + key, self.random.choice(LIFETIMES), value]
        if kind < 54:
            return [b"APPEND", b"s:" + key, b"+%d" % serial]
        if kind < 62:
            return [b"INCRBY", b"n:" + key, b"%d" % serial]
        if kind < 77:
            return [b"HSET", b"h:" + key, b"f%d" % self.random.randrange(8), value[:100], b"serial", b"%d" % serial]
        if kind < 78:
            return [b"HSET", b"h:" + key] + [b"%d:%d" % (serial, i // 2) for i in range(2 * self.random.choice((20, max(BIG_FIELDS, self.value_size // 20))))]
        if kind < 84:
            return [self.random.choice((b"DEL", b"UNLINK")), any_key]
        if kind < 88:
            return [b"EXPIRE", any_key, self.random.choice(LIFETIMES)]
        if kind < 90:
            return [b"PERSIST", any_key]
        return [b"RENAME", b"s:" + key, b"s:" + self.key()]

    def run(self):
        serial, client = 0, None
        try:
            client = Client(self.address, timeout=60)
            if self.databases[0] != 0:
                self.commands.append([b"SELECT", b"%d" % self.databases[0]])
                self.take(self.commands[0], client.call(*self.commands[0]))
            while not self.stop.is_set() and not self.wrong and (self.limit is None or serial < self.limit):
                batch = []
                for _ in range(self.random.choice((1, 1, 2, 5, 20))):
                    serial += 1
                    batch.append(self.command(serial))
                if self.demote and self.random.random() < 0.2:
                    client.pipeline([[b"TIER", b"DEMOTE", b"s:" + self.key(), b"h:" + self.key(), b"n:" + self.key()]])
                self.commands += batch
                client.send(b"".join(map(encode, batch)))
                for args in batch:
                    self.take(args, client.receive())
                    if self.wrong:
                        return
                if self.live and self.random.random() < 0.1:
                    self.look(client, self.random.choice((b"s:", b"h:")) + self.key())
                if self.pause:
                    time.sleep(self.random.random() * self.pause)
        except OSError:
            # The server was killed: replies in the buffer were sent before, so these commands are acknowledged.
            try:
                while client and self.acknowledged < len(self.commands):
                    self.take(self.commands[self.acknowledged], client.parser.next())
            except Incomplete:
                pass
        finally:
            if client:
                client.close()

    def look(self, client, key):
        reply = client.call(b"HGETALL" if key.startswith(b"h:") else b"GET", key)
        found = dict(zip(reply[::2], reply[1::2])) or None if isinstance(reply, list) else reply
        if found != self.live.of(key)[0]:
            self.wrong = "%r is %s, and was set to %s" % (key, cut(found), cut(self.live.of(key)[0]))

    def take(self, args, reply):
        """Handles a reply: the command is acknowledged. An error is only correct if the model expects it."""
        if isinstance(reply, Error) and self.tolerated and reply.startswith(self.tolerated):
            del self.commands[self.acknowledged]
            self.refused += 1
            time.sleep(0.005)
            return
        if isinstance(reply, Error) and not (args[0] == b"RENAME" and reply == Error(b"ERR no such key")):
            self.wrong = "%s: %r" % (quote(args)[:200], reply)
        if self.moment:
            self.moments.append(self.moment())
        if self.live:
            apply(self.live, args)
        self.acknowledged += 1


def state_of(client, writer):
    """Returns all keys of a writer, in the format of Data.keys."""
    state = {}
    for db in writer.databases:
        client.must("SELECT", db)
        keys = sorted(client.must("KEYS", "?:w%d:*" % writer.number))
        replies = client.pipeline([b"HGETALL" if key.startswith(b"h:") else b"GET", key] for key in keys)
        times = client.pipeline([b"PTTL", key] for key in keys)
        for key, reply, ttl in zip(keys, replies, times):
            state[db, key] = (dict(zip(reply[::2], reply[1::2])) if isinstance(reply, list) else reply, ttl >= 0)
    return state


def check(writer, state, acknowledged=None):
    """Returns the number of commands whose result is the state; raises AssertionError if commands were lost.
    `acknowledged`: the minimum number of commands, by default all acknowledged ones."""
    acknowledged = writer.acknowledged if acknowledged is None else acknowledged
    model = writer.model.copy()
    for args in writer.commands[:acknowledged]:
        apply(model, args)
    if model.keys == state:
        return acknowledged
    wanted = dict(model.keys)
    for done, args in enumerate(writer.commands[acknowledged:], acknowledged + 1):
        apply(model, args)
        if model.keys == state:
            return done
    differences = ["    %r is %s, acknowledged was %s" % (key, cut(state.get(key)), cut(wanted.get(key)))
                   for key in sorted(set(state) | set(wanted)) if state.get(key) != wanted.get(key)]
    raise AssertionError("writer %d: of %d commands, %d acknowledged, no prefix of them has the state of the server; %d keys differ:\n%s" % (
        writer.number, len(writer.commands), acknowledged, len(differences), "\n".join(differences[:10])))


def settle(writers, client):
    """After a restart: checks the keys of all writers. Returns the models with which the next life begins, the number of acknowledged
    commands, and the number of other commands that were kept."""
    models, total, beyond = [], 0, 0
    for writer in writers:
        done = check(writer, state_of(client, writer))
        model = writer.model.copy()
        for args in writer.commands[:done]:
            apply(model, args)
        models.append(model)
        total += writer.acknowledged
        beyond += done - writer.acknowledged
    size = 0
    for db in sorted({db for writer in writers for db in writer.databases}):
        client.must("SELECT", db)
        size += client.must("DBSIZE")
    there = sum(map(len, models))
    if size != there:
        raise AssertionError("the sum of DBSIZE is %d, but there are %d keys" % (size, there))
    return models, total, beyond


def cut(value):
    text = repr(value)
    return text if len(text) < 120 else text[:100] + "... (%d)" % len(text)

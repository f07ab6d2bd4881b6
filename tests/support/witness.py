"""Writers that know what was acknowledged, and a checker of what a server has after it was killed.

Each writer has keys of its own and sends numbered commands over one connection, several at a time. A server executes them
in order, so after a crash the writer's keys must be exactly as some prefix of its commands leaves them, and that prefix
must hold every command that was acknowledged.
"""
import random
import threading

from .resp import Client, Error, Incomplete, encode, quote


class Writer(threading.Thread):
    """Runs until the connection breaks or `stop` is set. `model` is the state after the commands acknowledged in earlier
    lives; `sent` and `acknowledged` count the commands of this life."""

    def __init__(self, address, number, seed, model=None, keys=40, value_size=600, demote=False, tolerated=()):
        super().__init__(daemon=True)
        self.address, self.number = address, number
        self.random = random.Random("%s/%s" % (seed, number))
        self.model = dict(model or {})
        self.keys, self.value_size, self.demote = keys, value_size, demote
        self.tolerated = tuple(tolerated)
        self.commands = []
        self.acknowledged = 0
        self.refused = 0
        self.wrong = None
        self.stop = threading.Event()

    def key(self):
        return b"w%d:%d" % (self.number, self.random.randrange(self.keys))

    def command(self, serial):
        """A numbered change of one of the writer's keys."""
        kind, key = self.random.randrange(12), self.key()
        value = (b"%d.%d;" % (self.number, serial)) * self.random.randrange(1, 2 + self.value_size // 8)
        if kind < 5:
            return [b"SET", b"s:" + key, value]
        if kind < 6:
            return [b"SETEX", b"s:" + key, b"100000", value]
        if kind < 7:
            return [b"APPEND", b"s:" + key, b"+%d" % serial]
        if kind < 8:
            return [b"INCRBY", b"n:" + key, b"%d" % serial]
        if kind < 10:
            return [b"HSET", b"h:" + key, b"f%d" % self.random.randrange(8), value[:100], b"serial", b"%d" % serial]
        if kind < 11:
            return [b"DEL", self.random.choice((b"s:", b"h:")) + key]
        return [b"RENAME", b"s:" + key, b"s:" + self.key()]

    def run(self):
        serial = 0
        try:
            client = Client(self.address, timeout=60)
            while not self.stop.is_set():
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
                    if self.wrong or self.refused:
                        return
        except OSError:
            # Killed: replies that lie in the buffer already were sent, and so acknowledged.
            try:
                while self.acknowledged < len(self.commands):
                    self.take(self.commands[self.acknowledged], client.parser.next())
            except (Incomplete, UnboundLocalError):
                pass
        finally:
            try:
                client.close()
            except UnboundLocalError:
                pass

    def take(self, args, reply):
        """A reply came: the command is acknowledged. An error is only right where the model says so."""
        if isinstance(reply, Error) and reply.startswith(self.tolerated) and self.tolerated:
            # Not done. What follows in the batch may have been, so the writer ends here and the prefix with it.
            self.refused += 1
            return
        if isinstance(reply, Error) and not (args[0] == b"RENAME" and reply == Error(b"ERR no such key")):
            self.wrong = "%s: %r" % (quote(args)[:200], reply)
        self.acknowledged += 1


def apply(model, args):
    """What a command does, on a dictionary."""
    name, key = args[0], args[1]
    if name in (b"SET", b"SETEX"):
        model[key] = args[-1]
    elif name == b"APPEND":
        model[key] = model.get(key, b"") + args[2]
    elif name == b"INCRBY":
        model[key] = b"%d" % (int(model.get(key, b"0")) + int(args[2]))
    elif name == b"HSET":
        fields = dict(model.get(key, {}))
        fields.update(zip(args[2::2], args[3::2]))
        model[key] = fields
    elif name == b"DEL":
        model.pop(key, None)
    elif name == b"RENAME" and key in model:
        model[args[2]] = model.pop(key)


def state_of(client, number):
    """All keys of a writer, and their values."""
    keys = sorted(client.must("KEYS", "?:w%d:*" % number))
    replies = client.pipeline([b"HGETALL" if key.startswith(b"h:") else b"GET", key] for key in keys)
    return {key: dict(zip(reply[::2], reply[1::2])) if isinstance(reply, list) else reply for key, reply in zip(keys, replies)}


def check(writer, state):
    """The number of commands that the state holds, or an AssertionError that says what is lost."""
    model = dict(writer.model)
    for args in writer.commands[:writer.acknowledged]:
        apply(model, args)
    if model == state:
        return writer.acknowledged
    acknowledged_model = dict(model)
    for done, args in enumerate(writer.commands[writer.acknowledged:], writer.acknowledged + 1):
        apply(model, args)
        if model == state:
            return done
    differences = ["    %r is %s, acknowledged was %s" % (key, cut(state.get(key)), cut(acknowledged_model.get(key)))
                   for key in sorted(set(state) | set(acknowledged_model)) if state.get(key) != acknowledged_model.get(key)]
    raise AssertionError("writer %d: of %d commands, %d acknowledged, no prefix leaves what the server has:\n%s" % (
        writer.number, len(writer.commands), writer.acknowledged, "\n".join(differences[:10])))


def cut(value):
    text = repr(value)
    return text if len(text) < 120 else text[:100] + "... (%d)" % len(text)

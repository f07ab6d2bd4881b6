"""Everything that two servers have, in a form that can be compared: key by key, in all databases, and functions.

DUMP can't be compared: encodings and versions differ. So each type is read by commands, without order where it has none.
"""
import time

from ..resp import Error

BATCH = 500
ATTEMPTS = 4
READ = {
    b"string": lambda key: [b"GET", key],
    b"hash": lambda key: [b"HGETALL", key],
    b"list": lambda key: [b"LRANGE", key, b"0", b"-1"],
    b"set": lambda key: [b"SMEMBERS", key],
    b"zset": lambda key: [b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
    b"stream": lambda key: [b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"],
}
# Of streams: the numbers of nodes are a matter of encoding. Times of a consumer's last call are not in the stream of commands, and XCLAIM with
# LASTID, which replicas get for XREADGROUP, resets entries-read, also between two redis-servers.
UNEQUAL = {b"radix-tree-keys", b"radix-tree-nodes", b"seen-time", b"active-time", b"entries-read", b"lag"}


def knows(client, command):
    found = client.must("COMMAND", "INFO", command)
    return isinstance(found, list) and isinstance(found[0], list) and bool(found[0])


def pairs(flat):
    return list(zip(flat[::2], flat[1::2]))


def plain_stream(reply):
    """A reply of XINFO STREAM FULL as dictionaries, without what may differ."""
    facts = {name: value for name, value in pairs(reply) if name not in UNEQUAL}
    groups = []
    for group in facts[b"groups"]:
        group = {name: value for name, value in pairs(group) if name not in UNEQUAL}
        consumers = [{name: value for name, value in pairs(consumer) if name not in UNEQUAL} for consumer in group[b"consumers"]]
        group[b"consumers"] = sorted(consumers, key=lambda consumer: consumer[b"name"])
        groups.append(group)
    facts[b"groups"] = sorted(groups, key=lambda group: group[b"name"])
    return facts


def plain(kind, reply):
    if isinstance(reply, Error) or reply is None:
        return reply
    if kind == b"hash":
        return dict(pairs(reply))
    if kind == b"set":
        return sorted(reply)
    if kind == b"zset":
        return [(member, float(score)) for member, score in pairs(reply)]
    return plain_stream(reply) if kind == b"stream" else reply


def field_times(client, kinds):
    """{key: {field: milliseconds}} of the hashes of which fields expire."""
    times = {}
    for key in (key for key, kind in kinds if kind == b"hash"):
        fields = client.must("HKEYS", key)
        found = client.must("HPEXPIRETIME", key, "FIELDS", len(fields), *fields) if fields else []
        times[key] = {field: at for field, at in zip(fields, found) if at >= 0}
    return times


def read_database(client, database, with_field_times=False):
    """{(database, key): (type, value, PEXPIRETIME, times of fields)}. A key that vanishes meanwhile is left out."""
    client.must("SELECT", database)
    keys = sorted(client.must("KEYS", "*"))
    contents = {}
    for at in range(0, len(keys), BATCH):
        part = keys[at:at + BATCH]
        kinds = [(key, bytes(kind)) for key, kind in zip(part, client.pipeline([b"TYPE", key] for key in part)) if bytes(kind) != b"none"]
        values = client.pipeline(READ[kind](key) for key, kind in kinds)
        times = client.pipeline([b"PEXPIRETIME", key] for key, _ in kinds)
        fields = field_times(client, kinds) if with_field_times else {}
        for (key, kind), value, at_ms in zip(kinds, values, times):
            if at_ms != -2:
                contents[database, key] = (kind, plain(kind, value), at_ms, fields.get(key, {}))
    return contents


def functions(client):
    """The libraries with their code; a list without order."""
    return sorted((dict(pairs(library))[b"library_code"] for library in client.must("FUNCTION", "LIST", "WITHCODE")))


def contents(server, with_field_times=False):
    with server.client(timeout=60) as client:
        databases = int(client.must("CONFIG", "GET", "databases")[1])
        found = {("functions", b""): functions(client)}
        for database in range(databases):
            found.update(read_database(client, database, with_field_times))
        return found


def lasting(server):
    """The contents that no clock changes: of a Kelvin, before and after a start."""
    return {at: value for at, value in contents(server, with_field_times=True).items() if at[0] == "functions" or value[2] == -1 and not value[3]}


def both_know_field_times(*servers):
    for server in servers:
        with server.client() as client:
            if not knows(client, "HPEXPIRETIME"):
                return False
    return True


def cut(value):
    text = repr(value)
    return text if len(text) < 200 else text[:180] + "... (%d)" % len(text)


def first_difference(left, right, path=""):
    """Where two values begin to differ, and what they have there."""
    if type(left) is type(right) and isinstance(left, dict):
        for name in sorted(set(left) | set(right), key=repr):
            if left.get(name) != right.get(name):
                return first_difference(left.get(name), right.get(name), "%s %r" % (path, name))
    if type(left) is type(right) and isinstance(left, (list, tuple)) and len(left) == len(right):
        for index, (one, other) in enumerate(zip(left, right)):
            if one != other:
                return first_difference(one, other, "%s [%d]" % (path, index))
    return "%s: %s and %s" % (path, cut(left), cut(right))


def differences(left, right):
    """Lines that say what differs between the contents of two servers; empty if they are equal."""
    lines = [first_difference(left.get(at), right.get(at), repr(at)) for at in sorted(set(left) | set(right), key=repr)
             if left.get(at) != right.get(at)]
    return lines[:10] + (["... %d more" % (len(lines) - 10)] if len(lines) > 10 else [])


def check_same(first, *others, timeout=5):
    """Requires that the servers have the same data. Keys expire meanwhile, so a difference must last to count: for `timeout` seconds and at
    least ATTEMPTS readings, as a reading may be slow. Returns the number of keys."""
    with_times = both_know_field_times(first, *others)
    for other in others:
        deadline, attempts = time.monotonic() + timeout, 0
        while True:
            attempts += 1
            mine, theirs = contents(first, with_times), contents(other, with_times)
            lines = differences(mine, theirs)
            if not lines:
                break
            if time.monotonic() > deadline and attempts >= ATTEMPTS:
                raise AssertionError("%d and %d keys; the first server has, the second has:\n    %s" % (
                    len(mine) - 1, len(theirs) - 1, "\n    ".join(lines)))
            time.sleep(0.2)
    return len(mine) - 1

"""The memory of an element, for each type and size."""
import random

from support.resp import Error

from . import machine
from .bench import Failed
from .report import count

COUNTS = (10, 100, 10000, 1000000)


def members(index):
    return ["member:%07d" % index]


def integers(index):
    return [str(index * 3)]


def scored(index):
    return ["%.6f" % (random.Random(index).random() * 1000), "member:%07d" % index]


def fields(index):
    return ["field:%07d" % index, "value:%010d" % index]


def entries(index):
    """IDs like those of a clock, but the same for both servers: with generated IDs, the faster server would have smaller entries."""
    return ["%d-0" % (1700000000000 + index)] + fields(index)


class Type:
    """`words`: the command that adds elements; `element`: its arguments for the n-th element. `size`: bytes of data in one element.
    `alone`: one element per call."""

    def __init__(self, name, command, element, size, alone=False):
        self.name, self.command, self.element, self.size, self.alone = name, command, element, size, alone


TYPES = [
    Type("hash", "HSET", fields, 13 + 16), Type("list", "RPUSH", members, 14), Type("set", "SADD", members, 14),
    Type("set of integers", "SADD", integers, 8), Type("sorted set", "ZADD", scored, 14 + 8),
    Type("stream", "XADD", entries, 16 + 13 + 16, alone=True), Type("HyperLogLog", "PFADD", members, 14),
]


def calls(kind, key, elements):
    words = []
    for index in range(elements):
        if kind.alone:
            yield [kind.command, key, *kind.element(index)]
            continue
        words += kind.element(index)
        if len(words) >= 400 or index == elements - 1:
            yield [kind.command, key] + words
            words = []


def load(client, kind, keys, elements):
    batch = []
    for number in range(keys):
        for call in calls(kind, "key:%09d" % number, elements):
            batch.append(call)
            if len(batch) == 500:
                check(client.pipeline(batch))
                batch = []
    if batch:
        check(client.pipeline(batch))


def check(replies):
    for reply in replies:
        if isinstance(reply, Error):
            raise Failed("loading: %s" % bytes(reply).decode())


def look(bench, server):
    if bench.settle(server) is None:
        raise Failed("%s still has background work" % server.name)
    return machine.rss(server.process.pid), bench.info(server)["used_memory"]


def one(bench, name, kind, keys, elements):
    """None if the server does not have the command."""
    with bench.server(name) as server:
        # So that memory of connections and first calls is not attributed to the elements.
        with server.client() as client:
            if isinstance(client.call(kind.command, "warm", *kind.element(0)), Error):
                return None
            client.must("FLUSHALL")
            before = look(bench, server)
            load(client, kind, keys, elements)
            usage = client.must("MEMORY", "USAGE", "key:%09d" % (keys // 2), "SAMPLES", "0")
            encoding = bytes(client.must("OBJECT", "ENCODING", "key:%09d" % (keys // 2))).decode()
            after = look(bench, server)
    total = keys * elements
    return {"type": kind.name, "server": name, "elements": elements, "keys": keys, "encoding": encoding, "usage": usage / elements,
            "rss": (after[0] - before[0]) / total, "used": (after[1] - before[1]) / total}


def measure(bench):
    options, report = bench.options, bench.report
    rows, runs = [], []
    machine.memory_check(options.type_elements * 300)
    for kind in TYPES:
        for elements in COUNTS:
            if elements > options.type_elements:
                continue
            keys = options.type_elements // elements
            report.progress("types: %s, %s x %s" % (kind.name, count(keys), count(elements)))
            found = {name: one(bench, name, kind, keys, elements) for name in ("kelvin", "redis")}
            runs += [each for each in found.values() if each]
            rows.append(row_of(kind, elements, found["kelvin"], found["redis"]))
    report.data["parts"]["types"] = {"runs": runs}
    report.note("## Types\n")
    report.note("Bytes per element, for values with this number of elements, %s elements in total: MEMORY USAGE (SAMPLES 0) of one key, and the "
                "growth of used_memory and RSS by loading them into an empty server. *data* is the size of the data (for scores and "
                "integers 8 bytes, for a stream's ids 16). The memory of the key is included, so the result is large for few elements.\n" %
                count(options.type_elements))
    report.table(["type", "elements", "data", "USAGE kelvin", "redis", "used kelvin", "redis", "RSS kelvin", "redis", "used / redis"], rows)


def row_of(kind, elements, ours, theirs):
    row = [kind.name, count(elements), str(kind.size)]
    for what in ("usage", "used", "rss"):
        row += ["%.1f" % each[what] if each else "-" for each in (ours, theirs)]
    return row + ["%.2f" % (ours["used"] / theirs["used"]) if ours and theirs else "-"]

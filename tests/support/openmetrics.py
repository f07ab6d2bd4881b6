"""A strict reader of what /metrics serves: OpenMetrics 1.0 and the format 0.0.4 of Prometheus. Whatever is not as the formats and Prometheus'
conventions for names want it is a ValueError.

    families = parse(text)              {"kelvin_keys": Family(name, kind, unit, help, samples)}
    value(families, "kelvin_keys", db="0", tier="hot")
"""
import base64
import collections
import http.client
import math
import re
import struct

Family = collections.namedtuple("Family", "name kind unit help samples")        # samples: {(suffix, ((label, value) ...)): number}
NAME = re.compile(r"[a-z][a-z0-9_]*")
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"(,|$)')
SUFFIXES = {"counter": ["_total"], "gauge": [""], "info": ["_info"], "histogram": ["_bucket", "_count", "_sum"]}
UNITS = ["seconds", "bytes", "ratio"]
# Parts of names that say a unit in another way than the conventions want.
FORBIDDEN = re.compile(r"_(ms|usec|us|milliseconds|microseconds|kb|mb|kilobytes|percent|total|count|sum|bucket|info|created)$")
PROTOBUF = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
OPENMETRICS, TEXT = "application/openmetrics-text; version=1.0.0; charset=utf-8", "text/plain; version=0.0.4; charset=utf-8"


def unescape(text):
    return re.sub(r'\\([\\n"])', lambda found: {"n": "\n"}.get(found.group(1), found.group(1)), text)


def number_of(text):
    if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|[+-]Inf|NaN", text):
        raise ValueError("not a number: " + text)
    return float(text)


def parse_labels(text):
    labels, at = [], 0
    while at < len(text or ""):
        found = LABEL.match(text, at)
        if found is None or (found.group(3) == "," and found.end() == len(text)):
            raise ValueError("labels: " + text)
        labels.append((found.group(1), unescape(found.group(2))))
        at = found.end()
    if len({name for name, _ in labels}) != len(labels):
        raise ValueError("a label twice: " + text)
    return tuple(labels)


class Parser:
    def __init__(self, is_open):
        self.is_open, self.families, self.family = is_open, {}, None

    def begin(self, name, text):
        base = name
        if not self.is_open:                    # the suffix is part of the family's name there
            base = re.sub(r"_(total|info)$", "", name)
        if not NAME.fullmatch(base) or base in self.families or FORBIDDEN.search(base):
            raise ValueError("a family called " + name)
        if not text.endswith("."):
            raise ValueError("%s: help: %r" % (name, text))
        self.family = Family(base, None, None, text, {})
        self.families[base] = self.family

    def describe(self, word, name, text):
        suffix = "" if self.is_open else name[len(self.family.name):]
        if name != self.family.name + suffix or self.family.samples:
            raise ValueError("%s of %s after %s" % (word, name, self.family.name))
        if word == "TYPE":
            kind = "info" if suffix == "_info" else text
            if kind not in SUFFIXES or (not self.is_open and suffix != (SUFFIXES[kind][0] if kind in ("counter", "info") else "")) or \
                    (suffix == "_info" and text != "gauge"):
                raise ValueError("type of %s: %s" % (name, text))
            self.family = self.family._replace(kind=kind)
        elif word == "UNIT" and self.is_open:
            if text not in UNITS or not name.endswith("_" + text):
                raise ValueError("unit of %s: %s" % (name, text))
            self.family = self.family._replace(unit=text)
        else:
            raise ValueError("%s %s" % (word, name))
        self.families[self.family.name] = self.family

    def sample(self, line):
        found = SAMPLE.fullmatch(line)
        if found is None or self.family is None or not found.group(1).startswith(self.family.name):
            raise ValueError("a sample of another family: " + line)
        key = (found.group(1)[len(self.family.name):], parse_labels(found.group(2)))
        if key[0] not in SUFFIXES[self.family.kind] or key in self.family.samples:
            raise ValueError("not a sample of a %s, or twice: %s" % (self.family.kind, line))
        self.family.samples[key] = number_of(found.group(3))

    def check_histogram(self, family):
        series = collections.defaultdict(list)
        for (suffix, labels), number in family.samples.items():
            if suffix == "_bucket":
                if labels[-1][0] != "le" or ("." not in labels[-1][1] and "e" not in labels[-1][1] and labels[-1][1] != "+Inf"):
                    raise ValueError("%s: le: %s" % (family.name, labels))
                series[labels[:-1]].append((number_of(labels[-1][1]), number))
        for labels, buckets in series.items():
            if buckets != sorted(buckets) or [count for _, count in buckets] != sorted(count for _, count in buckets):
                raise ValueError("%s: buckets: %s" % (family.name, buckets))
            if buckets[-1] != (math.inf, family.samples["_count", labels]) or family.samples["_sum", labels] < 0:
                raise ValueError("%s: count: %s" % (family.name, labels))

    def check(self):
        for family in self.families.values():
            if family.kind is None:
                raise ValueError("no type: " + family.name)
            if any(family.name.endswith("_" + unit) for unit in UNITS) and self.is_open and family.unit is None:
                raise ValueError("no unit: " + family.name)
            if family.kind in ("counter", "histogram") and any(math.isnan(number) or number < 0 for number in family.samples.values()):
                raise ValueError("below 0: " + family.name)
            if family.kind == "info" and set(family.samples.values()) != {1}:
                raise ValueError("not 1: " + family.name)
            if family.kind == "histogram":
                self.check_histogram(family)


def parse(text, kind=OPENMETRICS):
    parser = Parser(kind == OPENMETRICS)
    if not text.endswith("# EOF\n" if parser.is_open else "\n"):
        raise ValueError("the end: %r" % text[-100:])
    lines = text.split("\n")[:-2 if parser.is_open else -1]
    for line in lines:
        words = line.split(" ", 3)
        if not line.startswith("#"):
            parser.sample(line)
        elif len(words) < 4 or words[0] != "#":
            raise ValueError("a comment: " + line)
        elif words[1] == "HELP":
            parser.begin(words[2], unescape(words[3]))
        else:
            parser.describe(*words[1:])
    parser.check()
    return parser.families


# Protobuf: only what /metrics has of it.

def fields_of(data):
    """Yields the numbers and values of a message's fields: integers, doubles, bytes."""
    at = 0

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at, number, shift = at + 1, number | (byte & 127) << shift, shift + 7
            if byte < 128:
                return number
    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 1:
            at += 8
            yield tag >> 3, struct.unpack("<d", data[at - 8:at])[0]
        elif tag & 7 == 2:
            size = varint()
            at += size
            if at > len(data):
                raise ValueError("a field that is cut off")
            yield tag >> 3, data[at - size:at]
        else:
            raise ValueError("a wire type: %d" % (tag & 7))


def signed(number):
    return number >> 1 ^ -(number & 1)


def packed(data):
    """Numbers of a packed field of sint64."""
    numbers = []
    for byte in data:
        if not numbers or numbers[-1][2]:
            numbers.append([0, 0, False])
        last = numbers[-1]
        last[0], last[1], last[2] = last[0] | (byte & 127) << last[1], last[1] + 7, byte < 128
    return [signed(number) for number, _, _ in numbers]


def natives_of(fields):
    """The native buckets of a histogram: their upper limits and counts."""
    schema = next(signed(value) for number, value in fields if number == 5)
    deltas = [delta for number, value in fields if number == 13 for delta in packed(value)]
    found, index, count = [], 0, 0
    for number, value in fields:
        if number == 12:
            span = dict(fields_of(value))
            index += signed(span[1])
            for _ in range(span[2]):
                count += deltas.pop(0)
                found.append((2 ** (index / 2 ** schema), count))
                index += 1
    if deltas or any(count <= 0 for _, count in found):
        raise ValueError("native buckets: %s and %s" % (found, deltas))
    return found


def parse_protobuf(data):
    """Returns families as parse does, and native buckets: {(family, labels): [(limit, count)]}, the first of them that of zero."""
    families, natives, at = {}, {}, 0
    kinds = {0: "counter", 1: "gauge", 4: "histogram"}
    while at < len(data):
        size = shift = 0
        while True:
            byte = data[at]
            at, size, shift = at + 1, size | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        message = list(fields_of(data[at:at + size]))
        at += size
        name, help_, kind = [next(value for number, value in message if number == wanted) for wanted in (1, 2, 3)]
        family = Family(name.decode(), kinds[kind], next((value.decode() for number, value in message if number == 5), None), help_.decode(), {})
        for metric in [list(fields_of(value)) for number, value in message if number == 4]:
            labels = tuple(tuple(part.decode() for _, part in fields_of(value)) for number, value in metric if number == 1)
            number, content = metric[-1]
            content = list(fields_of(content))
            if number in (2, 3):
                family.samples["", labels] = content[0][1]
                continue
            family.samples["_count", labels], family.samples["_sum", labels] = content[0][1], content[1][1]
            for number, bucket in content:
                if number == 3:
                    (_, seen), (_, limit) = fields_of(bucket)
                    family.samples["_bucket", labels + (("le", limit),)] = seen
            natives[family.name, labels] = [(0, next(value for number, value in content if number == 7))] + natives_of(content)
        families[family.name] = family
    return families, natives


def value(families, name, suffix=None, **labels):
    """Of the sample with these labels, whatever their order."""
    family = families[name]
    suffix = SUFFIXES[family.kind][0] if suffix is None else suffix
    found = [number for (end, pairs), number in family.samples.items() if end == suffix and dict(pairs) == labels]
    if len(found) != 1:
        raise KeyError("%s%s %s: %d samples" % (name, suffix, labels, len(found)))
    return found[0]


def get(port, path="/metrics", method="GET", user=None, host="127.0.0.1", timeout=30, text=True, **headers):
    """Returns the status, the headers and the body of a request; its bytes, unless it is text."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    if user is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(user).encode()).decode()
    try:
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        body = reply.read()
        return reply.status, dict(reply.getheaders()), body.decode() if text else body
    finally:
        connection.close()


def scrape(port, **options):
    """Returns the families, strictly parsed."""
    status, headers, body = get(port, **options)
    if status != 200:
        raise ValueError("%d: %s" % (status, body))
    return parse(body, headers["Content-Type"])

"""Pub/sub: one publisher and many subscribers; CPU of a message that is delivered."""
import select
import socket
import statistics
import time

from support.resp import encode

from . import machine
from .bench import Failed
from .report import count, medians, ratio_median

TEXT = b"x" * 32
# Subscribers, other patterns that do not match, messages in a pipeline.
CASES = [(1, 0, 1), (1, 0, 100), (100, 0, 1), (100, 0, 100), (None, 0, 1), (None, 0, 16), (1, 10000, 1)]
MESSAGE = len(b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$32\r\n\r\n") + len(TEXT)
CONFIRMED = len(b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n")


class Crowd:
    """Subscribers whose bytes are counted, not parsed."""

    def __init__(self, server, size):
        self.sockets, self.poll, self.got = {}, select.epoll(), 0
        for _ in range(size):
            one = socket.create_connection(server.address)
            one.sendall(encode(["SUBSCRIBE", "news"]))
            one.setblocking(False)
            self.sockets[one.fileno()] = one
            self.poll.register(one.fileno(), select.EPOLLIN)
        self.read(size * CONFIRMED)

    def read(self, size):
        """Until that many bytes have arrived in all."""
        deadline = time.monotonic() + 120
        while size > 0:
            if time.monotonic() > deadline:
                raise Failed("%d bytes of messages did not arrive" % size)
            for number, _ in self.poll.poll(1, 4096):
                data = self.sockets[number].recv(1 << 16)
                if not data:
                    raise Failed("a subscriber was closed")
                size -= len(data)

    def close(self):
        for one in self.sockets.values():
            one.close()
        self.poll.close()


def publish(server, crowd, pipeline, duration):
    """Publishes and waits until all have it, again and again. Returns what one run has measured."""
    subscribers = len(crowd.sockets)
    batch = encode(["PUBLISH", "news", TEXT]) * pipeline
    reply = len(b":%d\r\n" % subscribers) * pipeline
    laps, messages = [], 0
    with server.client(timeout=120) as publisher:
        cpu, began = machine.cpu_seconds(server.process.pid), time.monotonic()
        while time.monotonic() - began < duration or len(laps) < 3:
            lap = time.monotonic()
            publisher.send(batch)
            crowd.read(MESSAGE * subscribers * pipeline)
            got = 0
            while got < reply:
                got += len(publisher.socket.recv(1 << 16))
            laps.append(time.monotonic() - lap)
            messages += pipeline
        cpu = machine.cpu_seconds(server.process.pid) - cpu
    return {"cpu_us": cpu * 1e6 / messages / subscribers, "cpu_message_us": cpu * 1e6 / messages, "messages": messages,
            "lap_ms": statistics.median(laps) * 1000, "lap_ms_max": max(laps) * 1000}


def add_patterns(server, number):
    client = server.client(timeout=120)
    for index in range(0, number, 100):
        client.exchange(encode(["PSUBSCRIBE"] + ["other:%d:*" % (index + inner) for inner in range(100)]), 100)
    return client


def run_case(bench, server, case):
    subscribers, patterns, pipeline = case
    listener = add_patterns(server, patterns)
    crowd = Crowd(server, subscribers or bench.options.pubsub_subscribers)
    try:
        publish(server, crowd, pipeline, bench.options.duration / 10)
        return publish(server, crowd, pipeline, bench.options.duration)
    finally:
        crowd.close()
        listener.close()
        bench.settle(server)


def measure(bench):
    options, report = bench.options, bench.report
    runs = {}
    settings = {"maxclients": options.pubsub_subscribers + 100, "client-output-buffer-limit": ["pubsub", "0", "0", "0"]}
    with bench.server("kelvin", settings) as kelvin, bench.server("redis", settings) as redis:
        pair = [kelvin, redis]
        for number in range(options.runs):
            for case in CASES:
                report.progress("pubsub: run %d of %d, %s" % (number + 1, options.runs, name_of(options, case)))
                for server in pair[::-1] if number % 2 else pair:
                    runs.setdefault(case, {}).setdefault(server.name, []).append(run_case(bench, server, case))
    print_table(bench, runs)
    report.data["parts"]["pubsub"] = {
        "text_size": len(TEXT), "runs": [{"case": name_of(options, case), **found} for case, found in runs.items()]}


def name_of(options, case):
    subscribers, patterns, pipeline = case
    return "%s subscribers%s, P=%d" % (count(subscribers or options.pubsub_subscribers),
                                       ", %s patterns" % count(patterns) if patterns else "", pipeline)


def print_table(bench, runs):
    options, report = bench.options, bench.report
    report.note("## Pub/sub\n")
    report.note("One publisher sends P messages of %d bytes and waits until all subscribers have them; medians of %d runs of %g s.\n" % (
        len(TEXT), options.runs, options.duration))
    rows = []
    for case, found in runs.items():
        for name in ("kelvin", "redis"):
            middle = medians(found[name])
            rows.append([name_of(options, case), name, "%.2f" % middle["cpu_us"], "%.1f" % middle["cpu_message_us"],
                         "%.2f" % middle["lap_ms"], "%.2f" % middle["lap_ms_max"],
                         "%.2f" % ratio_median(found["kelvin"], found["redis"], "cpu_us") if name == "kelvin" else "1"])
    report.table(["case", "server", "CPU us/delivery", "CPU us/message", "until all have it, ms", "slowest", "CPU / redis"], rows)

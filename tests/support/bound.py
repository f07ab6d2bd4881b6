"""Tests of the memory limit: a server with maxmemory, its peak RSS as measured by the kernel, and a client in addition to those that load it.

    class PipeTest(BoundCase):
        def test_...(self):
            server = self.limited(64 << 20)
            with self.watched(server, largest=1 << 20):     # checks the bound and the delay of PING in this block
                ...

KELVIN_LONG=1       full sizes, gigabytes: takes minutes and some GB of disk. For manual runs
KELVIN_FIGURES=1    print the peak RSS, the bound and the longest PING of each case
"""
import contextlib
import os
import random
import re
import subprocess
import sys
import threading
import unittest

from .resp import Client, Closed, Error, encode
from .server import SHORT, Server, is_redis, is_sanitized

MB = 1 << 20
LONG = bool(os.environ.get("KELVIN_LONG"))
FIXED = 18 * MB                     # what the bound allows in addition to maxmemory + 10 %: a server without data has 15, 12 of them pages of libraries
# A server that exceeds its bound by this much is killed, as other programs use this machine. redis-server has no bound.
RUNAWAY = (8192 if is_redis() else 1536) * MB
UNLIMITED = 4096 * MB               # without maxmemory; only to stop a server that grows without limit
PING_LIMIT_S = 10.0 if is_sanitized() else 1.0
BLOCK = random.Random(1).randbytes(2 * MB)


def size_by_form(short, usual, long):
    """Returns one of: the size with KELVIN_SHORT or a sanitizer; that of `make test`; that with KELVIN_LONG."""
    return long if LONG else short if SHORT or is_sanitized() else usual


def value_of(number, size):
    """Returns bytes that do not compress, different for each number."""
    at = number * 4099 % MB
    body = BLOCK[at:at + size] if size <= MB else (BLOCK * (size // len(BLOCK) + 2))[at:at + size]
    return (b"%016d" % number + body)[:size]


def status_kb(pid, name):
    with open("/proc/%d/status" % pid) as file:
        return int(re.search(r"%s:\s*(\d+)" % name, file.read()).group(1))


def rss_peak(pid):
    return status_kb(pid, "VmHWM") * 1024


def rss_peak_reset(pid):
    """Resets VmHWM to the current RSS if the kernel permits it; otherwise the peak is that since the start."""
    with contextlib.suppress(OSError), open("/proc/%d/clear_refs" % pid, "w") as file:
        file.write("5")


# A separate process, because threads of a test that sends data delay each other more than the server does. Ends with its stdin.
PINGER = """
import select, socket, sys, time
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
count, longest, end = 0, 0.0, "ended"
try:
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        started = time.monotonic()
        client.sendall(b"PING\\r\\n")
        client.settimeout(60)
        reply = client.recv(100)
        longest = max(longest, time.monotonic() - started)
        if reply != b"+PONG\\r\\n":
            end = repr(reply)
            break
        count += 1
except OSError as error:
    longest, end = max(longest, time.monotonic() - started), type(error).__name__
print(count, longest, end)
"""


class Watch:
    """Samples the RSS, so that a server that takes all memory is killed in time, and sends a PING every 20 ms."""

    def __init__(self, server, bound):
        self.server, self.bound = server, bound
        self.peak = self.pings = 0
        self.ping_longest = 0.0
        self.failure = None
        self.ended = threading.Event()
        self.sampler = threading.Thread(target=self.sample, daemon=True)

    def __enter__(self):
        rss_peak_reset(self.server.process.pid)
        self.pinger = subprocess.Popen([sys.executable, "-c", PINGER, str(self.server.port)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.sampler.start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, AttributeError):
            self.peak = max(self.peak, rss_peak(self.server.process.pid))
        self.ended.set()
        self.sampler.join()
        count, longest, end = self.pinger.communicate(timeout=70)[0].split(None, 2)
        self.pings, self.ping_longest = int(count), float(longest)
        if end.strip() != "ended":
            self.failure = self.failure or "PING: " + end.strip()

    def sample(self):
        while not self.ended.wait(0.02):
            try:
                self.peak = max(self.peak, status_kb(self.server.process.pid, "VmRSS") * 1024)
            except (OSError, AttributeError):
                return
            if self.peak > self.bound + RUNAWAY:
                self.failure = "killed at an RSS of %d MB" % (self.peak // MB)
                self.server.process.kill()
                return


class BoundCase(unittest.TestCase):
    maxDiff = 4000
    server = None

    def limited(self, maxmemory, options=None, **more):
        """Starts a server with this limit; 0: none. redis-server gets none, as it would refuse writes or evict."""
        self.maxmemory = maxmemory
        given = {"maxmemory": None if is_redis() else maxmemory, "maxmemory-policy": "noeviction"}
        self.server = Server({**given, **(options or {})}, **more)
        self.addCleanup(self.end, self.server)
        return self.server

    def end(self, server):
        """After a failed test, the server need not stop cleanly."""
        if server.process is not None and self.passed_so_far():
            server.stop()
        else:
            server.discard()

    def passed_so_far(self):
        result = self._outcome.result
        return not any(test is self for test, _ in result.failures + result.errors) and self._outcome.success

    def client(self, **options):
        client = self.server.client(**options)
        self.addCleanup(client.close)
        return client

    @contextlib.contextmanager
    def watched(self, server, largest=0, ping_limit=PING_LIMIT_S, bound=None):
        """`largest`: bytes of the largest request and the largest reply together. `bound`: replaces the default bound."""
        if bound is None:
            bound = self.maxmemory * 11 // 10 + FIXED + largest if self.maxmemory else UNLIMITED
        watch, problem = Watch(server, bound), None
        try:
            with watch:
                yield watch
        except Exception as error:
            problem = error
        if os.environ.get("KELVIN_FIGURES"):
            print("%s: peak RSS %.0f MB, bound %.0f MB, longest of %d PINGs %.0f ms%s" % (
                self.id().split(".", 1)[-1], watch.peak / MB, bound / MB, watch.pings, watch.ping_longest * 1000,
                ", " + (watch.failure or str(problem))[:120] if watch.failure or problem else ""), file=sys.stderr)
        problems = [watch.failure] if watch.failure else []
        if watch.ping_longest > ping_limit:
            problems.append("a PING of another client took %.1f s, the limit is %g s" % (watch.ping_longest, ping_limit))
        if not is_redis() and not is_sanitized() and watch.peak > bound:
            problems.append("the peak RSS is %.0f MB, the bound %.0f MB" % (watch.peak / MB, bound / MB))
        if problem and not watch.failure:
            raise problem
        if problems:
            self.fail("; ".join(problems))

    def nothing_refused(self):
        """Checks that no error was returned and no key was evicted."""
        info = self.server.info()
        self.assertEqual({name: text for name, text in info.items() if name.startswith("errorstat_")}, {})
        self.assertEqual(info["evicted_keys"], "0")
        return info


def send_until_full(client, data, quiet=0.5):
    """Writes until the server has read no byte for `quiet` seconds. Returns the number of bytes that it read."""
    sent, view = 0, memoryview(data)
    client.socket.settimeout(quiet)
    try:
        while sent < len(data):
            sent += client.socket.send(view[sent:sent + (1 << 16)])
    except TimeoutError:
        pass
    finally:
        client.socket.settimeout(client.timeout)
    return sent


__all__ = ["BoundCase", "Client", "Closed", "Error", "FIXED", "LONG", "MB", "encode", "rss_peak", "rss_peak_reset", "send_until_full",
           "size_by_form", "status_kb", "value_of"]

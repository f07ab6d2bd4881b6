"""Starts the servers, loads them with kelvin-benchmark, and waits until their background work is done."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from support.server import Server

from . import machine
from .cgroup import Cgroup
from .report import mb

KEY_SIZE = 16
PERCENTILES = ("p50", "p99", "p99.9")
QUIET_BYTES = 256 << 10              # written in 0.2 s: less than this is not background work
INTERRUPTED = 130                   # kelvin-benchmark's exit status


class Failed(Exception):
    """A server or kelvin-benchmark failed; there is no result."""


class Running:
    """A running kelvin-benchmark. Leaving the `with` block ends it in any case."""

    def __init__(self, server, command):
        self.server, self.command = server, command
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)

    def stop(self, timeout=60):
        """Interrupts it, and returns the report of what was measured until then."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.finish(timeout, ends=("complete", "interrupted"))

    def finish(self, timeout, ends=("complete",)):
        words = " ".join(self.command)
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Failed("%s: not done within its time limit: %s" % (self.server.name, words))
        try:
            tests = json.loads(out)["tests"]
        except ValueError:
            raise Failed("%s: %s: %s" % (self.server.name, words, err.strip() or "no report"))
        for test in tests:
            wrong = {key: test[key] for key in ("errors", "wrong", "missing", "failure", "first_error", "first_wrong",
                                                "first_missing") if test.get(key)}
            if wrong or test["end"] not in ends:
                raise Failed("%s: %s: %s, %s" % (self.server.name, words, test["end"], wrong))
        if self.process.returncode != (INTERRUPTED if tests[-1]["end"] == "interrupted" else 0):
            raise Failed("%s: %s: ended with %d: %s" % (self.server.name, words, self.process.returncode, err.strip()))
        return tests[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


class Bench:
    """Shared by all parts: the options, the report, the core of the servers, and starting and loading them."""

    def __init__(self, options, report):
        self.options, self.report = options, report
        self.noted = set()
        cores = sorted(os.sched_getaffinity(0))
        self.server_core = None
        if len(cores) > 1 and not options.no_pin:
            self.server_core = cores[0]
            os.sched_setaffinity(0, {cores[1]})         # kelvin-benchmark inherits it

    @contextlib.contextmanager
    def server(self, name, settings=None, cgroup=None, starts=True):
        """`name` is kelvin or redis. The server is killed at the end, even if this program is killed. With `starts` False, the
        caller starts and ends it, any number of times; all runs use the same folder, which is removed at the end."""
        folder = tempfile.mkdtemp(prefix="kelvin-measure-", dir=self.options.dir)
        prefix = list(cgroup.prefix) if cgroup else []
        if shutil.which("setpriv"):
            prefix += ["setpriv", "--pdeathsig", "KILL"]
        if self.server_core is not None and shutil.which("taskset"):
            prefix += ["taskset", "-c", str(self.server_core)]
        given = {"save": "", "appendonly": "no"}
        given.update(settings or {})
        args = self.options.server_options.split() if name == "kelvin" else []
        binary = self.options.server if name == "kelvin" else self.options.redis
        server = Server(given, binary=os.path.abspath(binary), folder=folder, prefix=prefix, args=args, start=False)
        server.name = name
        try:
            if starts:
                server.start(60)
            yield server
            if starts and not server.alive():
                raise Failed("%s ended with %s" % (name, server.process.returncode))
            alarm = server.alarm() if os.path.exists(server.log_path) else None
            if alarm:
                raise Failed("%s's log has:\n%s" % (name, alarm))
        except Exception as error:
            error.server_log = server.log_tail(2000) if os.path.exists(server.log_path) else ""
            raise
        finally:
            server.discard()
            shutil.rmtree(folder, ignore_errors=True)

    def cgroup(self, stack, maxmemory):
        """Returns a memory cgroup for a Kelvin with this maxmemory, and says so; None if none is wanted or possible. The stack removes it."""
        if not self.options.cgroup:
            self.note_once("The page cache is dropped twice per second for the store's files (posix_fadvise), so that nearly all reads go "
                           "to the disk.\n" if self.options.drop_cache else "The page cache is not limited: reads of the store may be "
                           "served from it instead of the disk (--cgroup, --drop-cache).\n")
            return None
        try:
            cgroup = Cgroup(self.options.cgroup, maxmemory + maxmemory // 10 + (16 << 20))
        except machine.Unavailable as error:
            self.note_once("**No memory cgroup: %s.** Instead, the page cache is dropped twice per second for the store's files "
                           "(posix_fadvise): nearly all reads go to the disk, but memory is limited only by the server.\n" % error)
            return None
        stack.callback(cgroup.remove)
        self.note_once("Kelvin is in a %s, page cache included: maxmemory + 10 %% + 16 MB.\n" % cgroup.describe())
        return cgroup

    def drops_cache(self, cgroup):
        """Returns whether the page cache is dropped instead of limited."""
        return cgroup is None and bool(self.options.drop_cache or self.options.cgroup)

    def server_limited(self, stack, maxmemory, settings=None, starts=True):
        """Returns (Kelvin with this maxmemory, its cgroup or None). If the options want its reads from the disk, it is in a memory cgroup;
        where that is not possible, its files are dropped from the page cache all the time."""
        cgroup = self.cgroup(stack, maxmemory)
        server = stack.enter_context(self.server("kelvin", {"maxmemory": maxmemory, **(settings or {})}, cgroup=cgroup, starts=starts))
        if self.drops_cache(cgroup):
            stack.enter_context(machine.Ticker(0.5, lambda: machine.page_cache_drop(server.folder)))
        return server, cgroup

    def note_once(self, text):
        if text not in self.noted:
            self.noted.add(text)
            self.report.note(text)

    def run(self, server, *arguments, timeout=None):
        """Runs one test of kelvin-benchmark and returns its part of the JSON. Errors, wrong and missing values raise Failed."""
        with self.begin(server, *arguments) as running:
            return running.finish(timeout or self.options.duration + 120)

    def begin(self, server, *arguments):
        """The same, but it runs while the caller does something else; see Running."""
        command = [self.options.benchmark, "-p", str(server.port), "--json", "--server-pid", str(server.process.pid),
                   "-c", str(self.options.clients), "--key-size", str(KEY_SIZE)] + [str(word) for word in arguments]
        return Running(server, command)

    def load(self, server, keys, size, *more):
        return self.run(server, "--load", "-r", keys, "-d", size, *more, timeout=120 + keys / 5000)

    def redis_memory(self, keys, size):
        """Returns the memory that redis-server would use for these keys, extrapolated from a tenth of them."""
        some = keys // 10
        with self.server("redis") as redis:
            empty = self.info(redis)["used_memory"]
            self.load(redis, some, size)
            return (self.info(redis)["used_memory"] - empty) * 10

    def info(self, server):
        """Returns all fields of INFO; those that look like numbers are numbers."""
        return {name: int(value) if value.isdigit() else value for name, value in server.info().items()}

    def settle(self, server, timeout=90):
        """Waits until the server's background work is done: three times in a row less than 3 % of a core, and hardly anything
        written. Returns the seconds that this took, or None after the timeout."""
        started, quiet, pid = time.monotonic(), 0, server.process.pid
        while time.monotonic() - started < timeout:
            cpu, written, at = machine.cpu_seconds(pid), machine.bytes_written(pid), time.monotonic()
            time.sleep(0.2)
            busy = (machine.cpu_seconds(pid) - cpu) / (time.monotonic() - at)
            quiet = quiet + 1 if busy < 0.03 and machine.bytes_written(pid) - written < QUIET_BYTES else 0
            if quiet == 3:
                return time.monotonic() - started
        return None


def results_of(test):
    """Returns the part of a test's report that is used in tables."""
    return {"ops": test["requests_per_second"], "cpu_us": test["server_cpu_us_per_request"],
            "client_cpu_us": test["client_cpu_us_per_request"], "requests": test["requests"],
            **{name: test["latency_us"][name] for name in PERCENTILES}}

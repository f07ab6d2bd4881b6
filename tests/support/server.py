"""Starts, stops, kills and restarts a server in its own folder, and checks how it ended.

KELVIN_SERVER   the server under test: a path, or `redis` for redis-server (to verify the tests themselves);
                build/release/kelvin-server when unset
KELVIN_REDIS    the folder of redis-server and its tools; /usr/bin when unset
KELVIN_OPTIONS  additional options for its command line, such as `--io-threads 4`
KELVIN_SHORT    if set, long tests are shortened (for the sanitizer builds)
"""
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from .resp import Client, Closed

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REDIS_FOLDER = os.path.abspath(os.environ.get("KELVIN_REDIS") or "/usr/bin")
REDIS = os.path.join(REDIS_FOLDER, "redis-server")
SHORT = bool(os.environ.get("KELVIN_SHORT"))

# Text that a correct server never logs.
ALARMS = re.compile(rb"CHECK failed|AddressSanitizer|ThreadSanitizer|LeakSanitizer|UndefinedBehavior|: runtime error: "
                    rb"|REDIS BUG REPORT|Assertion failed|row does not declare")


def under_test():
    name = os.environ.get("KELVIN_SERVER") or os.path.join(ROOT, "build", "release", "kelvin-server")
    return REDIS if name == "redis" else os.path.abspath(name)


def redis_tool(name):
    return os.path.join(REDIS_FOLDER, name)


def is_redis(binary=None):
    return os.path.basename(binary or under_test()) == "redis-server"


def is_sanitized():
    return any("/%s/" % mode in under_test() for mode in ("asan", "tsan"))


def scaled(count):
    """Returns a smaller number in sanitizer builds, which are about ten times slower."""
    return max(1, count // 5) if SHORT or is_sanitized() else count


def port_free():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class StartFailed(Exception):
    pass


class Server:
    """options: {"appendonly": "yes", "save": ""}; a list is passed as several words. `binary` None: the server under
    test. Options named `tier-...` are omitted for redis-server."""

    def __init__(self, options=None, binary=None, config=None, start=True, args=(), folder=None, prefix=(),
                 environment=None):
        self.binary = binary or under_test()
        self.kelvin = not is_redis(self.binary)
        self.options = dict(options or {})
        self.config = config
        self.args = list(args)
        self.prefix = list(prefix)              # words before the program, such as nsenter and its options
        self.environment = dict(environment or {})
        self.folder = folder or tempfile.mkdtemp(prefix="kelvin-test-")
        self.folder_is_ours = folder is None
        self.log_path = os.path.join(self.folder, "server.log")
        self.process = None
        self.port = None
        self.log_start = 0
        self.expect_crash = False
        if start:
            self.start()

    # Starting

    def command_line(self):
        line = self.prefix + [self.binary]
        if self.config is not None:
            path = os.path.join(self.folder, "test.conf")
            if not os.path.exists(path):        # CONFIG REWRITE may have changed it since the first start
                with open(path, "w") as file:
                    file.write(self.config)
            line.append(path)
        options = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": self.folder,
                   "enable-debug-command": "yes"}
        if self.kelvin and "/tsan/" in self.binary:
            options["partitions"] = 16          # ThreadSanitizer fails if a thread holds 64 locks
        options.update(self.options)
        for name, value in options.items():
            if value is None or (name.startswith("tier-") and not self.kelvin):
                continue
            words = value if isinstance(value, (list, tuple)) else [value]
            line += ["--" + name] + [str(word) for word in words]
        if self.kelvin:
            line += shlex.split(os.environ.get("KELVIN_OPTIONS", ""))
        return line + self.args

    def choose_port(self):
        return self.options.get("port") or port_free()

    def launch(self):
        """Start the program without waiting until it is ready."""
        self.port = self.choose_port()
        environment = dict(os.environ)
        environment.setdefault("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=77:allocator_may_return_null=1:"
                               "verify_asan_link_order=0")      # without it, none starts after another preloaded library
        environment.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
        environment.setdefault("TSAN_OPTIONS", "halt_on_error=0:exitcode=66:second_deadlock_stack=1:history_size=4:suppressions="
                               + os.path.join(os.path.dirname(os.path.abspath(__file__)), "tsan.supp"))
        environment.update(self.environment)
        if not os.path.exists(self.binary):
            raise StartFailed("%s not found (build it, or set KELVIN_SERVER)" % self.binary)
        self.log_start = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        with open(self.log_path, "ab") as log:
            # restore_signals=False: SIGXFSZ stays ignored, so that a write beyond the file size limit is an error and does not kill it.
            self.process = subprocess.Popen(self.command_line(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            cwd=self.folder, env=environment, restore_signals=False)

    def start(self, timeout=120):
        for _ in range(5):
            self.launch()
            if self.wait_ready(timeout):
                return self
            if b"Address already in use" not in self.log_new() or self.options.get("port"):
                break
        log = self.log_new().decode("utf-8", "replace")
        self.discard()
        raise StartFailed("%s did not start; its log:\n%s" % (self.binary, log[-4000:]))

    def wait_ready(self, timeout=120):
        """True when it is ready, False if the program has ended."""
        deadline, pause = time.monotonic() + timeout, 0.001
        while True:
            if b"eady to accept connections" in self.log_new():
                return True
            if self.process.poll() is not None:
                return b"eady to accept connections" in self.log_new()
            if time.monotonic() > deadline:
                self.kill9()
                raise StartFailed("%s not ready after %d s; its log:\n%s" % (
                    self.binary, timeout, self.log_new().decode("utf-8", "replace")[-4000:]))
            time.sleep(pause)
            pause = min(pause * 1.3, 0.05)

    def wait_end(self, timeout=30):
        """Returns the exit code of a program that is expected to end."""
        return self.process.wait(timeout)

    def relaunch_slowly(self, key_us, ask):
        """Kills it and starts it again, with a pause of `key_us` for each key that it loads, until load_quickly(). Returns what ask() returns, as soon as
        that is true; OSError: it can't be reached yet."""
        self.kill9()
        self.options["key-load-delay"] = key_us
        self.launch()

        def reply():
            try:
                return ask()
            except OSError:
                return None
        return until(reply, what="the start")

    def load_quickly(self):
        with self.client() as client:
            client.must("CONFIG", "SET", "key-load-delay", 0)

    # Connections and log

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    def client(self, **options):
        if is_sanitized():
            options.setdefault("timeout", 60)
        return Client(self.address, **options)

    def info(self, section="everything"):
        with self.client() as client:
            text = client.must("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def log(self):
        with open(self.log_path, "rb") as file:
            return file.read()

    def log_new(self):
        """Returns the log since the last start."""
        with open(self.log_path, "rb") as file:
            file.seek(self.log_start)
            return file.read()

    # Stopping

    def kill9(self):
        if self.alive():
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def terminate(self, timeout=60):
        """Sends SIGTERM and returns the exit code."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError("the server did not stop within %d s of SIGTERM; its log:\n%s" % (
                timeout, self.log_tail()))

    def restart(self, kill=False):
        if kill:
            self.kill9()
        else:
            code = self.terminate()
            assert code == 0, "the server ended with %s; its log:\n%s" % (code, self.log_tail())
        return self.start()

    def log_tail(self, size=6000):
        return self.log().decode("utf-8", "replace")[-size:]

    def alarm(self):
        """Returns the part of the log with the message of a CHECK or a sanitizer, or None."""
        log = self.log()
        found = ALARMS.search(log)
        return log[max(0, found.start() - 500):found.start() + 8000].decode("utf-8", "replace") if found else None

    def stop(self):
        """Shut down, check that it was a clean shutdown, remove the folder."""
        problem = None
        try:
            if self.process is not None:
                died = not self.alive()
                code = self.terminate()
                alarm = self.alarm()
                if alarm and not self.expect_crash:
                    problem = "the server's log has:\n" + alarm
                elif died and not self.expect_crash:
                    problem = "the server crashed (%s); its log:\n%s" % (code, self.log_tail())
                elif code != 0 and not self.expect_crash:
                    problem = "the server ended with %s; its log:\n%s" % (code, self.log_tail())
        finally:
            self.discard()
        if problem:
            raise AssertionError(problem)

    def discard(self):
        """Kill it and remove the folder."""
        if self.process is not None:
            self.kill9()
        if self.folder_is_ours and not os.environ.get("KELVIN_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop()
        else:
            self.discard()


def read_text(path):
    with open(path) as file:
        return file.read()


def temporary_files(folder):
    """The names of the temporary files and directories of a server with this data directory."""
    return sorted(name for where in (folder, os.path.join(folder, "store")) if os.path.isdir(where) for name in os.listdir(where)
                  if name.startswith("temp-"))


def until(condition, timeout=20, what="the condition"):
    """Waits until the condition is true, and returns its value."""
    deadline, pause = time.monotonic() + (timeout * 3 if is_sanitized() else timeout), 0.002
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("%s: timeout after %s s" % (what, timeout))
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


# The seeds of this process: those of `make test` are repeatable, all other runs draw new ones.
SEEDS = random.Random(int(os.environ["KELVIN_SEEDS"])) if os.environ.get("KELVIN_SEEDS") else random.SystemRandom()


def seed_new():
    """The next seed, or the one given in SEED, to repeat a failure."""
    return int(os.environ.get("SEED") or SEEDS.randrange(1 << 32))


__all__ = ["Server", "Client", "Closed", "StartFailed", "ROOT", "REDIS", "redis_tool", "SHORT", "under_test", "is_redis",
           "is_sanitized", "scaled", "temporary_files", "until", "read_text", "seed_new", "port_free"]

"""Three sentinels of Debian's redis-server (it is the same program as redis-sentinel) that watch one primary, on loopback and free ports."""
import os
import shutil
import subprocess
import tempfile

from ..resp import Client, Error
from ..server import REDIS, port_free, until

NAME = "mymaster"
# Faster than the defaults of 10 s, 1 s, 1 s and 2 s, so that a failover takes seconds. All in milliseconds.
PERIODS = ("info-period", 500, "ping-period", 200, "ask-period", 200, "publish-period", 300, "slave-reconf-timeout", 3000, "min-link-reconnect-period", 1000)


class Sentinel:
    def __init__(self, primary_address, quorum=2, down_ms=1000, failover_ms=10000, auth=()):
        self.folder = tempfile.mkdtemp(prefix="kelvin-test-sentinel-")
        self.port = port_free()
        self.config = os.path.join(self.folder, "sentinel.conf")
        lines = ["port %d" % self.port, "bind 127.0.0.1", "dir %s" % self.folder, "logfile %s/sentinel.log" % self.folder,
                 "sentinel monitor %s %s %d %d" % (NAME, *primary_address, quorum),
                 "sentinel down-after-milliseconds %s %d" % (NAME, down_ms),
                 "sentinel failover-timeout %s %d" % (NAME, failover_ms), "sentinel parallel-syncs %s 2" % NAME]
        lines += ["sentinel %s %s %s" % (name, NAME, value) for name, value in auth]
        with open(self.config, "w") as file:
            file.write("\n".join(lines) + "\n")
        self.process = subprocess.Popen([REDIS, self.config, "--sentinel"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, cwd=self.folder)
        until(self.is_ready, 20, "a sentinel")
        self.ask("SENTINEL", "DEBUG", *PERIODS)

    def is_ready(self):
        try:
            return self.ask("PING") is not None
        except OSError:
            if self.process.poll() is not None:
                raise AssertionError("the sentinel ended:\n" + self.log()) from None
            return False

    def ask(self, *args):
        with Client(("127.0.0.1", self.port)) as client:
            return client.must(*args)

    def log(self):
        try:
            with open(os.path.join(self.folder, "sentinel.log")) as file:
                return file.read()[-6000:]
        except OSError:
            return ""

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Sentinels:
    """Three that agree about the primary. Call stop() at the end."""

    def __init__(self, primary, count=3, **options):
        self.all = []
        try:
            for _ in range(count):
                self.all.append(Sentinel(primary.address, **options))
        except BaseException:
            self.stop()
            raise

    def stop(self):
        for sentinel in self.all:
            sentinel.stop()

    @property
    def addresses(self):
        return [("127.0.0.1", sentinel.port) for sentinel in self.all]

    def facts(self, sentinel):
        reply = sentinel.ask("SENTINEL", "MASTER", NAME)
        return dict(zip((word.decode() for word in reply[::2]), (word.decode() for word in reply[1::2])))

    def replicas(self, sentinel):
        """{port: facts} of the replicas that it knows."""
        found = [dict(zip((word.decode() for word in reply[::2]), (word.decode() for word in reply[1::2])))
                 for reply in sentinel.ask("SENTINEL", "REPLICAS", NAME)]
        return {int(facts["port"]): facts for facts in found}

    def agree(self, replica_count):
        for sentinel in self.all:
            facts = self.facts(sentinel)
            if facts["flags"] != "master" or int(facts["num-other-sentinels"]) != len(self.all) - 1 or int(facts["num-slaves"]) != replica_count:
                return False
            if any(facts["flags"] != "slave" or facts["master-link-status"] != "ok" for facts in self.replicas(sentinel).values()):
                return False
            with Client(("127.0.0.1", sentinel.port)) as client:
                if isinstance(client.call("SENTINEL", "CKQUORUM", NAME), Error):
                    return False
        return True

    def wait_agreed(self, replica_count, timeout=30):
        """Until each knows the others, the primary, and this many replicas whose links are up."""
        try:
            until(lambda: self.agree(replica_count), timeout, "the sentinels agree")
        except AssertionError as error:
            raise AssertionError("%s\n%s" % (error, self.describe())) from None

    def describe(self):
        lines = []
        for sentinel in self.all:
            lines += [repr(self.facts(sentinel)), repr(self.replicas(sentinel)), sentinel.log()[-2500:]]
        return "\n".join(lines)

    def primary_ports(self):
        return {int(sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1]) for sentinel in self.all}

    def wait_primary(self, not_port, timeout=40):
        """Until all name the same primary that is another one than before; returns its port."""
        def found():
            ports = self.primary_ports()
            return ports if len(ports) == 1 and not_port not in ports else None
        try:
            return until(found, timeout, "a failover").pop()
        except AssertionError as error:
            raise AssertionError("%s\n%s" % (error, self.describe())) from None

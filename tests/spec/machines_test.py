"""docs/migrating.md on two machines: each server has a network namespace, and so have the clients, who reach both over a router. The commands are
those of the page, word by word. It takes root's rights and iproute2, and is skipped without."""
import os
import re
import shlex
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.machines import Network, why_not                                                       # noqa: E402
from support.replication.load import NumberedWriter                                                 # noqa: E402
from support.resp import Client                                                                     # noqa: E402
from support.server import REDIS, ROOT, Server, read_text, under_test, until                        # noqa: E402

PAGE = read_text(os.path.join(ROOT, "docs", "migrating.md"))
PASSWORD = "a-long-password"


class Machine(Server):
    """A server in a namespace. `login`: what its clients say to AUTH."""

    def __init__(self, network, role, binary, config, login=()):
        self.role, self.login, self.host = role, list(login), network.addresses[role]
        options = dict.fromkeys(("port", "bind", "save", "appendonly", "dir", "enable-debug-command"))
        options["port"] = 6379 if role == "old" else 6380
        super().__init__(options, binary=binary, config=config, start=False, prefix=network.inside(role))

    @property
    def address(self):
        return (self.host, self.port)

    def client(self, **options):
        client = Client(self.address, **options)
        if self.login:
            client.must("AUTH", *self.login)
        return client


@kelvin_only
class MachinesTest(unittest.TestCase):
    def setUp(self):
        reason = why_not() or (None if shutil.which("redis-cli") and os.path.exists(REDIS) else "there is no redis-server")
        if reason is not None:
            self.skipTest(reason)
        self.network = Network(["old", "new"])
        self.addCleanup(self.network.stop)
        try:
            self.network.start()
        except (subprocess.CalledProcessError, OSError) as error:
            self.skipTest("the namespaces can't be connected: %s" % (getattr(error, "stdout", None) or error))
        self.environment = {**os.environ}

    def start(self, role, binary, config, login=()):
        machine = Machine(self.network, role, binary, config, login)
        self.addCleanup(machine.discard)
        return machine.start()

    def as_documented(self, line, **values):
        """Runs a line of the page, with `old`, `new` and what is in <...> filled in. `_` in the names of values is a space there."""
        self.assertRegex(PAGE, r"(?m)^    " + re.escape(line) + r"( +#.*)?$")
        for name, value in {"password": PASSWORD, **values}.items():
            line = line.replace("<%s>" % name.replace("_", " "), str(value))
        words = [self.network.addresses.get(word, word) for word in shlex.split(line)]
        reply = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, env=self.environment, text=True)
        self.assertEqual(reply.returncode, 0, reply.stdout)
        self.assertNotRegex(reply.stdout, "ERR|NOAUTH|WRONGPASS|DENIED|NOPERM|Could not", line)
        return reply.stdout

    def documented_file(self, *more):
        """The configuration of the page, with a directory that exists."""
        block = re.search(r"`/etc/kelvin/kelvin.conf`:\n\n((?:    .*\n)+)", PAGE).group(1)
        lines = [line[4:] for line in block.splitlines()]
        self.assertIn("dir /var/lib/kelvin", lines)
        text = "\n".join(lines).replace("dir /var/lib/kelvin", "dir ./").replace("maxmemory 4gb", "maxmemory 100mb")
        return text.replace("<password>", PASSWORD) + "\n" + "".join(line + "\n" for line in more)

    def catch_up(self, old, new):
        def is_close():
            info = self.as_documented("redis-cli -h new -p 6380 info replication") if new.role == "new" else ""
            found = new.info("replication")
            return found["master_link_status"] == "up" and (not info or "master_link_status:up" in info) and \
                int(old.info("replication")["master_repl_offset"]) - int(found["slave_repl_offset"]) < 64 << 10
        until(is_close, 60, "caught up")
        until(lambda: "state=online" in old.info("replication").get("slave0", ""), 60, "slave0 is online")
        slave = dict(word.split("=") for word in old.info("replication")["slave0"].split(","))
        self.assertEqual((slave["ip"], slave["port"]), (new.host, str(new.port)))
        return {"ip_of_slave0": slave["ip"], "port_of_slave0": slave["port"]}

    def move(self, line, old, new, writer):
        """Steps 3 and 4; then the writer writes to the new primary."""
        slave = self.catch_up(old, new)
        before = len(writer.acknowledged)
        self.as_documented(line, **slave)
        until(lambda: new.info("replication")["role"] == "master" and old.info("replication")["role"] == "slave", 30, "the roles have changed")
        until(lambda: old.info("replication")["master_failover_state"] == "no-failover", 30, "the failover is over")
        writer.server = new
        until(lambda: len(writer.acknowledged) > before + 100, 30, "the writer goes on")

    def there_and_back(self, old, new, attach):
        writer = NumberedWriter(lambda: writer.server.client(timeout=30), pause_s=0.001, prefix="w")
        writer.server = old
        self.addCleanup(writer.halt.set)
        writer.start()
        with old.client() as client:
            client.pipeline([["SET", "key:%d" % number, "v" * 500] for number in range(20000)])
        attach()
        self.as_documented("redis-cli -h new -p 6380 replicaof old 6379")
        self.move("redis-cli -h old failover to <ip of slave0> <port of slave0> timeout 10000", old, new, writer)
        self.assertIn("master", self.as_documented("redis-cli -h new -p 6380 role").split())
        self.assertIn("slave", self.as_documented("redis-cli -h old role").split())
        self.assertIn("master_failover_state:no-failover", self.as_documented("redis-cli -h old info replication"))
        until(lambda: old.info("replication")["master_link_status"] == "up", 60, "the old server follows")
        self.move("redis-cli -h new -p 6380 failover to <ip of slave0> <port of slave0> timeout 10000", new, old, writer)
        self.move("redis-cli -h old failover to <ip of slave0> <port of slave0> timeout 10000", old, new, writer)
        writer.stop()
        self.assertEqual(writer.lost(new, writer.acknowledged), [])
        for error in writer.errors:
            self.assertRegex(error, "READONLY|UNBLOCKED|Closed|Connection|MASTERDOWN")
        with new.client() as client:
            self.assertGreaterEqual(client.must("DBSIZE"), 20000 + len(writer.acknowledged))
        self.as_documented("redis-cli -h old replicaof no one")
        subprocess.run(["redis-cli", "-h", old.host, "shutdown", "nosave"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.environment,
                       timeout=30)
        self.assertIn("redis-cli -h old shutdown nosave\n", PAGE)
        self.assertEqual(old.wait_end(), 0)
        with new.client() as client:
            client.must("CONFIG", "REWRITE")
        self.assertEqual(new.terminate(), 0)
        self.assertIsNone(new.alarm())

    def attach_with_password(self):
        self.assertIn("\n    export REDISCLI_AUTH=<password>\n", PAGE)
        self.environment["REDISCLI_AUTH"] = PASSWORD
        self.as_documented("redis-cli -h old config set masterauth <password>")
        self.as_documented("redis-cli -h old config set repl-backlog-size 256mb")
        self.as_documented('redis-cli -h old config set client-output-buffer-limit "replica 4gb 2gb 300"')

    def check_documented_file(self, new):
        self.assertIn("\n    kelvin-server --check /etc/kelvin/kelvin.conf\n    kelvin-server /etc/kelvin/kelvin.conf\n", PAGE)
        checked = subprocess.run([under_test(), "--check", os.path.join(new.folder, "test.conf")], cwd=new.folder, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, timeout=30, text=True)
        self.assertEqual((checked.returncode, checked.stdout), (0, "The configuration is good.\n"))

    def test_with_passwords(self):
        old = self.start("old", REDIS, "bind *\nrequirepass %s\nrepl-diskless-sync-delay 0\nsave \"\"\ndir ./\n" % PASSWORD, [PASSWORD])
        new = self.start("new", under_test(), self.documented_file(), [PASSWORD])
        self.check_documented_file(new)
        self.there_and_back(old, new, self.attach_with_password)

    def test_with_users(self):
        users = "user default on >%s ~* &* +@all\n" % PASSWORD
        old = self.start("old", REDIS, "bind *\nrepl-diskless-sync-delay 0\nsave \"\"\ndir ./\n" + users, [PASSWORD])
        self.environment["REDISCLI_AUTH"] = PASSWORD
        self.as_documented("redis-cli -h old acl setuser mover on '><password>' +psync +replconf +ping")
        self.as_documented("redis-cli -h old config set masteruser mover")
        with old.client() as client:
            lines = [line.decode() for line in client.must("ACL", "LIST")]
        text = self.documented_file("masteruser mover", *lines).replace("requirepass %s\n" % PASSWORD, "")
        new = self.start("new", under_test(), text, [PASSWORD])
        self.there_and_back(old, new, self.attach_with_password)

    def test_without_passwords(self):
        old = self.start("old", REDIS, "bind *\nprotected-mode no\nrepl-diskless-sync-delay 0\nsave \"\"\ndir ./\n")
        text = self.documented_file("protected-mode no").replace("requirepass %s\n" % PASSWORD, "").replace("masterauth %s\n" % PASSWORD, "")
        new = self.start("new", under_test(), text)
        self.assertIn("`protected-mode no` on both servers", PAGE)
        self.there_and_back(old, new, lambda: None)

    def test_without_any_of_it_another_machine_is_refused(self):
        new = self.start("new", under_test(), "bind *\ndir ./\n")
        with Client(new.address) as client:
            self.assertRegex(bytes(client.call("PING")), b"^DENIED Kelvin is running in protected mode")
        self.assertEqual(new.terminate(), 0)


if __name__ == "__main__":
    main()

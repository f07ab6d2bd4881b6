"""Every command with odd arguments: nothing ends the server, and its connections stay usable. See README.md.

With KELVIN_ORACLE=<a redis-server of the version whose behaviour Kelvin has> the kinds of the replies are compared with it.
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.odd import SETUP, OddCommands, documented, later_words                               # noqa: E402
from support.random_run import Run, state_of                                                            # noqa: E402
from support.replication.readings import differences, lasting                                           # noqa: E402
from support.resp import Error, encode, quote                                                           # noqa: E402
from support.server import Server                                                                       # noqa: E402

# They look up names or change what the server is: each has tests of its own. A pause would be as long as the number is large.
NEVER = {(b"replicaof",), (b"slaveof",), (b"failover",), (b"migrate",), (b"client", b"pause")}
# What waits, or changes its connection: on one of its own, which is closed soon after.
APART = {(name,) for name in b"""auth hello reset quit multi monitor sync psync replconf subscribe psubscribe ssubscribe unsubscribe punsubscribe
         sunsubscribe blpop brpop blmove brpoplpush blmpop bzmpop bzpopmin bzpopmax wait waitaof client""".split()}
APART_S = 0.01
APART_SHARE = 0.4       # of these: each takes as long as many others
# Replies that depend on chance, on time, or on what is Kelvin's own; and commands after which the two data sets may differ.
NOT_COMPARED = {(name,) for name in b"""acl bgrewriteaof bgsave client command config debug info latency lolwut memory module object pfdebug
                pfselftest save slowlog time lastsave spop randomkey srandmember hrandfield zrandmember script function eval eval_ro evalsha
                evalsha_ro fcall fcall_ro shutdown tier dump""".split()}
RESET_AFTER = 400
FINDINGS_MAX = 10


def kind(reply):
    return "error" if isinstance(reply, Error) else type(reply).__name__


class ArgumentsTest(unittest.TestCase):
    def setUp(self):
        self.test = Run("arguments")
        random = self.test.random
        self.server = self.begin(Server({"io-threads": 2, "maxmemory": "60mb", "appendonly": random.choice(("yes", "no"))}))
        path = os.environ.get("KELVIN_ORACLE")
        self.oracle = self.begin(Server(binary=path)) if path else None
        with self.server.client() as client:
            self.odd = OddCommands(client, self.test.seed, NEVER)
        if self.oracle:
            with self.oracle.client() as client:
                self.known = documented(client)
            with self.server.client() as client:
                self.later = later_words(documented(client), self.known)
        self.protocol = random.choice((2, 3))
        self.count, self.history, self.findings = 0, [], []
        self.connect()

    def begin(self, server):
        self.addCleanup(server.discard)
        return server

    def connect(self):
        for name in ("client", "other"):
            if getattr(self, name, None):
                getattr(self, name).close()
        self.client = self.server.client(protocol=self.protocol)
        self.other = self.oracle.client(protocol=self.protocol) if self.oracle else None

    def test_odd_arguments(self):
        self.reset()
        while self.test.goes_on():
            self.once()
            if len(self.history) > RESET_AFTER:
                if self.test.random.random() < 0.2:
                    self.check_log()
                self.reset()
        self.check_log()
        for client in filter(None, (self.client, self.other)):
            client.close()
        self.server.stop()
        self.test.report("%d commands" % self.count)
        self.assertEqual(self.findings, [], "replies of another kind than those of the oracle")

    def check_log(self):
        """What changed the data is in the log."""
        if self.server.options["appendonly"] == "no":
            return
        before = lasting(self.server)
        self.server.restart()
        self.assertEqual(differences(before, lasting(self.server)), [], "before and after a start, KELVIN_SEED=%d, %d commands" % (
            self.test.seed, self.count))
        self.connect()

    def reset(self):
        self.history = []
        for client in filter(None, (self.client, self.other)):
            client.pipeline([[b"SELECT", b"0"], [b"FLUSHALL"]] + [line.split() for line in SETUP])

    def name_of(self, args):
        name = tuple(word.lower() for word in args[:2])
        return name if name in self.odd.tokens else name[:1]

    def once(self):
        args, random = self.odd.next(), self.test.random
        name = self.name_of(args)
        if name == (b"shutdown",):
            args.append(b"odd")                     # never valid
        waits = b"BLOCK" in [word.upper() for word in args]
        if random.random() < 0.05:
            commands = [self.odd.changed() if random.random() < 0.8 else self.odd.next() for _ in range(random.randrange(1, 4))]
            commands = [args for args in commands if not self.is_apart(args) and self.name_of(args) != (b"shutdown",)]
            self.plain([[b"MULTI"]] + commands + [[b"EXEC"]])
        elif random.random() < 0.04:
            self.plain([[b"EVAL", b"return redis.pcall(unpack(ARGV))", b"0"] + args])
        elif random.random() < 0.05:
            self.demote()
        elif waits or self.is_apart(args):
            if random.random() < APART_SHARE:
                self.apart(args)
        else:
            self.plain([args])

    def demote(self):
        """All keys of the database."""
        keys = self.exchange(self.client, self.server, [[b"KEYS", b"*"]])[0]
        if isinstance(keys, list) and keys:
            self.exchange(self.client, self.server, [[b"TIER", b"DEMOTE"] + keys])

    def is_apart(self, args):
        return (args[0].lower(),) in APART

    def plain(self, commands):
        """On the connection that must stay usable: an ECHO has to come back after them."""
        self.count += len(commands)
        if self.oracle:
            return self.compare(commands)
        replies = self.exchange(self.client, self.server, commands)
        self.history.append(commands)
        return replies

    def exchange(self, client, server, commands):
        token = b"echo %d" % self.count
        try:
            replies = client.pipeline(commands + [[b"ECHO", token]])
            self.assertEqual(replies[-1], token)
            return replies
        except (OSError, ValueError, AssertionError) as error:
            self.fail("KELVIN_SEED=%d, command %d: %r after\n    %s\n%s" % (
                self.test.seed, self.count, error, "\n    ".join(quote(args) for args in commands), state_of(server)))

    def apart(self, args):
        """On a connection of its own, which is closed after a moment, with more commands after it. It may have ended others, so they begin again."""
        random = self.test.random
        more = [each for each in (self.odd.next() for _ in range(random.choice((0, 0, 1, 4)))) if self.name_of(each) != (b"shutdown",)]
        if random.random() < 0.3:
            more = [[b"MULTI"]] + more + [[b"PING"], [b"CLIENT", b"LIST"], [b"EXEC"]]
        self.count += 1 + len(more)
        with self.server.client(timeout=APART_S) as client:
            try:
                client.send(b"".join(map(encode, [args] + more + [[b"PING"]])))
                for _ in range(3):
                    client.receive()
            except OSError:
                pass                                # it waits, or was closed
        try:
            self.connect()
        except OSError as error:
            self.fail("KELVIN_SEED=%d, command %d: %r after\n    %s\n%s" % (
                self.test.seed, self.count, error, " ; ".join(map(quote, [args] + more)), state_of(self.server)))
        self.exchange(self.client, self.server, [])
        if self.oracle and (more or args[0].lower() not in (b"client",)):
            self.reset()

    # With an oracle

    def is_comparable(self, args):
        name = self.name_of(args)
        if name not in self.known or name in NOT_COMPARED or name[:1] in NOT_COMPARED:
            return False
        return not self.later[name[0]] & {word.upper() for word in args}

    def compare(self, commands):
        inner = [args for args in commands if args not in ([b"MULTI"], [b"EXEC"])]
        if not all(map(self.is_comparable, inner)):
            if self.test.random.random() < 0.1:     # both begin again after it, which takes time
                self.exchange(self.client, self.server, commands)
                self.reset()
            return None
        self.history.append(commands)
        if self.replies_equal(commands):
            return None
        # Time or chance may be the reason: it counts if it comes again.
        again, self.history = self.history, []
        self.reset()
        for each in again[:-1]:
            for client, server in ((self.client, self.server), (self.other, self.oracle)):
                self.exchange(client, server, each)
        pair = self.replies_equal(commands, True)
        if pair:
            self.findings.append("%s: %s" % (" ; ".join(map(quote, commands)), pair))
            self.test.report(self.findings[-1])
            self.assertLess(len(self.findings), FINDINGS_MAX, "replies of another kind than those of the oracle")
        self.reset()
        return None

    def replies_equal(self, commands, shown=False):
        mine = self.exchange(self.client, self.server, commands)
        theirs = self.exchange(self.other, self.oracle, commands)
        is_equal = list(map(kind, mine)) == list(map(kind, theirs))
        if shown:
            return None if is_equal else "%.200r, the oracle: %.200r" % (mine[:-1], theirs[:-1])
        return is_equal


if __name__ == "__main__":
    unittest.main()

"""TIER PIN, UNPIN, PINNED and RULE: what stays in RAM, and what leaves it first; the file that keeps the rules, and its errors."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                               # noqa: E402
from support.resp import OK, Error                                                                   # noqa: E402
from support.server import Server, until                                                             # noqa: E402

MB = 1 << 20
OPTIONS = {"maxmemory": 24 * MB, "save": "", "partitions": 4, "tier-block-cache": MB}


class RulesCase(ServerCase):
    options = OPTIONS

    def setUp(self):
        super().setUp()
        for name in self.c.must("TIER", "PINNED"):
            self.c.must("TIER", "UNPIN", name)
        for rule in self.c.must("TIER", "RULE", "LIST"):
            self.c.must("TIER", "RULE", "DEL", rule[0])

    def where(self, key):
        reply = self.c.must("TIER", "WHERE", key)
        return None if reply is None else bytes(reply).decode()

    def press(self, name="press", size=64 * MB):
        """Writes more than the memory has, twice, so that everything that may be demoted is."""
        for start in range(0, size // 1000, 500):
            self.c.pipeline(["SET", "%s:%d" % (name, i), "x" * 1000] for i in range(start, start + 500))

    def hot(self, keys):
        return sum(self.where(key) == "hot" for key in keys)


@kelvin_only
class PinTest(RulesCase):
    def test_pinned_keys_stay_while_others_go(self):
        pinned, others = ["pinned:%d" % i for i in range(100)], ["other:%d" % i for i in range(100)]
        self.c.pipeline(["SET", key, "v"] for key in pinned + others)
        self.c.must("TIER", "DEMOTE", *pinned[:50])
        self.assertEqual(self.c.must("TIER", "PIN", "missing", *pinned), 100)
        self.assertEqual(self.hot(pinned), 100)
        self.assertEqual(self.c.must("TIER", "PIN", pinned[0]), 1)
        self.assertEqual(sorted(self.c.must("TIER", "PINNED")), sorted(key.encode() for key in pinned))
        self.press()
        self.assertEqual(self.hot(pinned), 100)
        self.assertLess(self.hot(others), 50)
        self.assertEqual(self.c.must("TIER", "DEMOTE", *pinned), 0)
        self.assertEqual(self.c.must("TIER", "UNPIN", "missing", *pinned[:99]), 99)
        self.assertEqual(self.c.must("TIER", "DEMOTE", *pinned), 99)
        self.assertEqual(self.c.must("TIER", "PINNED"), [pinned[99].encode()])

    def test_a_pin_is_of_a_name_in_a_database(self):
        self.c.must("SET", "k", 1)
        self.assertEqual(self.c.must("TIER", "PIN", "k"), 1)
        self.c.must("DEL", "k")
        self.c.must("SET", "k", 2)
        self.assertEqual(self.c.must("TIER", "DEMOTE", "k"), 0)
        self.c.must("SELECT", 1)
        self.c.must("SET", "k", 1)
        self.assertEqual(self.c.must("TIER", "PINNED"), [])
        self.assertEqual(self.c.must("TIER", "UNPIN", "k"), 0)
        self.assertEqual(self.c.must("TIER", "DEMOTE", "k"), 1)
        self.c.must("SELECT", 0)

    def test_more_pins_than_memory_end_in_an_error_of_memory(self):
        """And the server works on when they go."""
        keys = ["big:%d" % i for i in range(40)]
        refused = 0
        for key in keys:
            if isinstance(self.c.call("SET", key, "x" * MB), Error):
                refused += 1
                break
            self.c.call("TIER", "PIN", key)
        self.assertEqual(refused, 1)
        self.c.must("TIER", "UNPIN", *keys)
        until(lambda: self.c.call("SET", "after", "x" * MB) == OK)

    def test_keys_are_loaded_and_kept_when_a_transaction_has_them(self):
        self.c.must("SET", "k", 1)
        self.c.must("MULTI")
        self.assertIsInstance(self.c.call("TIER", "PIN", "k"), Error)
        self.assertIsInstance(self.c.call("EXEC"), Error)


@kelvin_only
class RuleTest(RulesCase):
    def test_never_cold(self):
        sessions = ["session:%d" % i for i in range(200)]
        self.assertEqual(self.c.must("TIER", "RULE", "ADD", "session:*", "never-cold"), OK)
        self.c.pipeline(["SET", key, "v"] for key in sessions)
        self.press()
        self.assertEqual(self.hot(sessions), 200)
        self.assertEqual(self.c.must("TIER", "RULE", "DEL", "session:*"), 1)
        self.press("again")
        self.assertLess(self.hot(sessions), 100)

    def test_cold_first(self):
        """Keys that are used much go before those that are never read, when the rule says so."""
        logs, others = ["log:%d" % i for i in range(3000)], ["other:%d" % i for i in range(3000)]
        self.c.must("TIER", "RULE", "ADD", "log:*", "cold-first")
        self.c.pipeline(["SET", key, "x" * 1000] for key in logs + others)
        for _ in range(8):
            self.c.pipeline(["GET", key] for key in logs)
        self.press("some", 21 * MB)
        self.assertEqual(self.hot(logs), 0)
        self.assertGreater(self.hot(others), 300)

    def test_min_idle(self):
        """Idle time is counted in minutes, so the test is of what was used just now."""
        kept, others = ["kept:%d" % i for i in range(200)], ["other:%d" % i for i in range(200)]
        self.c.must("TIER", "RULE", "ADD", "kept:*", "min-idle", 3600)
        self.c.pipeline(["SET", key, "v"] for key in kept + others)
        self.press()
        self.assertEqual(self.hot(kept), 200)
        self.assertLess(self.hot(others), 100)

    def test_the_list_keeps_its_order_and_errors_change_nothing(self):
        self.c.must("TIER", "RULE", "ADD", "a*", "never-cold")
        self.c.must("TIER", "RULE", "ADD", "b c", "min-idle", "60")
        self.c.must("TIER", "RULE", "ADD", "a*", "cold-first")
        rules = [[b"a*", b"cold-first"], [b"b c", b"min-idle", 60]]
        self.assertEqual(self.c.must("TIER", "RULE", "LIST"), rules)
        for words in (["ADD", "x"], ["ADD", "x", "hot"], ["ADD", "x", "min-idle"], ["ADD", "x", "min-idle", "0"], ["ADD", "x", "min-idle", "1e9"],
                      ["ADD", "x", "min-idle", "2592001"], ["ADD", "x", "never-cold", "1"], ["DEL"], ["LIST", "x"], ["FOO"]):
            self.assertIsInstance(self.c.call("TIER", "RULE", *words), Error, words)
        self.assertEqual(self.c.must("TIER", "RULE", "DEL", "x"), 0)
        self.assertEqual(self.c.must("TIER", "RULE", "LIST"), rules)
        for i in range(62):
            self.c.must("TIER", "RULE", "ADD", "more:%d" % i, "never-cold")
        self.assertIn("64", str(self.c.call("TIER", "RULE", "ADD", "one more", "never-cold")))


@kelvin_only
class SavedTest(ServerCase):
    options = OPTIONS

    def names(self, client):
        return client.must("TIER", "RULE", "LIST"), sorted(client.must("TIER", "PINNED"))

    def own_server(self, start=True):
        server = Server(OPTIONS, start=start)
        self.addCleanup(server.discard)
        return server

    def write(self, server, text):
        with open(os.path.join(server.folder, "tier.rules"), "w") as file:
            file.write(text)

    def test_rules_outlive_a_kill(self):
        odd = bytes(range(256))
        server = self.own_server()
        with server.client() as client:
            client.must("SET", odd, 1)
            client.must("SET", "", 1)
            client.must("TIER", "PIN", odd, "")
            client.must("TIER", "RULE", "ADD", odd, "cold-first")
            client.must("TIER", "RULE", "ADD", "", "min-idle", 7)
            before = self.names(client)
        self.assertEqual([len(names) for names in before], [2, 2])
        server.kill9()
        server.start()
        with server.client() as client:
            self.assertEqual(self.names(client), before)
            client.must("FLUSHALL")
            client.must("SET", odd, 2)
            self.assertEqual(client.must("TIER", "DEMOTE", odd), 0)

    def test_a_change_that_cannot_be_saved_is_not_made(self):
        server = self.own_server()
        aside = os.path.join(server.folder, "tier.rules.tmp")
        os.mkdir(aside)
        with server.client() as client:
            client.must("SET", "k", 1)
            for words in (["RULE", "ADD", "a", "never-cold"], ["PIN", "k"]):
                self.assertIn("tier.rules can't be written", str(client.call("TIER", *words)))
            self.assertEqual(self.names(client), ([], []))
            self.assertEqual(client.must("TIER", "DEMOTE", "k"), 1)
            os.rmdir(aside)
            client.must("TIER", "RULE", "ADD", "a", "never-cold")
            self.assertEqual(self.names(client), ([[b"a", b"never-cold"]], []))

    def test_no_more_is_saved_than_a_start_reads(self):
        long = b"\x01" * (17 * MB)              # four times as many bytes in the file
        server = self.own_server()
        with server.client(timeout=60) as client:
            client.must("MSET", "k", 1, long, 1)
            client.must("TIER", "PIN", "k")
            self.assertIn("tier.rules would be larger than 64 MB", str(client.call("TIER", "PIN", long)))
            self.assertIn("tier.rules would be larger than 64 MB", str(client.call("TIER", "RULE", "ADD", long, "never-cold")))
            self.assertEqual(self.names(client), ([], [b"k"]))
        server.kill9()
        server.start()
        with server.client() as client:
            self.assertEqual(self.names(client), ([], [b"k"]))

    def test_a_file_that_is_wrong_stops_the_start(self):
        for text, reason in (("rule a", "line 1: syntax error"), ("# a comment\n\npin x k", "line 3: it is neither"), ('pin 0 "', "line 1: unbalanced")):
            server = self.own_server(start=False)
            self.write(server, text)
            with self.assertRaises(Exception) as failed:
                server.start()
            self.assertIn("tier.rules, " + reason, str(failed.exception))
        server = self.own_server(start=False)
        self.write(server, '# by hand\nrule "a b" never-cold\npin 3 "\\x00"\n')
        server.start()
        with server.client() as client:
            self.assertEqual(self.names(client), ([[b"a b", b"never-cold"]], []))
            client.must("SELECT", 3)
            self.assertEqual(client.must("TIER", "PINNED"), [b"\0"])


if __name__ == "__main__":
    main()

"""The status page of metrics-port, without a browser: /status.json compared with INFO and TIER ADVISE, problems, progress, users, names of keys; the HTML and its
headers. tests/browser has a real browser."""
import base64
import errno
import hashlib
import json
import os
import random
import re
import socket
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.disk import FAIL, Disk                                                                 # noqa: E402
from support.openmetrics import get                                                                 # noqa: E402
from support.resp import Error                                                                      # noqa: E402
from support.server import Server, is_sanitized, port_free, scaled, until                           # noqa: E402

NUMBER, TEXT, FLAG = (int, float), (str,), (bool,)
OPTIONAL = (type(None),)
# What is always there: {member: types, or the same of an object, or [of the elements of an array]}.
POINT = {"factor": NUMBER, "maxmemory": NUMBER, "hit_ratio": NUMBER, "reads_per_second": NUMBER, "mean_usec": NUMBER + OPTIONAL, "p99_usec": NUMBER + OPTIONAL}
SCHEMA = {
    "server": {"version": TEXT, "redis_version": TEXT, "mode": TEXT, "role": TEXT, "state": TEXT, "port": NUMBER, "uptime_seconds": NUMBER, "time_ms": NUMBER, "workers": NUMBER},
    "ready": FLAG, "problems": [{"level": TEXT, "what": TEXT, "do": TEXT, "detail": TEXT + OPTIONAL}],
    "progress": [{"kind": TEXT, "what": TEXT, "unit": TEXT, "done": NUMBER, "total": NUMBER + OPTIONAL, "seconds_left": NUMBER + OPTIONAL}],
    "clients": {"connected": NUMBER, "max": NUMBER, "blocked": NUMBER, "waiting_for_memory": NUMBER, "waiting_for_memory_ms": NUMBER},
    "commands": {"processed": NUMBER, "per_second": NUMBER, "error_replies": NUMBER},
    "memory": {"counted": NUMBER, "max": NUMBER, "used": NUMBER, "peak": NUMBER, "resident": NUMBER,
               "parts": {name: NUMBER for name in ("dataset", "tables", "tier", "clients", "aof_buffer", "scripts", "startup")}},
    "keys": {"hot": NUMBER, "cold": NUMBER, "hot_bytes": NUMBER, "record_bytes": NUMBER, "expired": NUMBER, "evicted": NUMBER,
             "by_uses": [{"uses": NUMBER, "keys": NUMBER, "bytes": NUMBER}]},
    "tier": {"state": TEXT, "hot_hits": NUMBER, "cold_hits": NUMBER, "hit_ratio": NUMBER + OPTIONAL, "promotions": NUMBER, "demotions": NUMBER, "demoting": FLAG,
             "dirty_keys": NUMBER, "loads_waiting": NUMBER, "load_p50_us": NUMBER, "load_p99_us": NUMBER, "store_bytes": NUMBER, "store_max_bytes": NUMBER,
             "segment_bytes": NUMBER, "segment_live_bytes": NUMBER, "errors": NUMBER, "damaged_records": NUMBER, "last_error": TEXT + OPTIONAL},
    "advice": {"state": TEXT, "sampled_uses": NUMBER, "sampled_uses_needed": NUMBER, "seconds": NUMBER, "known": NUMBER + OPTIONAL, "sizes": [POINT], "curve": [POINT]},
    "persistence": {"aof": FLAG, "aof_ok": FLAG, "aof_size": NUMBER, "aof_replay_bytes": NUMBER,
                    "checkpoint": {"running": FLAG, "running_ms": NUMBER + OPTIONAL, "last_ms": NUMBER + OPTIONAL, "ended_seconds_ago": NUMBER + OPTIONAL, "count": NUMBER,
                                   "failures": NUMBER},
                    "dump": {"running": FLAG, "ok": FLAG, "time_ms": NUMBER, "changes_since": NUMBER}, "backup": {"running": FLAG, "ok": FLAG, "time_ms": NUMBER}},
    "replication": {"offset": NUMBER, "primary": {"host": TEXT, "port": NUMBER, "link": TEXT, "up": FLAG, "down_seconds": NUMBER + OPTIONAL, "syncing": FLAG},
                    "replica_count": NUMBER, "replicas": [{"ip": TEXT, "port": NUMBER, "state": TEXT, "lag_bytes": NUMBER, "lag_seconds": NUMBER}]},
    "cluster": {"ok": FLAG, "nodes": NUMBER, "slots": NUMBER, "slots_assigned": NUMBER, "slots_owned": NUMBER},
    "hot_keys": {"state": TEXT},
    "hour": {"step_seconds": NUMBER, "columns": [TEXT], "samples": [[NUMBER]]},
}
MAY_BE_NULL = {"primary", "cluster", "sizes", "curve"}
# Members and the fields of INFO that have the same number, while nothing changes.
SAME = [
    ("server.port", "tcp_port"), ("clients.max", "maxclients"), ("clients.blocked", "blocked_clients"), ("commands.error_replies", "total_error_replies"),
    ("memory.max", "maxmemory"), ("keys.hot", "tier_hot_keys"), ("keys.cold", "tier_cold_keys"), ("keys.hot_bytes", "tier_hot_bytes"),
    ("keys.record_bytes", "tier_segment_live_bytes"), ("keys.expired", "expired_keys"), ("keys.evicted", "evicted_keys"), ("tier.hot_hits", "tier_hot_hits"),
    ("tier.cold_hits", "tier_cold_hits"), ("tier.promotions", "tier_promotions"), ("tier.demotions", "tier_demotions"), ("tier.dirty_keys", "tier_dirty_keys"),
    ("tier.load_p50_us", "tier_load_usec_p50"), ("tier.load_p99_us", "tier_load_usec_p99"), ("tier.store_bytes", "tier_store_bytes"), ("tier.errors", "tier_errors"),
    ("tier.damaged_records", "tier_damaged_records"), ("persistence.aof_size", "aof_current_size"), ("persistence.checkpoint.count", "aof_rewrites"),
    ("persistence.checkpoint.failures", "aof_rewrites_consecutive_failures"), ("persistence.dump.changes_since", "rdb_changes_since_last_save"),
    ("replication.offset", "master_repl_offset"), ("replication.replica_count", "connected_slaves"),
]


def check(value, schema, path=""):
    """Raises ValueError where a value is not as the schema says, or has more or fewer members."""
    if isinstance(schema, tuple):
        if type(value) not in schema:
            raise ValueError("%s: %r" % (path, value))
    elif isinstance(schema, list):
        for index, element in enumerate(value):
            check(element, schema[0], "%s[%d]" % (path, index))
    elif path.startswith(".hot_keys") or set(value) == set(schema):
        for name, inner in schema.items():
            if value[name] is not None or name not in MAY_BE_NULL:
                check(value[name], inner, path + "." + name)
    else:
        raise ValueError("%s: members %s" % (path, set(value) ^ set(schema)))


def member(status, path):
    for name in path.split("."):
        status = status[name]
    return status


@kelvin_only
class StatusTest(unittest.TestCase):
    def begin(self, folder=None, environment=None, **options):
        self.server = Server({"metrics-port": port_free(), **{name.replace("_", "-"): value for name, value in options.items()}}, folder=folder, environment=environment)
        self.addCleanup(self.server.stop)
        self.port = self.server.options["metrics-port"]
        self.c = self.server.client()
        self.addCleanup(self.c.close)

    def status(self, port=None, **options):
        code, headers, body = get(port or self.port, "/status.json", **options)
        self.assertEqual((code, headers["Content-Type"], headers["Cache-Control"]), (200, "application/json", "no-store"), body)

        def unique(pairs):
            self.assertEqual(len(dict(pairs)), len(pairs))
            return dict(pairs)
        found = json.loads(body, object_pairs_hook=unique, parse_constant=lambda word: self.fail(word))
        check(found, SCHEMA)
        return found

    def problems(self, level, **options):
        return [problem["what"] for problem in self.status(**options)["problems"] if problem["level"] == level]

    # Numbers

    def test_numbers_are_those_of_info(self):
        self.begin(appendonly="yes", appendfsync="always", maxmemory="100mb")
        for i in range(100):
            self.c.must("SET", "k%d" % i, "v" * 100)
        self.c.must("SET", "gone", 1, "PX", 1)
        until(lambda: self.c.call("EXISTS", "gone") == 0)
        self.c.call("INCR", "k1")
        self.assertEqual(self.c.must("TIER", "DEMOTE", *["k%d" % i for i in range(50)]), 50)
        for i in range(10):
            self.c.must("GET", "k%d" % i)
        found = []

        def settled():
            info, status, after = self.server.info(), self.status(), self.server.info()
            found[:] = [(path, member(status, path), info[field]) for path, field in SAME if info[field] == after[field] and member(status, path) != float(info[field])]
            return found == [] and sum(info[field] == after[field] for _, field in SAME) > len(SAME) - 5 and (info, status)
        try:
            info, status = until(settled)
        except AssertionError:
            self.assertEqual(found, [])
            raise
        self.assertEqual(status["tier"]["state"], "ok")
        self.assertEqual((status["keys"]["hot"], status["keys"]["cold"]), (60, 40))
        self.assertAlmostEqual(status["tier"]["hit_ratio"], float(info["tier_hit_ratio"]), delta=0.01)
        for path, field in (("memory.used", "used_memory"), ("memory.counted", "tier_memory_counted"), ("memory.resident", "used_memory_rss")):
            if not is_sanitized():                              # memory is hardly counted there
                self.assertAlmostEqual(member(status, path) / int(info[field]), 1, delta=0.5, msg=path)
        self.assertEqual((status["server"]["state"], status["server"]["role"], status["server"]["mode"], status["ready"]), ("ready", "primary", "standalone", True))
        self.assertEqual((status["cluster"], status["replication"]["primary"], status["progress"], status["problems"]), (None, None, [], []))

    def test_keys_by_uses_are_those_of_tier_uses(self):
        self.begin()
        keys = ["k%d" % i for i in range(1000)]
        for db in (0, 3):
            self.c.must("SELECT", db)
            self.c.pipeline([("SET", key, "v" * 50) for key in keys])
            self.c.pipeline([("GET", key) for key in keys[:300]])
        totals = {}
        for db in (0, 3):
            self.c.must("SELECT", db)
            for uses, count, _ in self.c.must("TIER", "USES"):
                totals[uses] = totals.get(uses, 0) + count
        rows = self.status()["keys"]["by_uses"]
        self.assertEqual([row["uses"] for row in rows], list(range(8)))
        self.assertAlmostEqual(sum(row["keys"] for row in rows), 2000, delta=8)
        for row in rows:                                        # a partition's segment has about 16 of these keys: all are looked at
            self.assertAlmostEqual(row["keys"], totals.get(row["uses"], 0), delta=1)
        self.assertAlmostEqual(sum(row["bytes"] for row in rows) / self.status()["keys"]["hot_bytes"], 1, delta=0.5)

    def test_many_keys_are_sampled(self):
        self.begin()
        count = 60000 if not is_sanitized() else 20000
        for start in range(0, count, 1000):
            self.c.pipeline([("SET", "key:%06d" % i, "v" * 40) for i in range(start, start + 1000)])
            self.c.pipeline([("GET", "key:%06d" % i) for i in range(start, start + 1000) if i % 4 == 0])
        rows = {row["uses"]: row["keys"] for row in self.status()["keys"]["by_uses"]}
        self.assertAlmostEqual(sum(rows.values()), count, delta=8)
        self.assertAlmostEqual(sum(keys for uses, keys in rows.items() if uses > 0) / count, 0.25, delta=0.05)

    def test_advice_is_that_of_tier_advise(self):
        self.begin(maxmemory="20mb")
        self.assertEqual(self.status()["advice"]["state"], "few_uses")
        chance = random.Random(1)
        for start in range(0, 60000, 1000):
            self.c.pipeline([("SET", "key:%06d" % i, "v" * 400) for i in range(start, start + 1000)])

        def known():
            self.c.pipeline([("GET", "key:%06d" % int(60000 * chance.random() ** 4)) for _ in range(scaled(4000))])
            return self.status()["advice"]["state"] == "known"
        until(known, 60)
        found = []

        def equal():
            before, advice, after = self.c.must("TIER", "ADVISE"), self.status()["advice"], self.c.must("TIER", "ADVISE")
            replied = [dict(zip(size[::2], size[1::2])) for size in dict(zip(before[::2], before[1::2]))[b"sizes"]]
            found[:] = [replied, advice]
            return before == after
        until(equal)
        replied, advice = found
        self.assertEqual([size["factor"] for size in advice["sizes"]], [0.25, 0.5, 1, 2, 4])
        for mine, theirs in zip(advice["sizes"], replied):
            self.assertEqual(mine["maxmemory"], theirs[b"maxmemory"])
            for name, field in (("hit_ratio", b"hit_ratio"), ("reads_per_second", b"reads_per_second"), ("p99_usec", b"p99_usec")):
                self.assertAlmostEqual(mine[name] or 0, float(theirs[field] or 0), delta=0.1, msg=name)
        curve = advice["curve"]
        self.assertEqual(len(curve), 16)
        self.assertEqual([point["factor"] for point in curve], sorted(point["factor"] for point in curve))
        self.assertEqual({point["maxmemory"] for point in advice["sizes"][1:]} - {point["maxmemory"] for point in curve}, set())

    def test_the_last_hour(self):
        self.begin(maxmemory="100mb")
        self.assertEqual(self.status()["hour"]["samples"], [])
        self.assertEqual(self.status()["hour"]["step_seconds"], 10)
        for i in range(20):
            self.c.must("SET", "k%d" % i, "v")
        self.assertEqual(self.c.must("TIER", "DEMOTE", *["k%d" % i for i in range(20)]), 20)
        for i in range(40):
            self.c.must("GET", "k%d" % (i % 20))
        hour = until(lambda: self.status()["hour"]["samples"] and self.status()["hour"], 30)
        sample = dict(zip(hour["columns"], hour["samples"][0]))
        self.assertEqual((sample["cold"], sample["hot"], sample["loads"], sample["memory_max"]), (20, 20, 20, 100 << 20))
        self.assertGreaterEqual(sample["commands"], 60)
        self.assertGreaterEqual(sample["span_ms"], 10000)
        self.assertTrue(0 < sample["load_p50_us"] <= sample["load_p99_us"])
        self.assertTrue(0 < sample["memory"] < 100 << 20)
        self.assertAlmostEqual(sample["time_ms"] / self.status()["server"]["time_ms"], 1, delta=1e-6)
        # Nothing is kept while the port is closed; the port's thread looks twice a second.
        self.c.must("CONFIG", "SET", "metrics-port", 0)
        closed_s = int(self.server.info()["uptime_in_seconds"])
        until(lambda: int(self.server.info()["uptime_in_seconds"]) > closed_s + 2)
        self.c.must("CONFIG", "SET", "metrics-port", self.port)
        self.assertEqual(self.status()["hour"]["samples"], [])

    # What there is to say

    def test_states_without_advice(self):
        self.begin()
        self.assertEqual(self.status()["advice"]["state"], "no_maxmemory")
        self.assertTrue(any("maxmemory is 0" in what for what in self.problems("note")))
        self.assertTrue(any("Nothing is kept over a restart" in what for what in self.problems("note")))
        self.c.must("CONFIG", "SET", "save", "3600 1")
        self.assertTrue(any("There is no log" in what for what in self.problems("note")))
        self.c.must("CONFIG", "SET", "maxmemory", "100mb", "tier-advise", "no")
        self.assertEqual(self.status()["advice"]["state"], "not_sampled")
        self.assertEqual(self.problems("error") + self.problems("warning"), [])

    def test_without_a_tier(self):
        self.begin(**{"tier-enabled": "no"})
        self.c.must("SET", "k", "v")
        status = self.status()
        self.assertEqual((status["tier"]["state"], status["advice"]["state"], status["keys"]["hot"], status["keys"]["cold"]), ("off", "no_tier", 1, 0))
        if not is_sanitized():                                  # memory is hardly counted there
            self.c.must("CONFIG", "SET", "maxmemory", 1)
            self.assertEqual([what for what in self.problems("error") if "Memory is used up" in what], self.problems("error"))
            self.assertEqual(len(self.problems("error")), 1)
            self.c.must("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
            self.assertTrue(any("Memory is over its limit" in what for what in self.problems("warning")))

    def test_problems_of_files(self):
        self.begin(appendonly="yes")
        os.makedirs(os.path.join(self.server.folder, "dump.rdb", "x"))
        self.assertEqual(self.problems("error") + self.problems("warning"), [])
        self.c.must("BGSAVE")
        until(lambda: "The last dump (BGSAVE) has failed." in self.problems("warning"))
        self.assertIsInstance(self.c.call("TIER", "BACKUP", os.path.join(self.server.folder, "no", "such")), Error)
        self.assertIn("The last backup (TIER BACKUP) has failed.", self.problems("warning"))
        for problem in self.status()["problems"]:
            self.assertTrue(problem["do"].endswith("."), problem)

    def test_reads_of_the_store_that_fail(self):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        disk = Disk(folder)
        self.begin(folder=folder, environment=disk.environment)
        self.server.folder_is_ours = True
        self.c.must("SET", "secret-name", "v")
        self.assertEqual(self.c.must("TIER", "DEMOTE", "secret-name"), 1)
        disk.rule(0, "read", "store/*.seg", FAIL, error=errno.EIO)
        self.assertIsInstance(self.c.call("GET", "secret-name"), Error)
        problem = [problem for problem in self.status()["problems"] if problem["level"] == "error"][0]
        self.assertRegex(problem["what"], r"^\d+ reads? or writes? of the store ha(s|ve) failed, the last one less than a minute ago\.$")
        self.assertIn("secret-name", problem["detail"])
        # The text of an error may have a name of a key in it.
        self.c.must("ACL", "SETUSER", "watcher", "on", ">w", "+info")
        self.assertNotIn("secret-name", json.dumps(self.status(user=("watcher", "w"))))

    def test_a_store_that_is_full(self):
        self.begin(maxmemory="20mb", **{"maxmemory-policy": "allkeys-lru", "tier-max-size": "2mb"})
        if is_sanitized():
            self.skipTest("memory is hardly counted there")

        def full():
            self.c.pipeline([("SET", "key:%d" % random.randrange(1000000), os.urandom(500)) for _ in range(2000)])
            return "The store of cold keys is full: no key can be moved to the disk." in self.problems("error")
        until(full, 60)
        self.assertEqual(self.status()["tier"]["state"], "full")

    def test_a_replica_its_primary_and_its_link(self):
        self.begin()
        with Server({"metrics-port": port_free(), "replicaof": ["127.0.0.1", self.server.port]}) as replica:
            port = replica.options["metrics-port"]
            until(lambda: self.status(port)["replication"]["primary"]["up"])
            self.c.must("SET", "k", "v")
            primary = until(lambda: [found for found in [self.status()["replication"]] if found["replicas"] and found["replicas"][0]["lag_bytes"] == 0])[0]
            self.assertEqual((primary["replica_count"], primary["replicas"][0]["port"], primary["replicas"][0]["state"]), (1, replica.port, "online"))
            status = self.status(port)
            self.assertEqual((status["server"]["role"], status["replication"]["primary"]["port"], status["ready"]), ("replica", self.server.port, True))
            self.assertEqual([problem for problem in status["problems"] if problem["level"] != "note"], [])
            self.server.kill9()
            until(lambda: any("The link to the primary 127.0.0.1:%d has been down for " % self.server.port in what for what in self.problems("warning", port=port)))
            with replica.client() as on_replica:
                on_replica.must("CONFIG", "SET", "replica-serve-stale-data", "no")
            self.assertTrue(any("replica-serve-stale-data" in what for what in self.problems("error", port=port)))
            self.assertFalse(self.status(port)["ready"])
        self.server.expect_crash = True

    def test_a_node_of_a_cluster(self):
        self.begin(cluster_enabled="yes", cluster_port=port_free())
        status = self.status()
        self.assertEqual((status["server"]["mode"], status["cluster"]["ok"], status["cluster"]["slots_owned"]), ("cluster", False, 0))
        self.assertEqual(self.problems("error"), ["The cluster is down, as this node sees it."])
        self.c.must("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        until(lambda: self.status()["cluster"]["ok"])
        self.assertEqual(self.status()["cluster"]["slots_owned"], 16384)

    def test_while_the_data_is_loaded(self):
        self.begin(appendonly="yes", appendfsync="no")
        for i in range(3000):
            self.c.must("SET", "k%d" % i, "v" * 100)

        def loading():
            found = self.status()
            return found["progress"] and found["progress"][0]["seconds_left"] is not None and found
        status = self.server.relaunch_slowly(2000, loading)
        progress = status["progress"][0]
        self.assertEqual((status["server"]["state"], status["ready"], progress["kind"], progress["unit"]), ("loading", False, "loading", "bytes"))
        self.assertTrue(0 < progress["done"] <= progress["total"])
        self.assertIn("The data is being loaded.", self.problems("warning"))
        self.server.load_quickly()
        until(lambda: self.status()["progress"] == [])

    # Names of keys

    def test_names_of_keys_are_any_bytes(self):
        self.begin()
        self.assertEqual(self.status()["hot_keys"], {"state": "none"})
        names = {b"\xff\x00|\\xff|\n": "\\xff\\x00|\\\\xff|\\x0a", "\u00e9\u20ac\U0001f525".encode(): "\u00e9\u20ac\U0001f525", b"</script><script>alert(1)</script>": None,
                 b"\"'&<>": None, b"\xed\xa0\x80": "\\xed\\xa0\\x80", b"x" * 500: None, b" ": None, bytes(range(256)): None}
        self.c.must("HOTKEYS", "START", "METRICS", 2, "CPU", "NET", "COUNT", 64)
        for name in names:
            self.c.must("SET", name, "v")
        hot = self.status()["hot_keys"]
        self.assertEqual(hot["state"], "running")
        for metric in ("by_time", "by_bytes"):
            found = {row["name"] for row in hot[metric]}
            self.assertEqual(len(found), len(names))
            for name, shown in names.items():
                if shown is not None or all(32 <= byte < 127 for byte in name):
                    self.assertIn(shown or name.decode(), found)
            self.assertTrue(all(0 <= row["percent"] <= 100 for row in hot[metric]) and 1 < sum(row["percent"] for row in hot[metric]) <= 100.1)
        self.c.must("HOTKEYS", "STOP")
        self.assertEqual(self.status()["hot_keys"]["state"], "ended")

    def test_who_may_see_what(self):
        self.begin()
        self.c.must("HOTKEYS", "START", "METRICS", 1, "CPU")
        self.c.must("SET", "secret-name", "v")
        self.assertIn("secret-name", json.dumps(self.status()))
        self.c.must("ACL", "SETUSER", "watcher", "on", ">w", "+info")
        for path in ("/", "/status.json"):
            self.assertEqual(get(self.port, path)[0], 401)
            self.assertEqual(get(self.port, path, user=("watcher", "wrong"))[0], 401)
            self.assertEqual(get(self.port, path, user=("watcher", "w"))[0], 200)
            self.assertEqual(get(self.port, path, Host="evil.example")[0], 401)
        for rules in (["+info"], ["+info", "+hotkeys"], ["+info", "~*"], ["+info", "+hotkeys", "~other*"], ["+info", "+hotkeys", "%W~*"], ["+@all", "-hotkeys|get", "~*"]):
            self.c.must("ACL", "SETUSER", "watcher", "reset", "on", ">w", *rules)
            status = self.status(user=("watcher", "w"))
            self.assertEqual((status["hot_keys"], "secret-name" in json.dumps(status)), ({"state": "not_allowed"}, False), rules)
        for rules in (["+info", "+hotkeys|get", "~*"], ["+info", "+hotkeys", "%R~*"], ["+@all", "allkeys"]):
            self.c.must("ACL", "SETUSER", "watcher", "reset", "on", ">w", *rules)
            self.assertIn("secret-name", json.dumps(self.status(user=("watcher", "w"))), rules)
        self.c.must("ACL", "SETUSER", "watcher", "reset", "on", ">w", "+hotkeys", "~*")
        self.assertEqual(get(self.port, "/status.json", user=("watcher", "w"))[0], 403)
        self.c.must("ACL", "DELUSER", "watcher")
        self.assertEqual([get(self.port, path, Host="evil.example")[0] for path in ("/", "/status.json")], [403, 403])

    def test_without_users_other_machines_see_no_names(self):
        self.begin(**{"metrics-bind": "*"})
        self.c.must("HOTKEYS", "START", "METRICS", 1, "CPU")
        self.c.must("SET", "secret-name", "v")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
                address = probe.getsockname()[0]
            except OSError:
                self.skipTest("this machine has no address but those of the loopback")
        for setting in ("yes", "no", "yes"):
            self.c.must("CONFIG", "SET", "protected-mode", setting)
            self.assertEqual("secret-name" in json.dumps(self.status(host=address)), setting == "no")
            self.assertIn("secret-name", json.dumps(self.status()))

    # The page

    def test_the_page_runs_nothing_but_itself(self):
        self.begin()
        code, headers, page = get(self.port, "/")
        self.assertEqual((code, headers["Content-Type"], headers["X-Content-Type-Options"]), (200, "text/html; charset=utf-8", "nosniff"))
        policy = dict(rule.split(" ", 1) for rule in headers["Content-Security-Policy"].split("; "))
        self.assertEqual({name: policy.pop(name) for name in list(policy) if name not in ("script-src", "style-src")},
                         {"default-src": "'none'", "connect-src": "'self'", "img-src": "data:", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"})
        for tag, rule in (("script", "script-src"), ("style", "style-src")):
            found = re.findall(r"<%s>(.*?)</%s>" % (tag, tag), page, re.S)
            self.assertEqual([policy[rule]], ["'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in found])
        self.assertEqual(re.findall(r"https?://[^\"' ]*", page.replace("http://www.w3.org/2000/svg", "")), [])
        self.assertEqual(re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|\son\w+=|\sstyle=|<script [^>]|<link [^>]*href=\"(?!data:,)", page), [])
        self.assertEqual(get(self.port, "/", method="POST")[0], 405)
        code, headers, body = get(self.port, "/status.json", method="HEAD")
        self.assertEqual((code, body, int(headers["Content-Length"]) > 1000), (200, "", True))


if __name__ == "__main__":
    main()

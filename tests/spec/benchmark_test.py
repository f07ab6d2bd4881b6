"""kelvin-benchmark: results are only valid if the tool sends what it reports and detects errors.

KELVIN_BENCHMARK    path of the tool; build/release/kelvin-benchmark when unset
KELVIN_SERVER       the server it loads; /usr/bin/redis-server when unset
"""
import csv
import io
import json
import os
import signal
import re
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.resp import Incomplete, Parser                                                          # noqa: E402
from support.server import REDIS, ROOT, Server, port_free, under_test, until                         # noqa: E402

TOOL = os.path.abspath(os.environ.get("KELVIN_BENCHMARK") or os.path.join(ROOT, "build", "release", "kelvin-benchmark"))
SERVER = under_test() if os.environ.get("KELVIN_SERVER") else REDIS
PERCENTILES = ["min", "p50", "p90", "p99", "p99.9", "p99.99", "max"]


def start(port, *arguments):
    return subprocess.Popen([TOOL, "-p", str(port)] + [str(a) for a in arguments], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(port, *arguments, timeout=120):
    """(exit status, stdout, stderr)"""
    with start(port, *arguments) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return process.returncode, out, err


def key(number, letter="", digits=12):
    return b"key:%s%0*d" % (letter.encode(), digits - len(letter), number)


class ToolCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(binary=SERVER)
        cls.addClassCleanup(lambda: cls.server.stop())

    def setUp(self):
        self.c = self.server.client()
        self.addCleanup(self.c.close)
        self.c.must("FLUSHALL")

    def bench(self, *arguments, status=0):
        """Returns the tests of its JSON report, after checking that their numbers are consistent."""
        code, out, err = run(self.server.port, "--json", *arguments)
        self.assertEqual(code, status, "stdout:\n%s\nstderr:\n%s" % (out, err))
        tests = json.loads(out)["tests"]
        for test in tests:
            self.check_sums(test)
        return tests

    def check_sums(self, test):
        figures = [test["latency_us"][name] for name in PERCENTILES]
        self.assertEqual(figures, sorted(figures), test)
        self.assertLessEqual(test["latency_us"]["min"], test["latency_us"]["mean"])
        self.assertLessEqual(test["latency_us"]["mean"], test["latency_us"]["max"])
        self.assertGreater(test["seconds"], 0)
        self.assertAlmostEqual(test["requests_per_second"], test["requests"] / test["seconds"],
                               delta=test["requests_per_second"] / 100)
        if "reads" in test:
            for name in ("requests", "errors", "found", "missing", "wrong"):
                self.assertEqual(test["reads"][name] + test["writes"][name], test[name], name)

    def counters(self, count):
        """Returns how often each key was drawn, as counted by the server with INCR."""
        return [int(value or 0) for value in self.c.must("MGET", *[key(i, "c") for i in range(count)])]


class DataTest(ToolCase):
    def test_load_writes_every_key_once_and_verify_succeeds(self):
        load, get = self.bench("--load", "-t", "get", "--distribution", "sequential", "-r", 5000, "-n", 5000, "-d", "0-300",
                               "--verify", "--threads", 2, "-P", 7)
        self.assertEqual((load["test"], load["requests"], load["errors"]), ("load", 5000, 0))
        self.assertEqual(self.c.must("DBSIZE"), 5000)
        self.assertEqual((get["found"], get["missing"], get["wrong"]), (5000, 0, 0))
        values = self.c.must("MGET", *[key(i) for i in range(5000)])
        self.assertTrue(all(value is not None for value in values))
        self.assertEqual((min(map(len, values)), max(map(len, values))), (0, 300))
        long_ones = [value for value in values if len(value) > 20]
        self.assertEqual(len(set(long_ones)), len(long_ones), "two keys have the same value")

    def spoil_and_get(self, spoil, *arguments, status=1):
        self.bench("--load", "-r", 1000, "-d", 100)
        spoil()
        return self.bench("-t", "get", "--distribution", "sequential", "-r", 1000, "-n", 1000, "-d", 100, "--verify",
                          *arguments, status=status)[0]

    def test_one_wrong_byte_is_found_at_any_position(self):
        for place in (0, 7, 50, 95, 99):
            def spoil():
                byte = self.c.must("GETRANGE", key(123), place, place)
                self.c.must("SETRANGE", key(123), place, bytes([byte[0] ^ 1]))
            test = self.spoil_and_get(spoil)
            self.assertEqual((test["wrong"], test["missing"]), (1, 0))
            self.assertIn("key number 123: byte %d of 100" % place, test["first_wrong"])

    def test_a_wrong_size_is_found(self):
        test = self.spoil_and_get(lambda: self.c.must("APPEND", key(999), "x"))
        self.assertEqual(test["wrong"], 1)
        self.assertIn("101 bytes instead of 100", test["first_wrong"])
        test = self.spoil_and_get(lambda: self.c.must("SET", key(0), ""))
        self.assertEqual(test["wrong"], 1)

    def test_a_value_of_another_key_is_found(self):
        self.assertEqual(self.spoil_and_get(lambda: self.c.must("COPY", key(1), key(2), "REPLACE"))["wrong"], 1)

    def test_a_missing_key_is_found_unless_allowed(self):
        test = self.spoil_and_get(lambda: self.c.must("DEL", key(77)))
        self.assertEqual((test["found"], test["missing"], test["wrong"]), (999, 1, 0))
        self.assertIn("77", test["first_missing"])
        test = self.spoil_and_get(lambda: self.c.must("DEL", key(77)), "--allow-missing", status=0)
        self.assertEqual(test["missing"], 1)

    def test_a_lost_update_is_found(self):
        def overwrite_but_lose_one():
            lost = self.c.must("GET", key(5))
            self.bench("--load", "-r", 1000, "-d", 100, "--generation", 1)
            self.c.must("SET", key(5), lost)
        test = self.spoil_and_get(overwrite_but_lose_one, "--generation", 1)
        self.assertEqual(test["wrong"], 1)
        self.assertIn("key number 5:", test["first_wrong"])

    def test_mget_and_hget_are_verified_too(self):
        self.bench("-t", "mset,mget", "--distribution", "sequential", "-r", 1000, "-n", 100, "-d", "1-50", "--verify")
        self.assertEqual(self.c.must("DBSIZE"), 1000)
        self.c.must("SET", key(500), "?" * 70)
        test = self.bench("-t", "mget", "--distribution", "sequential", "-r", 1000, "-n", 100, "-d", "1-50", "--verify",
                          status=1)[0]
        self.assertEqual((test["found"], test["wrong"]), (1000, 1))
        hashes = ["-r", 50, "-n", 50, "-d", 20, "--members", 1, "--distribution", "sequential", "--verify"]
        self.bench("-t", "hset,hget", *hashes)
        self.c.must("HSET", key(7, "h"), "m0000000000", "wrong")
        self.assertEqual(self.bench("-t", "hget", *hashes, status=1)[0]["wrong"], 1)

    def test_values_larger_than_any_buffer(self):
        load, get, mget = self.bench("--load", "-t", "get,mget", "-r", 10, "-n", 40, "-d", "200000-1500000", "--verify",
                                     "-c", 5, "-P", 3)
        self.assertEqual((load["requests"], get["found"], mget["found"]), (10, 40, 400))

    def test_key_names(self):
        self.bench("--load", "-r", 11, "--key-prefix", "user:{1}:", "--key-size", 20)
        self.assertEqual(self.c.must("GET", "user:{1}:00000000010") is not None, True)
        self.assertEqual(sorted(map(len, self.c.must("KEYS", "*"))), [20] * 11)

    def test_ttl(self):
        self.bench("--load", "-r", 10, "--ttl", 100)
        self.assertTrue(all(0 < self.c.must("TTL", key(i)) <= 100 for i in range(10)))

    def test_a_command_of_the_user(self):
        self.bench("-r", 30, "-n", 30, "--distribution", "sequential", "-d", 10, "HSET", "__key__", "f:__rand_int__",
                   "<__value__>")
        fields = self.c.must("HGETALL", key(29))
        self.assertRegex(fields[0], rb"^f:[0-9]{12}$")
        self.assertRegex(fields[1], rb"^<.{10}>$")


class DrawTest(ToolCase):
    """The draws are counted by the server. With a seed and one thread they are the same in every run."""

    def test_hot_percent_is_the_share_of_the_hot_keys(self):
        for percent in (0, 80, 99.5, 100):
            self.c.must("FLUSHALL")
            self.bench("-t", "incr", "-r", 1000, "-n", 100000, "-P", 16, "--hot-percent", percent, "--hot-keys", 50,
                       "--seed", 1)
            counts = self.counters(1000)
            self.assertEqual(sum(counts), 100000)
            if percent == 0:
                self.assertEqual(counts.count(0), 50)
                continue
            ranked = sorted(range(1000), key=lambda i: -counts[i])
            hot = ranked[:50]
            self.assertAlmostEqual(sum(counts[i] for i in hot) / 1000, percent, delta=0.7)
            self.assertGreater(min(counts[i] for i in hot), max(counts[i] for i in ranked[50:]) * 4)
            mean = sum(counts[i] for i in hot) / 50
            self.assertTrue(all(abs(counts[i] - mean) < 6 * mean ** 0.5 for i in hot), "hot keys are not alike")
            # Scattered: each fifth of the key space has about a fifth of them, and few are adjacent.
            self.assertTrue(all(2 <= sum(1 for i in hot if i // 200 == part) <= 20 for part in range(5)), sorted(hot))
            self.assertLess(sum(1 for i in hot if i + 1 in hot), 12)

    def test_the_hot_keys_are_the_same_in_every_run(self):
        hot = []
        for seed in (1, 2):
            self.c.must("FLUSHALL")
            self.bench("-t", "incr", "-r", 5000, "-n", 5000, "-P", 16, "--hot-percent", 100, "--hot-keys", 20,
                       "--seed", seed)
            counts = self.counters(5000)
            hot.append({i for i in range(5000) if counts[i]})
        self.assertEqual(hot[0], hot[1])
        self.assertEqual(len(hot[0]), 20)

    def test_zipfian_has_its_distribution(self):
        for theta in (0.5, 0.99, 1, 1.5):
            self.c.must("FLUSHALL")
            self.bench("-t", "incr", "-r", 500, "-n", 200000, "-P", 32, "--distribution", "zipfian", "--zipf-theta", theta,
                       "--seed", 3)
            counts = sorted(self.counters(500), reverse=True)
            total = sum(1 / k ** theta for k in range(1, 501))
            for rank in (1, 2, 3, 10, 50):
                expected = 200000 / rank ** theta / total
                self.assertAlmostEqual(counts[rank - 1], expected, delta=6 * expected ** 0.5 + expected * 0.06,
                                       msg="theta %s, rank %d" % (theta, rank))

    def test_uniform_and_sequential_draw_all_keys_equally(self):
        self.bench("-t", "incr", "-r", 100, "-n", 100000, "-P", 16, "--seed", 4)
        counts = self.counters(100)
        self.assertEqual(sum(counts), 100000)
        self.assertTrue(all(abs(count - 1000) < 6 * 1000 ** 0.5 for count in counts), counts)
        self.c.must("FLUSHALL")
        self.bench("-t", "incr", "-r", 100, "-n", 1000, "--distribution", "sequential", "--threads", 2)
        self.assertEqual(self.counters(100), [10] * 100)

    def test_a_seed_repeats_the_requests(self):
        counts = []
        for seed in (7, 7, 8):
            self.c.must("FLUSHALL")
            self.bench("-t", "incr", "-r", 1000, "-n", 5000, "--seed", seed)
            counts.append(self.counters(1000))
        self.assertEqual(counts[0], counts[1])
        self.assertNotEqual(counts[0], counts[2])

    def test_ratio_is_the_share_of_reads(self):
        test = self.bench("-t", "mixed", "--ratio", "3:1", "-r", 1000, "-n", 40000, "-P", 16, "--seed", 5)[0]
        self.assertEqual(test["requests"], 40000)
        self.assertAlmostEqual(test["reads"]["requests"], 30000, delta=600)
        self.assertEqual(test["reads"]["found"] + test["reads"]["missing"], test["reads"]["requests"])
        test = self.bench("-t", "mixed", "--ratio", "0:1", "-r", 10, "-n", 100)[0]
        self.assertEqual(test["found"] + test["missing"], 0)


class LoadTest(ToolCase):
    #: The command of a test whose name is not that of its command.
    NEEDS = {"load": "SET", "mixed": "SET", "lrange": "LRANGE", "inline": "PING", "ping_inline": "PING", "ping_mbulk": "PING"}

    def server_knows(self, name):
        command = self.NEEDS.get(name, name.split("_")[0].rstrip("0123456789"))
        return self.c.must("COMMAND", "INFO", command)[0] is not None

    def test_every_test_runs_without_an_error(self):
        code, out, _ = run(self.server.port, "--help")
        self.assertEqual(code, 0)
        names = [line.split()[0] for line in out.split("Tests (", 1)[1].splitlines()[1:] if line.startswith("  ")]
        self.assertGreater(len(names), 20)
        names = [name for name in names if self.server_knows(name)]
        self.assertGreater(len(names), 8)
        for protocol in (2, 3):
            for test in self.bench("-t", ",".join(names), "-n", 500, "-r", 50, "-P", 3, "--resp", protocol):
                self.assertEqual(test["errors"], 0, test)
                self.assertEqual(test["requests"], 50 if test["test"] == "load" else 500)

    def test_rate_and_duration(self):
        test = self.bench("-t", "ping", "--rps", 4000, "--duration", 0.5, "-P", 2, "-c", 4, "--threads", 2)[0]
        self.assertLessEqual(test["requests"], 2000 + 2 * 2 * 2)
        self.assertGreater(test["requests"], 200)
        self.assertGreaterEqual(test["seconds"], 0.49)

    def test_the_series_is_the_sum_of_all_threads(self):
        tests = self.bench("--series", 20, "-t", "ping,get", "-n", 5000, "-c", 8, "--threads", 3)
        for test in tests:
            self.assertEqual(sum(test["series"]["replies"]), 5000)
            slowest = test["series"]["latency_us_max"]
            self.assertEqual(len(slowest), len(test["series"]["replies"]))
            self.assertAlmostEqual(max(slowest), test["latency_us"]["max"], delta=0.01 * max(slowest))
            self.assertLessEqual(len(test["series"]["replies"]), test["seconds"] * 50 + 1)

    def test_more_clients_than_requests_and_an_incomplete_pipeline(self):
        self.assertEqual(self.bench("-t", "ping", "-n", 3, "-c", 20, "--threads", 3)[0]["requests"], 3)
        self.assertEqual(self.bench("-t", "ping", "-n", 1003, "-c", 3, "-P", 100)[0]["requests"], 1003)

    def test_errors_are_counted_and_the_first_is_reported(self):
        self.c.must("SET", "s", "x")
        test = self.bench("-n", 10, "HSET", "s", "f", "y", status=1)[0]
        self.assertEqual((test["requests"], test["errors"]), (10, 10))
        self.assertTrue(test["first_error"].startswith("WRONGTYPE "), test["first_error"])

    def test_cpu_and_info(self):
        test = self.bench("--load", "-t", "get", "-r", 1000, "-n", 20000, "--info", "--server-pid",
                          self.server.process.pid)[1]
        self.assertGreater(test["server_cpu_us_per_request"], 0)
        self.assertLess(test["server_cpu_seconds"], test["seconds"] * os.cpu_count() + 0.1)
        self.assertEqual((test["info"]["keyspace_hits"], test["info"]["keyspace_misses"]), (20000, 0))
        self.assertEqual(test["info"]["hit_percent"], 100)
        self.assertGreater(test["info"]["used_memory_rss"], 100000)

    def test_csv_and_text_and_quiet(self):
        code, out, _ = run(self.server.port, "--csv", "-t", "set,get", "-n", 1000, "-r", 10)
        rows = list(csv.DictReader(io.StringIO(out)))
        self.assertEqual((code, [row["test"] for row in rows]), (0, ["set", "get"]))
        for row in rows:
            self.assertEqual((row["requests"], row["errors"], row["end"], None in row), ("1000", "0", "complete", False))
            self.assertLessEqual(float(row["p50_us"]), float(row["max_us"]))
        code, out, err = run(self.server.port, "-q", "-t", "set,get", "-n", 1000, "-r", 10)
        self.assertEqual((code, len(out.splitlines()), err), (0, 2, ""))
        self.assertRegex(out, r"^set: [0-9.]+ requests per second, p50=")
        code, out, err = run(self.server.port, "-t", "get", "-n", 1000, "-r", 10)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("1000 in ", out)

    def test_progress_is_written_to_stderr(self):
        code, out, err = run(self.server.port, "--json", "--progress", "-t", "ping", "--duration", 1, "--rps", 100)
        self.assertEqual(code, 0)
        json.loads(out)
        self.assertIn("ping [", err)

    def draw(self, *arguments, status=0):
        """Returns the standard output and the drawing's root, which is checked to be one that browsers show without running anything."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "d.svg")
            code, out, err = run(self.server.port, "--svg", path, *arguments)
            self.assertEqual((code, err), (status, ""))
            with open(path, "rb") as file:
                text = file.read()
        self.assertRegex(text, rb"\A[ -~\n]+\Z")
        self.assertNotRegex(text, rb"(?i)<script|javascript|onload|href|@import|url\(")
        self.assertIn(b"prefers-color-scheme: dark", text)
        root = xml.etree.ElementTree.fromstring(text)
        self.assertEqual({element.tag.split("}")[1] for element in root.iter()} - {"svg", "style", "g", "text", "line", "polyline", "desc"}, set())
        for element in root.iter("{http://www.w3.org/2000/svg}polyline"):
            for point in element.get("points").split():
                x, y = (float(number) for number in point.split(","))
                self.assertTrue(0 <= x <= float(root.get("width")) and 0 <= y <= float(root.get("height")), point)
        return out, root

    @staticmethod
    def texts(root, tag="text"):
        return [element.text for element in root.iter("{http://www.w3.org/2000/svg}" + tag)]

    def test_a_drawing_has_the_numbers_that_are_printed(self):
        out, root = self.draw("--json", "--series", 100, "-t", "set,mixed", "-n", 3000, "-r", 100)
        texts, described = self.texts(root), self.texts(root, "desc")
        self.assertEqual([text for text in texts if text in ("set", "mixed")], ["set", "mixed"])
        for test in json.loads(out)["tests"]:
            latency = test["latency_us"]
            self.assertIn("%d requests in %.3f s, %.0f requests/s" % (test["requests"], test["seconds"], test["requests_per_second"]), texts)
            numbers = [float(number) for text in texts if text.startswith("latency ms:") for number in re.findall(r" ([\d.]+)(?=  |$)", text)]
            for name in ("mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"):
                self.assertTrue(any(abs(number - latency[name] / 1000) < 0.00051 for number in numbers), (name, latency, numbers))
            self.assertIn("replies in each 0.1 s: " + " ".join(str(count) for count in test["series"]["replies"]), described)
        out, root = self.draw("-t", "set", "-n", 1000)
        printed = [" ".join(line.split()[2:]) for line in out.split("\n") if line.startswith("  latency ms")]
        self.assertEqual([" ".join(text.split()[2:]) for text in self.texts(root) if text.startswith("latency ms:")], printed)
        self.assertNotIn("keyspace", out)           # INFO's numbers are printed with --info only

    def test_a_drawing_has_the_hit_ratio_over_time(self):
        for i in range(75):
            self.c.must("SET", key(i), "x")
        _, root = self.draw("-t", "get", "-n", 3000, "-r", 100, "--distribution", "sequential", "-c", 1)
        tier = b"tier_hot_hits" in self.c.must("INFO", "everything")
        ratios = [float(number) for text in self.texts(root, "desc") if text.startswith("hit ratio") for number in text.split(":")[1].split()]
        self.assertEqual(set(ratios), {100.0 if tier else 75.0})
        _, root = self.draw("-t", "ping", "-n", 1000)
        self.assertIn("no key was looked up", self.texts(root))

    def test_a_drawing_without_info_or_requests(self):
        self.c.must("ACL", "SETUSER", "plain", "on", ">word", "~*", "+set", "+ping")
        _, root = self.draw("--user", "plain", "-a", "word", "-t", "set", "-n", 1000)
        self.assertIn("no hit ratio: the server does not reply to INFO", self.texts(root))
        _, root = self.draw("-n", 10, '<b>&"\x01\u00e4', "x", status=1)
        self.assertIn('<b>&"???', self.texts(root))
        self.assertTrue(any(text.endswith(", 10 ERRORS") for text in self.texts(root)), self.texts(root))
        code, out, err = run(self.server.port, "-t", "ping", "-n", 10, "--svg", "/no/such/folder/d.svg")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("No such file", err)

    def test_sigint_prints_the_results_so_far(self):
        with start(self.server.port, "--json", "-t", "set,get", "--duration", 100, "-r", 10) as process:
            until(lambda: self.c.must("DBSIZE") == 10)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=30)
        tests = json.loads(out)["tests"]
        self.assertEqual(process.returncode, 130)
        self.assertEqual([(test["test"], test["end"]) for test in tests], [("set", "interrupted")])
        self.assertGreater(tests[0]["requests"], 0)

    def test_invalid_command_lines(self):
        for line in (["--bogus"], ["-z"], ["-"], ["-n"], ["-n", "0"], ["-n", "x"], ["-n", "1x"], ["-n", "-1"], ["-n", ""],
                     ["-p", "65536"], ["-c", "0"], ["-d", "9-3"], ["-d", "3-"], ["-d", "a"], ["-t", "nosuch"], ["-t", ""],
                     ["-t", "get,,set"], ["--hot-percent", "101"], ["--hot-percent", "nan"], ["--hot-percent", "-1"],
                     ["-r", "10", "--hot-keys", "11"], ["--key-size", "4"], ["-r", "10000000", "--key-size", "10"],
                     ["--ratio", "3"], ["--ratio", "0:0"], ["--ratio", "1:x"], ["--resp", "4"], ["--distribution", "even"],
                     ["--zipf-theta", "0"], ["--hot-keys", "5", "--distribution", "zipfian"], ["-q", "--json"], ["--series", "100"],
                     ["--json=1"], ["--user", "me"], ["--allow-missing"], ["-t", "get", "GET", "x"], ["--threads", "0"]):
            code, out, err = run(self.server.port, *line)
            self.assertEqual((code, out), (2, ""), line)
            self.assertRegex(err, r"^kelvin-benchmark: [^\n]+\n$", line)

    def test_a_server_that_does_not_run(self):
        code, out, err = run(port_free(), "-t", "get")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("can't connect to 127.0.0.1:", err)
        code, _, err = run(1, "-s", "/nonexistent/socket", "-t", "get")
        self.assertEqual(code, 1)
        self.assertIn("/nonexistent/socket", err)
        code, _, err = run(self.server.port, "-t", "get", "--server-pid", 999999999)
        self.assertEqual(code, 1)
        self.assertIn("--server-pid", err)


class OtherServersTest(unittest.TestCase):
    """Servers with a password or a socket, a server that is killed, and a fake server that misbehaves."""

    def test_password_socket_and_database(self):
        with Server({"requirepass": "secret", "unixsocket": "redis.sock"}, binary=REDIS) as server:
            path = os.path.join(server.folder, "redis.sock")
            code, _, err = run(server.port, "-t", "get", "-n", 10)
            self.assertEqual(code, 1)
            for arguments in (["-a", "wrong"], ["-a", "secret", "--user", "unknown"]):
                code, _, err = run(server.port, "-t", "get", "-n", 10, *arguments)
                self.assertEqual(code, 1)
                self.assertIn("WRONGPASS", err)
            for protocol in (2, 3):
                code, out, err = run(1, "-s", path, "-a", "secret", "--user", "default", "--dbnum", 3, "--load", "-r", 100,
                                     "--verify", "--resp", protocol)
                self.assertEqual(code, 0, err + out)
            with server.client() as client:
                client.must("AUTH", "secret")
                self.assertEqual(client.must("DBSIZE"), 0)
                client.must("SELECT", 3)
                self.assertEqual(client.must("DBSIZE"), 100)
            code, _, err = run(server.port, "-a", "secret", "--dbnum", 10000, "-t", "get")
            self.assertEqual(code, 1)
            self.assertIn("SELECT", err)

    def test_a_server_that_is_killed_is_reported(self):
        server = Server(binary=REDIS)
        self.addCleanup(server.discard)
        with start(server.port, "--json", "-t", "set,get", "--duration", 100, "--threads", 2, "-P", 4) as process:
            with server.client() as client:
                until(lambda: client.must("DBSIZE") > 10)
            server.kill9()
            out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 1)
        self.assertIn("the server closed the connection", err)
        self.assertEqual([test["end"] for test in json.loads(out)["tests"]], ["failed"])

    def fake(self, reply_to, *arguments):
        """Runs the tool against a server that replies to each command with `reply_to(words)`; None closes the connection."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def serve(connection):
            parser = Parser()
            with connection:
                while True:
                    try:
                        words = parser.next()
                    except Incomplete:
                        data = connection.recv(65536)
                        if not data:
                            return
                        parser.feed(data)
                        continue
                    reply = reply_to(words)
                    if reply is None:
                        return
                    connection.sendall(reply)

        def accept():
            while True:
                try:
                    connection = listener.accept()[0]
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()
        return run(listener.getsockname()[1], *arguments, timeout=30)

    def test_tier_counters_are_differences(self):
        asked = []

        def answer(words):
            if words[0] != b"INFO":
                return b"$-1\r\n"
            asked.append(words)
            text = b"# Tiering\r\ntier_hot_hits:%d\r\ntier_cold_hits:%d\r\ntier_misses:%d\r\n" % (
                (1000, 50, 3) if len(asked) == 1 else (1900, 150, 7))
            return b"$%d\r\n%s\r\n" % (len(text), text)
        code, out, _ = self.fake(answer, "--json", "--info", "-t", "get", "-n", 20, "-c", 2)
        info = json.loads(out)["tests"][0]["info"]
        self.assertEqual(code, 0)
        self.assertEqual((info["tier_hot_hits"], info["tier_cold_hits"], info["tier_misses"]), (900, 100, 4))
        self.assertEqual(info["tier_hot_percent"], 90)

    def test_invalid_replies(self):
        for reply, what in ((b"hello\r\n", "invalid reply"), (b"$abc\r\n", "invalid reply"), (b"$3\r\nabcde\r\n", "invalid reply"),
                            (b"$99999999999999999999\r\n", "invalid reply"), (b"+a\n", "invalid reply"),
                            (b"+OK\r\n+OK\r\n", "without a request"), (None, "closed the connection"),
                            (b"*-2\r\n", "invalid reply")):
            code, _, err = self.fake(lambda words: reply, "-q", "-t", "get", "-n", 10, "-c", 1)
            self.assertEqual(code, 1, reply)
            self.assertIn(what, err, reply)

    def test_a_reply_in_pieces_and_pushes_between_replies(self):
        whole = b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n$3\r\n%s\r\n"
        values = {}

        def answer(words):
            if words[0] == b"SET":
                values[words[1]] = words[2]
                return b"+OK\r\n"
            return whole % values[words[1]]
        code, out, err = self.fake(answer, "--json", "--load", "-t", "get", "-r", 10, "-n", 50, "-c", 3, "-P", 4, "--verify")
        self.assertEqual(code, 0, out + err)
        self.assertEqual(json.loads(out)["tests"][1]["found"], 50)

    def test_wrong_replies_to_writes_are_found(self):
        code, out, _ = self.fake(lambda words: b":1\r\n", "--json", "-t", "set", "-n", 5, "-c", 1, "--verify")
        self.assertEqual((code, json.loads(out)["tests"][0]["wrong"]), (1, 5))

    def test_with_a_rate_limit_the_latency_includes_stalls(self):
        """One stall of 0.3 s while 20 requests are due within 0.1 s: all of them waited, although they are sent one at a time."""
        gate, seen = threading.Event(), []

        def answer(words):
            seen.append(words)
            if len(seen) == 1:
                gate.wait(0.3)
            return b"+PONG\r\n"
        code, out, _ = self.fake(answer, "--json", "-t", "ping", "-n", 20, "-c", 1, "--rps", 200)
        test = json.loads(out)["tests"][0]
        self.assertEqual((code, test["requests"]), (0, 20))
        self.assertGreater(test["latency_us"]["p50"], 200000)

    def test_a_stall_is_visible_in_the_series(self):
        """The second reply takes 0.5 s: there are periods of 50 ms without replies."""
        gate, seen = threading.Event(), []

        def answer(words):
            seen.append(words)
            if len(seen) == 2:
                gate.wait(0.5)
            return b"+PONG\r\n"
        code, out, _ = self.fake(answer, "--json", "--series", 50, "-t", "ping", "-n", 20, "-c", 1)
        series = json.loads(out)["tests"][0]["series"]
        self.assertEqual((code, series["period_ms"], sum(series["replies"])), (0, 50, 20))
        self.assertGreaterEqual(series["replies"].count(0), 8)
        self.assertGreater(series["replies"][-1], 0)
        self.assertGreater(max(series["latency_us_max"]), 400000)
        self.assertEqual([slowest for slowest, replies in zip(series["latency_us_max"], series["replies"]) if not replies and slowest], [])


if __name__ == "__main__":
    if not os.path.exists(TOOL):
        sys.exit("%s not found: run make, or set KELVIN_BENCHMARK" % TOOL)
    unittest.main(verbosity=2 if "-v" in sys.argv else 1)

"""A real Prometheus scrapes a primary and its replica: every query of the Grafana board and every expression of the alert rules is run by it. Skipped, with the reason, where
Prometheus is not installed."""
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.openmetrics import get                                                                 # noqa: E402
from support.server import ROOT, Server, port_free, until                                           # noqa: E402

RULES = os.path.join(ROOT, "utils", "prometheus", "kelvin.rules.yml")
BOARD = os.path.join(ROOT, "utils", "grafana", "kelvin.json")
VARIABLES = {"$__rate_interval": "4s", "$job": ".*", "$instance": ".*"}
# Queries that have no data as long as all is well, or in a server alone.
MAY_BE_EMPTY = re.compile(r"kelvin_errors_total|link_down_seconds")
CONFIGURATION = """
global: { scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms }
rule_files: [%s]
scrape_configs:
  - job_name: kelvin
    basic_auth: { username: prometheus, password: "a word" }
    static_configs: [{ targets: [%s] }]
"""


class PrometheusCase(unittest.TestCase):
    flags = []

    @classmethod
    def setUpClass(cls):
        users = ["prometheus", "on", ">a word", "+info"]
        cls.servers, cls.folder = [], tempfile.mkdtemp(prefix="kelvin-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        for options in ({"appendonly": "yes", "maxmemory": "100mb"}, {"maxmemory": "100mb"}):
            if cls.servers:
                options["replicaof"] = ["127.0.0.1", cls.servers[0].port]
            cls.servers.append(Server({"metrics-port": port_free(), "user": users, **options}))
            cls.addClassCleanup(cls.servers[-1].stop)
        cls.primary, cls.replica = cls.servers
        until(lambda: cls.replica.info("replication")["master_link_status"] == "up")
        cls.start_prometheus()

    @classmethod
    def start_prometheus(cls):
        targets = ", ".join('"127.0.0.1:%d"' % server.options["metrics-port"] for server in cls.servers)
        with open(os.path.join(cls.folder, "prometheus.yml"), "w") as file:
            file.write(CONFIGURATION % (RULES, targets))
        cls.port = port_free()
        with open(os.path.join(cls.folder, "log"), "wb") as log:
            process = subprocess.Popen(["prometheus", "--config.file", os.path.join(cls.folder, "prometheus.yml"), "--storage.tsdb.path", os.path.join(cls.folder, "data"),
                                        "--web.listen-address", "127.0.0.1:%d" % cls.port] + cls.flags, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.kill)

        def all_are_up():
            try:
                targets = cls.ask("targets?state=active")["activeTargets"]
            except (OSError, http.client.HTTPException):
                return False
            errors = [target["lastError"] for target in targets if target["lastError"]]
            assert not errors, errors
            return len(targets) == 2 and all(target["health"] == "up" for target in targets)
        until(all_are_up, 60, "the first scrapes")

    @classmethod
    def ask(cls, what, **options):
        status, _, body = get(cls.port, "/api/v1/" + what, **options)
        reply = json.loads(body) if status != 503 else {}
        if reply.get("status") != "success":
            raise http.client.HTTPException("%s: %s" % (what, body))
        return reply["data"]

    def query(self, expression):
        return self.ask("query?query=" + urllib.parse.quote(expression))["result"]

    def work(self):
        """Something of everything that has a graph."""
        with self.primary.client() as client:
            for i in range(50):
                client.must("SET", "k%d" % i, "v" * 100)
                client.must("HSET", "h", i, i)
            client.must("TIER", "DEMOTE", *["k%d" % i for i in range(50)])
            for i in range(50):
                client.must("GET", "k%d" % i)
            client.call("INCR", "h")


@kelvin_only
@unittest.skipIf(shutil.which("prometheus") is None, "prometheus is not installed")
class PrometheusTest(PrometheusCase):
    def test_the_rules_are_good_to_promtool(self):
        done = subprocess.run(["promtool", "check", "rules", RULES], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(b"SUCCESS", done.stdout)

    def test_the_metrics_are_good_to_promtool(self):
        text = get(self.primary.options["metrics-port"], user=("prometheus", "a word"), Accept="text/plain")[2]
        done = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b""))

    def expressions_of_board(self):
        with open(BOARD, encoding="utf-8") as file:
            board = json.load(file)
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                expression = target["expr"]
                for name, text in VARIABLES.items():
                    expression = expression.replace(name, text)
                self.assertNotIn("$", expression)
                yield panel["title"], expression

    def test_every_query_of_the_board_has_data(self):
        """NaN is no data: a ratio of nothing."""
        expressions = list(self.expressions_of_board())
        self.assertGreater(len(expressions), 40)
        left = [pair for pair in expressions if not MAY_BE_EMPTY.search(pair[1])]

        def all_have_data():
            self.work()
            left[:] = [pair for pair in left if not any(sample["value"][1] != "NaN" for sample in self.query(pair[1]))]
            return not left
        try:
            until(all_have_data, 30)
        except AssertionError:
            self.assertEqual(left, [])
        for _, expression in expressions:
            self.query(expression)
        self.assertTrue(self.query("kelvin_errors_total"))

    def test_names_of_the_board_and_the_rules_exist(self):
        """An expression with a name that no server has would be valid, and silent for ever."""
        known = set(self.ask("label/__name__/values"))
        with open(RULES, encoding="utf-8") as file:
            texts = re.findall(r"expr: (.*)", file.read()) + [expression for _, expression in self.expressions_of_board()]
        named = set(re.findall(r"kelvin_\w+", " ".join(texts)))
        self.assertEqual(named - known - {"kelvin_cluster_state", "kelvin_errors_total"}, set())

    def test_every_alert_is_evaluated_and_none_is_raised(self):
        def rules():
            found = [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]
            return all(rule["health"] == "ok" for rule in found) and found
        found = until(rules, 30, "the evaluation of all rules")
        self.assertGreater(len(found), 12)
        self.assertEqual([rule["name"] for rule in found if rule["state"] == "firing"], [])
        for rule in found:
            self.query(rule["query"])

    def test_histograms_have_percentiles(self):
        self.work()
        query = "histogram_quantile(0.5, sum by (le) (kelvin_load_duration_seconds_bucket))"
        found = until(lambda: [sample for sample in self.query(query) if sample["value"][1] != "NaN"], 30, "a median")
        self.assertTrue(0 < float(found[0]["value"][1]) < 9)

    def test_an_alert_is_raised(self):
        with self.replica.client() as client:
            client.must("CONFIG", "SET", "maxmemory", 1)
            until(lambda: self.query('ALERTS{alertname="KelvinMemoryOverLimit"}'), 30, "the alert")
            client.must("CONFIG", "SET", "maxmemory", "100mb")
            until(lambda: not self.query('ALERTS{alertname="KelvinMemoryOverLimit"}'), 30, "its end")


@kelvin_only
@unittest.skipIf(shutil.which("prometheus") is None, "prometheus is not installed")
class NativeTest(PrometheusCase):
    """A Prometheus that asks for native histograms."""
    flags = ["--enable-feature=native-histograms"]

    def test_histograms_are_native(self):
        self.work()
        for name, label in (("kelvin_command_duration_seconds", '{family="string"}'), ("kelvin_load_duration_seconds", ""), ("kelvin_cold_wait_seconds", "")):
            query = "histogram_quantile(0.5, sum(%s%s))" % (name, label)
            found = until(lambda query=query: [sample for sample in self.query(query) if sample["value"][1] not in ("NaN", "0")], 30, query)
            self.assertTrue(0 < float(found[0]["value"][1]) < 9, found)
            self.assertEqual(self.query(name + "_bucket"), [])
        with self.primary.client() as client:
            client.must("PFADD", "p1", 1)
            client.must("PFADD", "p2", 1)
        counted = 'sum(histogram_count(kelvin_command_duration_seconds{family="hyperloglog"}))'
        until(lambda: [sample["value"][1] for sample in self.query(counted)] == ["4"], 30, "two calls, that the replica has applied, too")


if __name__ == "__main__":
    main()

"""metrics-port: /metrics as Prometheus reads it, compared with INFO; /health/live and /health/ready; users; addresses; clients that are hostile, slow or many.
tests/spec/prometheus_test.py has a real Prometheus."""
import os
import re
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.openmetrics import OPENMETRICS, PROTOBUF, TEXT, get, parse, parse_protobuf, scrape, value   # noqa: E402
from support.resp import OK, Error                                                                  # noqa: E402
from support.server import ROOT, Server, is_sanitized, port_free, read_text, until                  # noqa: E402

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    text_string_to_metric_families = None

HISTOGRAMS = ["kelvin_command_duration_seconds", "kelvin_load_duration_seconds", "kelvin_cold_wait_seconds", "kelvin_memory_wait_seconds",
              "kelvin_owner_wait_seconds", "kelvin_pause_wait_seconds", "kelvin_job_wait_seconds"]
# Metrics and the fields of INFO that have the same number, while nothing changes.
SAME = [
    ("kelvin_workers", {}, None), ("kelvin_loading", {}, "loading"), ("kelvin_clients_max", {}, "maxclients"), ("kelvin_clients_blocked", {}, "blocked_clients"),
    ("kelvin_clients_tracking", {}, "tracking_clients"), ("kelvin_connections_rejected", {}, "rejected_connections"),
    ("kelvin_acl_denied", {"reason": "auth"}, "acl_access_denied_auth"), ("kelvin_acl_denied", {"reason": "key"}, "acl_access_denied_key"),
    ("kelvin_memory_max_bytes", {}, "maxmemory"), ("kelvin_lazyfree_pending", {}, "lazyfree_pending_objects"), ("kelvin_memory_throttled", {}, "tier_throttled_clients"),
    ("kelvin_keys_expired", {}, "expired_keys"), ("kelvin_keys_evicted", {}, "evicted_keys"), ("kelvin_keyspace_hits", {}, "keyspace_hits"),
    ("kelvin_keyspace_misses", {}, "keyspace_misses"), ("kelvin_tier_hits", {"tier": "hot"}, "tier_hot_hits"), ("kelvin_tier_hits", {"tier": "cold"}, "tier_cold_hits"),
    ("kelvin_tier_misses", {}, "tier_misses"), ("kelvin_tier_blind_writes", {}, "tier_blind_writes"), ("kelvin_tier_promotions", {}, "tier_promotions"),
    ("kelvin_tier_demotions", {"record": "kept"}, "tier_clean_demotions"), ("kelvin_tier_batches", {}, "tier_batches"), ("kelvin_tier_graves", {}, "tier_graves"),
    ("kelvin_tier_loads_waiting", {}, "tier_loads_waiting"), ("kelvin_tier_looks", {}, "tier_looks"), ("kelvin_tier_pinned_keys", {}, "tier_pinned_keys"),
    ("kelvin_tier_ring_reads", {}, "tier_ring_reads"), ("kelvin_tier_store_bytes", {}, "tier_store_bytes"), ("kelvin_tier_segments", {}, "tier_segments"),
    ("kelvin_tier_segment_bytes", {}, "tier_segment_bytes"), ("kelvin_tier_segment_live_bytes", {}, "tier_segment_live_bytes"),
    ("kelvin_tier_segment_written_bytes", {}, "tier_segment_written_bytes"), ("kelvin_tier_recordmap_bytes", {}, "tier_recordmap_bytes"),
    ("kelvin_tier_errors", {}, "tier_errors"), ("kelvin_tier_damaged_records", {}, "tier_damaged_records"), ("kelvin_tier_dirty_keys", {}, "tier_dirty_keys"),
    ("kelvin_tier_warmup_keys", {}, "tier_warmup_keys_total"), ("kelvin_aof_enabled", {}, "aof_enabled"), ("kelvin_aof_size_bytes", {}, "aof_current_size"),
    ("kelvin_aof_rewrites", {}, "aof_rewrites"), ("kelvin_aof_delayed_fsyncs", {}, "aof_delayed_fsync"), ("kelvin_changes_since_save", {}, "rdb_changes_since_last_save"),
    ("kelvin_save_last_time_seconds", {}, "rdb_last_save_time"), ("kelvin_save_in_progress", {}, "rdb_bgsave_in_progress"),
    ("kelvin_backup_last_time_seconds", {}, "tier_last_backup_time"), ("kelvin_replication_replicas", {}, "connected_slaves"),
    ("kelvin_replication_offset_bytes", {}, "master_repl_offset"), ("kelvin_cluster_enabled", {}, "cluster_enabled"), ("kelvin_scripts_cached", {}, "number_of_cached_scripts"),
    ("kelvin_pubsub_channels", {}, "pubsub_channels"), ("kelvin_pubsub_patterns", {}, "pubsub_patterns"), ("kelvin_replication_syncs", {"result": "full"}, "sync_full"),
]


def metrics_server(**options):
    return Server({"metrics-port": port_free(), **{name.replace("_", "-"): value for name, value in options.items()}})


@kelvin_only
class MetricsTest(unittest.TestCase):
    def begin(self, **options):
        self.server = metrics_server(**options)
        self.addCleanup(self.server.stop)
        self.port = self.server.options["metrics-port"]
        self.c = self.server.client()
        self.addCleanup(self.c.close)

    def get(self, path, **options):
        return get(self.port, path, **options)

    # /metrics

    def test_both_formats_are_read_strictly_and_have_the_same_families(self):
        self.begin(appendonly="yes", maxmemory="50mb")
        self.c.call("EVAL", "return redis.error_reply('\"\\\\\\xff\\n x')", 0)
        status, headers, body = self.get("/metrics", Accept="text/plain;version=0.0.4")
        self.assertEqual((status, headers["Content-Type"]), (200, TEXT))
        plain = parse(body, TEXT)
        status, headers, body = self.get("/metrics")
        self.assertEqual((status, headers["Content-Type"]), (200, OPENMETRICS))
        families = parse(body)
        self.assertEqual({name: (family.kind, family.help) for name, family in families.items()}, {name: (family.kind, family.help) for name, family in plain.items()})
        self.assertEqual(set(families["kelvin_command_duration_seconds"].samples), set(plain["kelvin_command_duration_seconds"].samples))
        self.assertGreater(len(families), 100)
        self.assertLess(sum(len(family.samples) for family in families.values()), 1000)
        for name in HISTOGRAMS:
            self.assertEqual(families[name].kind, "histogram", name)
        if text_string_to_metric_families is not None:
            read = {family.name: family.type for family in text_string_to_metric_families(body)}
            self.assertEqual(read, {name: family.kind for name, family in families.items()})

    def test_numbers_are_those_of_info(self):
        self.begin(appendonly="yes", appendfsync="always", maxmemory="100mb")
        for i in range(100):
            self.c.must("SET", "k%d" % i, "v" * 100)
        self.c.must("SET", "gone", 1, "PX", 1)
        until(lambda: self.c.call("EXISTS", "gone") == 0)
        self.assertEqual(self.c.must("TIER", "DEMOTE", *["k%d" % i for i in range(50)]), 50)
        for i in range(10):
            self.c.must("GET", "k%d" % i)
        self.c.call("AUTH", "stranger", "wrong")
        self.c.must("EVAL", "return 1", 0)
        self.c.must("SELECT", 3)
        self.c.must("SET", "x", 1, "EX", 1000)

        def equal():
            info, families = self.server.info(), scrape(self.port)
            other = self.server.info()
            pairs = [(name, labels, value(families, name, **labels), float(info[field])) for name, labels, field in SAME if field and info[field] == other[field]]
            self.assertGreater(len(pairs), len(SAME) - 8)
            return [pair for pair in pairs if int(pair[2]) != pair[3]] or families
        found = []

        def settled():
            found[:] = [equal()]
            return isinstance(found[0], dict)
        try:
            until(settled)
        except AssertionError:
            self.assertEqual(found[0], [])
        families = found[0]
        info = self.server.info()
        self.assertEqual(value(families, "kelvin_keys", db="0", tier="hot"), 60)
        self.assertEqual(value(families, "kelvin_keys", db="0", tier="cold"), 40)
        self.assertEqual(value(families, "kelvin_keys", db="3", tier="hot"), 1)
        self.assertEqual(value(families, "kelvin_keys_expiring", db="3"), 1)
        self.assertEqual(value(families, "kelvin_keys_expired"), 1)
        self.assertEqual(value(families, "kelvin_tier_demotions", record="written") + value(families, "kelvin_tier_demotions", record="kept"), int(info["tier_demotions"]))
        self.assertEqual(value(families, "kelvin_tier_state", state="ok"), 1)
        self.assertEqual(sum(families["kelvin_tier_state"].samples.values()), 1)
        self.assertEqual(value(families, "kelvin_build", version=info["kelvin_version"], redis_version=info["redis_version"], mode="standalone",
                               build=re.search(r"build=\"(\w+)\"", self.get("/metrics")[2]).group(1)), 1)
        for name, field in (("kelvin_memory_used_bytes", "used_memory"), ("kelvin_memory_resident_bytes", "used_memory_rss"), ("kelvin_memory_peak_bytes", "used_memory_peak"),
                            ("kelvin_memory_counted_bytes", "tier_memory_counted")):
            self.assertAlmostEqual(value(families, name) / int(info[field]), 1, delta=0.5, msg=name)

    def test_histograms_count_calls_waits_and_loads(self):
        self.begin(maxmemory="100mb")
        for i in range(20):
            self.c.must("SET", "k%d" % i, "v")
        self.c.must("RPUSH", "l", 1)
        self.c.must("CONFIG", "GET", "port")
        self.c.call("INCR", "l")
        self.assertEqual(self.c.must("TIER", "DEMOTE", *["k%d" % i for i in range(20)]), 20)
        for i in range(20):
            self.c.must("GET", "k%d" % i)
        families = scrape(self.port)
        name = "kelvin_command_duration_seconds"
        self.assertEqual(value(families, name, "_count", family="string"), 41)
        self.assertEqual(value(families, name, "_count", family="list"), 1)
        self.assertGreater(value(families, name, "_sum", family="string"), 0)
        self.assertEqual(value(families, "kelvin_commands", family="string"), 41)
        self.assertEqual(value(families, "kelvin_commands_failed", family="string"), 1)
        self.assertEqual(value(families, "kelvin_errors", code="WRONGTYPE"), 1)
        self.assertEqual(value(families, "kelvin_commands", family="hash"), 0)
        loads = value(families, "kelvin_load_duration_seconds", "_count")
        self.assertTrue(1 <= loads <= 20)
        self.assertEqual(value(families, "kelvin_cold_wait_seconds", "_count"), int(self.server.info()["tier_cold_wait_calls"]))
        self.assertGreaterEqual(value(families, "kelvin_cold_wait_seconds", "_sum"), value(families, "kelvin_load_duration_seconds", "_sum") / 20)
        self.c.must("CONFIG", "RESETSTAT")
        families = scrape(self.port)
        for name in HISTOGRAMS[1:]:
            self.assertEqual((value(families, name, "_count"), value(families, name, "_sum")), (0, 0), name)
        self.assertEqual(value(families, "kelvin_commands", family="string"), 0)

    def test_protobuf_has_the_same_and_native_histograms(self):
        self.begin(maxmemory="100mb")
        for i in range(200):
            self.c.must("SET", "k%d" % i, "v")
            self.c.must("LPUSH", "l", "v" * i)
        self.c.must("DEBUG", "SLEEP", 0.05)
        self.assertEqual(self.c.must("TIER", "DEMOTE", *["k%d" % i for i in range(50)]), 50)
        for i in range(50):
            self.c.must("GET", "k%d" % i)
        status, headers, body = self.get("/metrics", text=False, Accept=PROTOBUF + ",text/plain;q=0.5")
        self.assertEqual((status, headers["Content-Type"]), (200, PROTOBUF))
        families, natives = parse_protobuf(body)
        plain = parse(self.get("/metrics", Accept="text/plain")[2], TEXT)
        self.assertEqual(len(families), len(plain))
        for family in plain.values():
            suffix = {"counter": "_total", "info": "_info"}.get(family.kind, "")
            found = families[family.name + suffix]
            self.assertEqual((found.kind, found.help), ("gauge" if family.kind == "info" else family.kind, family.help))
            self.assertEqual(len(found.samples), len(family.samples), family.name)
            if family.kind == "histogram":
                limits = {key: number for (end, key), number in family.samples.items() if end == "_bucket"}
                self.assertEqual(sorted((key[:-1], float(key[-1][1]), number) for key, number in limits.items()),
                                 sorted((key[:-1], key[-1][1], number) for (end, key), number in found.samples.items() if end == "_bucket"))
        for (name, labels), buckets in natives.items():
            with self.subTest(name=name, labels=labels):
                self.assertEqual(sum(count for _, count in buckets), families[name].samples["_count", labels])
                self.assertEqual(buckets, sorted(buckets))
                # A native bucket's values are at most one bucket from where they were: the text's buckets say about the same.
                for (end, key), seen in families[name].samples.items():
                    if end == "_bucket" and key[:-1] == labels:
                        self.assertLessEqual(sum(count for limit, count in buckets if limit <= key[-1][1] / 1.3), seen)
                        self.assertGreaterEqual(sum(count for limit, count in buckets if limit <= key[-1][1] * 1.3), seen)
        slept = [limit for limit, count in natives["kelvin_command_duration_seconds", (("family", "server"),)] if 0.045 < limit < 1 and count]
        self.assertTrue(slept and 0.05 / 1.1 < slept[0], slept)

    def test_series_are_few_whatever_clients_do(self):
        self.begin(databases=1000)
        for db in range(200):
            self.c.must("SELECT", db)
            self.c.must("SET", "k", db)
        for i in range(300):
            self.c.call("EVAL", "return redis.error_reply('CODE%d x')" % i, 0)
        families = scrape(self.port)
        self.assertEqual(len(families["kelvin_keys"].samples), 2 * 65)
        self.assertEqual(value(families, "kelvin_keys", db="others", tier="hot"), 200 - 64)
        self.assertLessEqual(len(families["kelvin_errors"].samples), 129)

    def test_documentation_lists_every_family(self):
        self.begin()
        documented = set(re.findall(r"(?m)^\| `(kelvin_\w+)` \| [a-z]+ \|", read_text(os.path.join(ROOT, "docs", "reference.md"))))
        found = set(scrape(self.port))
        only_in_clusters = {"kelvin_cluster_state", "kelvin_cluster_nodes", "kelvin_cluster_slots_assigned", "kelvin_cluster_slots_owned", "kelvin_cluster_links",
                            "kelvin_cluster_link_buffer_bytes"}
        self.assertEqual(documented, found | only_in_clusters)

    def test_a_replica_and_its_primary(self):
        self.begin()
        with metrics_server(replicaof=["127.0.0.1", self.server.port]) as replica:
            until(lambda: replica.info("replication")["master_link_status"] == "up")
            self.c.must("SET", "k", "v")
            families = until(lambda: [found for found in [scrape(self.port)] if list(found["kelvin_replication_replica_lag_bytes"].samples.values()) == [0]])[0]
            self.assertEqual(value(families, "kelvin_replication_is_replica"), 0)
            self.assertEqual(value(families, "kelvin_replication_replica_online", replica="127.0.0.1:%d" % replica.port), 1)
            families = scrape(replica.options["metrics-port"])
            self.assertEqual([value(families, "kelvin_replication_" + name) for name in ("is_replica", "link_up", "link_down_seconds")], [1, 1, 0])
            self.assertEqual(value(families, "kelvin_replication_offset_bytes"), value(families, "kelvin_replication_received_offset_bytes"))
            self.assertEqual(get(replica.options["metrics-port"], "/health/ready")[0], 200)
            with replica.client() as on_replica:
                on_replica.must("CONFIG", "SET", "replica-serve-stale-data", "no")
                self.server.kill9()
                status, _, body = until(lambda: [found for found in [get(replica.options["metrics-port"], "/health/ready")] if found[0] != 200])[0]
                self.assertEqual((status, "link to the primary is down" in body), (503, True))
                on_replica.must("CONFIG", "SET", "replica-serve-stale-data", "yes")
                self.assertEqual(get(replica.options["metrics-port"], "/health/ready")[0], 200)
        self.server.expect_crash = True

    def test_a_node_of_a_cluster(self):
        self.begin(cluster_enabled="yes", cluster_port=port_free())
        families = scrape(self.port)
        self.assertEqual([value(families, "kelvin_cluster_" + name) for name in ("enabled", "state", "slots_owned")], [1, 0, 0])
        self.assertEqual(self.get("/health/ready")[::2], (503, "The cluster is down, as this node sees it.\n"))
        self.c.must("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        until(lambda: self.get("/health/ready")[0] == 200)
        families = scrape(self.port)
        self.assertEqual([value(families, "kelvin_cluster_" + name) for name in ("state", "slots_owned", "slots_assigned", "nodes")], [1, 16384, 16384, 1])

    # /health

    def test_a_worker_that_hangs_is_not_alive(self):
        self.begin(**{"cluster-node-timeout": 1000})
        self.assertEqual(self.get("/health/live")[::2], (200, "ok\n"))
        self.c.send(b"DEBUG SLEEP 4\r\n")
        until(lambda: self.get("/health/live")[0] == 503, 4, "the sign that the worker hangs")
        scrape(self.port)
        self.assertEqual(self.c.receive(), OK)
        until(lambda: self.get("/health/live")[0] == 200)

    def test_a_call_that_holds_its_partition_holds_up_only_the_numbers(self):
        self.begin()
        size = 2000 if is_sanitized() else 6000
        self.c.must("SET", "{k}1", "a" * size)
        self.c.must("SET", "{k}2", "b" * size)
        self.c.send(b"LCS {k}1 {k}2 LEN\r\n")
        self.assertEqual(self.get("/health/live")[0], 200)
        self.assertEqual(self.get("/health/ready")[0], 200)
        self.assertIn(self.get("/metrics")[0], (200, 503))
        self.assertEqual(self.c.receive(), 0)
        scrape(self.port)

    def test_while_the_data_is_loaded_the_server_lives_and_is_not_ready(self):
        self.begin(appendonly="yes", appendfsync="no")
        for i in range(2000):
            self.c.must("SET", "k%d" % i, "v" * 100)
        ready = self.server.relaunch_slowly(2000, lambda: self.get("/health/ready"))
        self.assertEqual(ready[::2], (503, "The data is being loaded.\n"))
        self.assertEqual(self.get("/health/live")[0], 200)
        families = scrape(self.port)
        self.assertEqual(value(families, "kelvin_loading"), 1)
        self.server.load_quickly()
        until(lambda: self.get("/health/ready")[0] == 200)
        self.assertEqual(value(scrape(self.port), "kelvin_keys", db="0", tier="hot"), 2000)

    def test_reasons_for_not_being_ready(self):
        self.begin(**{"min-replicas-max-lag": 10, "tier-enabled": "no"})
        self.assertEqual(self.get("/health/ready")[0], 200)
        self.c.must("CONFIG", "SET", "min-replicas-to-write", 1)
        self.assertEqual(self.get("/health/ready")[::2], (503, "Fewer replicas than min-replicas-to-write are good: writes are refused.\n"))
        self.c.must("CONFIG", "SET", "min-replicas-to-write", 0)
        if not is_sanitized():          # memory is hardly counted there
            self.c.must("CONFIG", "SET", "maxmemory", 1)
            self.assertEqual(self.get("/health/ready")[::2], (503, "Memory is used up and can't be freed: writes are refused.\n"))
            self.c.must("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
            self.assertEqual(self.get("/health/ready")[0], 200)
            self.c.must("CONFIG", "SET", "maxmemory", 0)
        os.makedirs(os.path.join(self.server.folder, "dump.rdb", "x"))
        self.c.must("CONFIG", "SET", "save", "3600 1")
        self.c.must("BGSAVE")
        until(lambda: self.get("/health/ready")[::2] == (503, "The last dump has failed: writes are refused.\n"))
        self.assertEqual(value(scrape(self.port), "kelvin_writes_refused"), 1)
        self.c.must("CONFIG", "SET", "save", "")

    # Users

    def test_who_may_see_it(self):
        self.begin()
        self.assertEqual(self.get("/metrics")[0], 200)
        self.c.must("CONFIG", "SET", "requirepass", "secret")
        status, headers, _ = self.get("/metrics")
        self.assertEqual((status, headers["WWW-Authenticate"].startswith("Basic realm=")), (401, True))
        self.assertEqual(self.get("/metrics", user=("default", "secret"))[0], 200)
        self.assertEqual(self.c.must("ACL", "LOG"), [])
        self.assertEqual(self.get("/metrics", user=("default", "wrong"))[0], 401)
        self.assertEqual(self.get("/metrics", user=("nob\u00f6dy\u20ac", "x" * 1000))[0], 401)
        self.assertEqual(self.get("/health/live")[0], 200)
        self.assertEqual(self.get("/health/ready")[0], 200)
        entries = [dict(zip(entry[::2], entry[1::2])) for entry in self.c.must("ACL", "LOG")]
        self.assertEqual([(entry[b"reason"], entry[b"object"], entry[b"username"]) for entry in entries],
                         [(b"auth", b"http", "nob\u00f6dy\u20ac".encode()), (b"auth", b"http", b"default")])
        self.assertRegex(entries[0][b"client-info"], rb"addr=127\.0\.0\.1:\d+ ")
        self.c.must("CONFIG", "SET", "requirepass", "")
        self.assertEqual(self.get("/metrics")[0], 200)
        self.c.must("ACL", "SETUSER", "watcher", "on", ">w:1", "+info")
        self.assertEqual(self.get("/metrics")[0], 401)
        self.assertEqual(self.get("/metrics", user=("watcher", "w:1"))[0], 200)
        self.c.must("ACL", "SETUSER", "watcher", "-info")
        self.assertEqual(self.get("/metrics", user=("watcher", "w:1"))[0], 403)
        self.assertEqual(self.c.must("ACL", "LOG", 1)[0][1::2][4], b"watcher")
        self.c.must("ACL", "SETUSER", "watcher", "+info", "off")
        self.assertEqual(self.get("/metrics", user=("watcher", "w:1"))[0], 401)
        self.c.must("ACL", "DELUSER", "watcher")
        self.assertEqual(self.get("/metrics")[0], 200)

    def test_a_page_of_a_stranger_can_not_have_its_domain_be_this_machine(self):
        self.begin(**{"metrics-bind": "*"})
        for host in ("evil.example", "evil.example:%d" % self.port, "localhost.evil.example", ""):
            self.assertEqual((self.get("/metrics", Host=host)[0], self.get("/health/live", Host=host)[0]), (403, 200), host)
        for host in ("127.0.0.1", "[::1]:1", "localhost:%d" % self.port, "kelvin.localhost", socket.gethostname()):
            self.assertEqual(self.get("/metrics", Host=host)[0], 200, host)
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as client:      # not a browser
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            self.assertEqual(client.recv(12)[-4:], b" 200")
        # A name and password can't come from a stranger's page.
        self.c.must("ACL", "SETUSER", "watcher", "on", ">w", "+info")
        self.assertEqual(self.get("/metrics", Host="evil.example")[0], 401)
        self.assertEqual(self.get("/metrics", Host="kelvin.example", user=("watcher", "w"))[0], 200)
        self.c.must("ACL", "DELUSER", "watcher")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:                     # an address that others reach, if there is one
            try:
                probe.connect(("192.0.2.1", 9))
                address = probe.getsockname()[0]
            except OSError:
                return
        self.assertEqual(self.get("/metrics", host=address, Host="kelvin.example")[0], 200)

    def test_users_change_while_it_is_asked_for(self):
        self.begin(**{"io-threads": 2})
        self.c.must("CONFIG", "SET", "requirepass", "secret")
        statuses, stop = [], threading.Event()

        def ask():
            while not stop.is_set():
                statuses.append(self.get("/metrics", user=("watcher", "w"))[0])
        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for i in range(100):
            self.c.must("ACL", "SETUSER", "watcher", "reset", "on", ">w", "+info" if i % 2 else "-info", "~*" if i % 3 else "~x*")
            if i % 5 == 0:
                self.c.must("ACL", "DELUSER", "watcher")
        stop.set()
        for thread in threads:
            thread.join()
        self.assertLessEqual(set(statuses), {200, 401, 403})

    # Addresses

    def test_the_port_is_opened_moved_and_closed(self):
        self.begin()
        first, second = self.port, port_free()
        self.assertEqual(self.c.must("CONFIG", "SET", "metrics-port", second), OK)
        self.assertRaises(ConnectionRefusedError, get, first)
        self.assertEqual(get(second)[0], 200)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            reply = self.c.call("CONFIG", "SET", "metrics-port", taken.getsockname()[1])
            self.assertIsInstance(reply, Error)
            self.assertIn(b"Address already in use", reply)
        self.assertEqual(self.c.must("CONFIG", "GET", "metrics-port"), [b"metrics-port", str(second).encode()])
        self.assertEqual(get(second)[0], 200)
        self.assertEqual(self.c.must("CONFIG", "SET", "metrics-bind", "127.0.0.2"), OK)
        self.assertRaises(ConnectionRefusedError, get, second)
        self.assertEqual(get(second, host="127.0.0.2")[0], 200)
        self.assertEqual(self.c.must("CONFIG", "SET", "metrics-bind", "*", "metrics-port", first), OK)
        self.assertEqual((get(first)[0], get(first, host="127.0.0.2")[0]), (200, 200))
        self.assertEqual(self.c.must("CONFIG", "SET", "metrics-port", 0), OK)
        self.assertRaises(ConnectionRefusedError, get, first)
        self.assertEqual(self.c.must("CONFIG", "SET", "metrics-port", first), OK)
        self.assertEqual(get(first)[0], 200)

    def test_it_is_off_unless_it_is_wanted(self):
        with Server() as server:
            with server.client() as client:
                self.assertEqual(client.must("CONFIG", "GET", "metrics-*"), [b"metrics-port", b"0", b"metrics-bind", b"127.0.0.1 -::1"])
            names = [read_text("/proc/%d/task/%s/comm" % (server.process.pid, task)) for task in os.listdir("/proc/%d/task" % server.process.pid)]
            self.assertNotIn("kelvin-http\n", names)

    def test_a_start_with_a_port_that_is_taken_ends_with_its_reason(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            server = Server({"metrics-port": taken.getsockname()[1]}, start=False)
            self.addCleanup(server.discard)
            server.launch()
            self.assertEqual(server.wait_end(), 1)
            self.assertIn(b"127.0.0.1:%d: bind: Address already in use" % taken.getsockname()[1], server.log())
            self.assertIsNone(server.alarm())

    # Clients

    def test_hostile_slow_and_many_clients(self):
        self.begin()
        address = ("127.0.0.1", self.port)
        for bytes_ in (b"", b"\0" * 1000, b"GET / HTTP/1.1\r\n" * 1000, b"*1\r\n$4\r\nPING\r\n", b"GET /metrics HTTP/1.1\r\nHost: " + b"x" * 100000, os.urandom(5000)):
            with socket.create_connection(address, timeout=20) as client:
                try:
                    client.sendall(bytes_)
                except OSError:
                    pass
        silent = [socket.create_connection(address, timeout=20) for _ in range(100)]
        for client in silent:
            self.addCleanup(client.close)
        slow = socket.create_connection(address, timeout=20)
        self.addCleanup(slow.close)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        scrape(self.port)
        self.assertEqual(self.get("/health/live")[0], 200)
        self.assertEqual(self.get("/nothing")[0], 404)
        self.assertEqual(self.get("/metrics", method="POST")[0], 405)
        status, headers, body = self.get("/metrics", method="HEAD")
        self.assertEqual((status, body, int(headers["Content-Length"]) > 10000), (200, "", True))

    def test_scrapes_while_clients_write_and_the_server_ends(self):
        self.begin(maxmemory="20mb", appendonly="yes", **{"io-threads": 2})
        stop, problems = threading.Event(), []

        def ask():
            while not stop.is_set():
                try:
                    scrape(self.port)
                except OSError:
                    time.sleep(0.01)
                except ValueError as error:
                    if "503: The server is ending." not in str(error):
                        problems.append(error)
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for batch in range(20):
            self.c.pipeline([("SET", "k%d" % (batch * 500 + i), "v" * 3000) for i in range(100 if is_sanitized() else 500)])
            self.c.must("CONFIG", "SET", "metrics-port", port_free() if batch % 4 == 1 else self.port)
        self.assertEqual(self.server.terminate(), 0)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        self.server.start()


if __name__ == "__main__":
    main()

"""INFO, MEMORY, SLOWLOG, LATENCY, DEBUG: every section and field of Redis is there, and the values are correct."""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, kelvin_only, main                                                # noqa: E402
from support.resp import OK, Error, Verbatim                                                        # noqa: E402
from support.server import Server, is_sanitized, until                                                                 # noqa: E402

# Fields of 7.0 that 7.2 does not have, or that depend on the state of the server.
PASSING = {"module_fork_in_progress", "module_fork_last_cow_size", "aof_current_size", "io_threads_active"}
TIERING = """
    tier_status tier_hot_keys tier_cold_keys tier_hot_pages tier_cold_pages tier_unknown_keys tier_dirty_keys tier_hot_hits tier_cold_hits tier_misses tier_hit_ratio
    tier_blind_writes tier_demotions tier_clean_demotions tier_promotions tier_looks tier_pinned_keys tier_rules tier_batches tier_read_method tier_ring_reads tier_ring_batches
    tier_loads_waiting tier_load_usec_p50 tier_load_usec_p99 tier_cold_wait_calls tier_cold_wait_usec_p50 tier_cold_wait_usec_p99
    tier_memory_wait_calls tier_memory_wait_usec_p50 tier_memory_wait_usec_p99 tier_false_maybes tier_store_bytes tier_segments tier_segment_bytes
    tier_segment_live_bytes tier_segment_written_bytes tier_collected_bytes tier_compression_ratio tier_compressed_records tier_compression_saved_bytes
    tier_packed_keys tier_packed_bytes tier_packed_hits tier_dictionaries
    tier_store_memory tier_memory_set_aside
    tier_memory_counted tier_memory_waiting_clients tier_memory_waiting_ms tier_recordmap_bytes tier_graves tier_unplanned_reads
    tier_throttled_clients tier_expired_cold tier_evicted_cold tier_resolved tier_errors tier_last_error tier_damaged_records tier_warmup_state tier_warmup_keys_total
    tier_warmup_keys_loaded tier_warmup_seconds tier_hot_bytes tier_held_bytes tier_advise_sampled_keys tier_advise_sampled_uses
    tier_advise_known tier_advise_half_hit_ratio tier_advise_hit_ratio tier_advise_double_hit_ratio tier_backup_in_progress tier_backup_current_ms tier_last_backup_status
    tier_last_backup_time tier_last_backup_ms tier_last_backup_keys tier_last_backup_bytes tier_last_backup_copied_bytes
""".split()
# Fields of 7.2 that 7.0, the oracle, does not have.
SINCE_7_2 = {
    "Server": ["listener0"],
    "Clients": ["total_blocking_keys", "total_blocking_keys_on_nokey"],
    "Stats": ["eventloop_cycles", "eventloop_duration_sum", "eventloop_duration_cmd_sum", "instantaneous_eventloop_cycles_per_sec",
              "instantaneous_eventloop_duration_usec", "acl_access_denied_auth", "acl_access_denied_cmd", "acl_access_denied_key",
              "acl_access_denied_channel"],
}


def sections(text):
    out, name = {}, None
    for line in text.decode().split("\r\n"):
        if line.startswith("# "):
            name = line[2:]
            out[name] = {}
        elif ":" in line:
            field, value = line.split(":", 1)
            out[name][field] = value
    return out


class InfoTest(PairCase):
    def test_every_section_and_field_of_redis_is_there(self):
        ours, theirs = sections(self.c.must("INFO", "everything")), sections(self.r.must("INFO", "everything"))
        missing = [section for section in theirs if section not in ours]
        self.assertEqual(missing, [], "sections")
        for section in theirs:
            if section in ("Commandstats", "Errorstats", "Latencystats", "Keyspace", "Modules", "CPU"):
                continue
            lacking = sorted(set(theirs[section]) - set(ours[section]) - PASSING)
            self.assertEqual(lacking, [], "fields of section " + section)
        self.assertEqual(sorted(set(theirs["CPU"]) - set(ours["CPU"])), [])

    def test_sections_can_be_selected(self):
        for arguments in ([], ["default"], ["server"], ["SERVER"], ["server", "clients"], ["nosuch"], ["all"], ["keyspace", "nosuch"],
                          ["commandstats"], ["memory", "memory"]):
            names = [list(sections(client.must("INFO", *arguments))) for client in (self.c, self.r)]
            self.assertEqual([name for name in names[0] if name != "Tiering"], names[1], arguments)

    def test_the_reply_is_verbatim_text_in_resp3(self):
        ours, theirs = self.clients(protocol=3)
        reply = ours.must("INFO", "server")
        self.assertIsInstance(reply, Verbatim)
        self.assertTrue(reply.startswith(b"txt:"))
        self.assertIsInstance(theirs.must("INFO", "server"), Verbatim)

    def test_redis_version_and_mode(self):
        info = self.server.info("server")
        self.assertRegex(info["redis_version"], r"^7\.\d+\.\d+$")
        self.assertEqual(int(info["process_id"]), self.server.process.pid)
        self.assertEqual(int(info["tcp_port"]), self.server.port)
        self.assertRegex(info["run_id"], r"^[0-9a-f]{40}$")
        self.assertLess(int(info["uptime_in_seconds"]), 3600)
        self.assertLess(abs(int(info["server_time_usec"]) / 1e6 - time.time()), 5)

    @kelvin_only
    def test_the_name_and_version_of_kelvin(self):
        info = self.server.info("server")
        self.assertTrue(info["redis_version"].startswith("7.2."))
        self.assertEqual(info["server_name"], "kelvin")
        self.assertRegex(info["kelvin_version"], r"^\d+\.\d+")

    def test_counters_increase(self):
        before = self.server.info()
        with self.server.client() as client:
            client.must("SET", "k", "v")
            client.pipeline([["GET", "k"]] * 7 + [["GET", "no"]] * 5 + [["BAD"], ["GET"]])
            after = self.server.info()

        def moved(name):
            return int(after[name]) - int(before[name])
        self.assertEqual(moved("keyspace_hits"), 7)
        self.assertEqual(moved("keyspace_misses"), 5)
        # SET, 12 GETs, the INFOs; errors are counted as Redis does.
        self.assertIn(moved("total_commands_processed"), (14, 15, 16))
        self.assertEqual(moved("total_error_replies"), 2)
        self.assertEqual(moved("total_connections_received"), 2)
        self.assertGreater(moved("total_net_input_bytes"), 12 * 20)
        self.assertGreater(moved("total_net_output_bytes"), 100)
        self.assertGreaterEqual(int(after["connected_clients"]), 2)
        self.assertGreater(float(after["used_cpu_user"]) + float(after["used_cpu_sys"]), 0)

    def test_keyspace(self):
        self.both("SET a 1\nSET b 1 EX 100\nSELECT 5\nSET c 1\nSELECT 0")
        for client in (self.c, self.r):
            keyspace = sections(client.must("INFO", "keyspace"))["Keyspace"]
            self.assertEqual(set(keyspace), {"db0", "db5"})
            self.assertTrue(keyspace["db0"].startswith("keys=2,expires=1,avg_ttl="))
            self.assertTrue(keyspace["db5"].startswith("keys=1,expires=0,avg_ttl=0"))

    def test_command_statistics(self):
        self.c.must("CONFIG", "RESETSTAT")
        self.c.pipeline([["SET", "k", "v"]] * 3 + [["INCR", "k"]] * 2 + [["GET"]] * 4)
        stats = sections(self.c.must("INFO", "commandstats"))["Commandstats"]

        def of(name):
            return dict(part.split("=") for part in stats["cmdstat_" + name].split(","))
        self.assertEqual(of("set")["calls"], "3")
        self.assertEqual((of("incr")["calls"], of("incr")["failed_calls"]), ("2", "2"))
        self.assertEqual((of("get")["calls"], of("get")["rejected_calls"]), ("0", "4"))
        self.assertEqual(of("config|resetstat")["calls"], "1")
        errors = sections(self.c.must("INFO", "errorstats"))["Errorstats"]
        self.assertEqual(errors["errorstat_ERR"], "count=6")
        latency = sections(self.c.must("INFO", "latencystats"))["Latencystats"]
        self.assertRegex(latency["latency_percentiles_usec_set"], r"^p50=[\d.]+,p99=[\d.]+,p99\.9=[\d.]+$")

    def test_memory_is_counted(self):
        until(lambda: self.server.info("memory")["lazyfree_pending_objects"] == "0", 10, "the end of the FLUSHALL of the previous test")
        before = int(self.server.info("memory")["used_memory"])
        self.c.pipeline(["SET", "k%d" % i, "v" * 1000] for i in range(5000))
        full = self.server.info("memory")
        # Heaps report their memory in steps, and the allocators of sanitizers do not report that of tables.
        self.assertGreater(int(full["used_memory"]) - before, 5000 * (950 if is_sanitized() else 1000))
        self.assertLess(int(full["used_memory"]) - before, 5000 * 1500)
        self.assertGreater(int(full["used_memory_rss"]), int(full["used_memory"]) // 2)
        self.assertGreaterEqual(int(full["used_memory_peak"]), int(full["used_memory"]))
        self.c.must("FLUSHALL")
        until(lambda: int(self.server.info("memory")["used_memory"]) < before + 2000000, 10, "memory to be freed")

    def test_memory_usage(self):
        self.both("""
            MEMORY USAGE missing
            MEMORY USAGE
            MEMORY USAGE k SAMPLES
            MEMORY USAGE k SAMPLES abc
            MEMORY USAGE k foo 5
            MEMORY
            MEMORY nosuch
        """)
        self.c.must("SET", "k", "v" * 10000)
        self.c.must("HSET", "h", *[word for i in range(1000) for word in ("field%d" % i, "v" * 50)])
        self.assertTrue(10000 < self.c.must("MEMORY", "USAGE", "k") < 17000)
        for samples in (0, 5):
            self.assertTrue(55000 < self.c.must("MEMORY", "USAGE", "h", "SAMPLES", samples) < 200000)
        stats = self.c.must("MEMORY", "STATS")
        other = self.r.must("MEMORY", "STATS")
        lacking = {name for name in other[::2]} - {name for name in stats[::2]}
        self.assertEqual({name for name in lacking if not name.startswith(b"db.")}, set())
        self.assertIsInstance(self.c.must("MEMORY", "DOCTOR"), bytes)

    @kelvin_only
    def test_an_idle_server_turns_only_for_its_cron(self):
        """Ten times a second; with some room for what the commands and the start leave to do."""
        def cycles():
            return int(self.server.info("stats")["eventloop_cycles"]), time.monotonic()

        with Server({"io-threads": 1}) as server:
            self.server, before = server, self.server
            self.addCleanup(setattr, self, "server", before)
            first, began = cycles()
            time.sleep(1.5)
            last, ended = cycles()
            self.assertLess(last - first, (ended - began) * 10 + 10)

    def test_slowlog(self):
        self.both("CONFIG SET slowlog-log-slower-than 0\nSLOWLOG RESET")
        self.c.pipeline([["SET", "k", "v" * 500], ["GET", "k"], ["HSET", "h"] + [str(i) for i in range(60)]])
        entries = self.c.must("SLOWLOG", "GET", 10)
        self.assertEqual([entry[3][0] for entry in entries[:3]], [b"HSET", b"GET", b"SET"])
        self.assertEqual(len(entries[0][3]), 32)
        self.assertEqual(entries[0][3][-1], b"... (31 more arguments)")
        self.assertEqual(entries[2][3][2], b"v" * 128 + b"... (372 more bytes)")
        self.assertGreater(entries[0][0], entries[1][0])
        self.assertLess(abs(entries[0][1] - time.time()), 5)
        self.assertIsInstance(entries[0][2], int)
        self.assertEqual(entries[0][4], b"%s:%d" % (self.c.socket.getsockname()[0].encode(), self.c.socket.getsockname()[1]))
        self.assertGreaterEqual(self.c.must("SLOWLOG", "LEN"), 3)
        self.assertEqual(len(self.c.must("SLOWLOG", "GET", 2)), 2)
        self.both("CONFIG SET slowlog-log-slower-than 10000000\nSLOWLOG RESET")
        self.assertEqual(self.c.must("SLOWLOG", "LEN"), 0)
        self.both("CONFIG SET slowlog-log-slower-than 10000")
        for command in (["GET", "-5"], ["GET", "abc"], ["nosuch"], ["GET", "-1"]):
            replies = [client.call("SLOWLOG", *command) for client in (self.c, self.r)]
            self.assertEqual(*[reply if isinstance(reply, Error) else type(reply) for reply in replies])

    def test_latency(self):
        self.both("CONFIG SET latency-monitor-threshold 5\nLATENCY RESET")
        self.c.must("DEBUG", "SLEEP", "0.02")
        latest = self.c.must("LATENCY", "LATEST")
        self.assertEqual([entry[0] for entry in latest], [b"command"])
        self.assertGreaterEqual(latest[0][2], 20)
        history = self.c.must("LATENCY", "HISTORY", "command")
        self.assertGreaterEqual(history[0][1], 20)
        self.assertEqual(self.c.must("LATENCY", "RESET", "command"), 1)
        self.assertEqual(self.c.must("LATENCY", "HISTORY", "command"), [])
        self.both("CONFIG SET latency-monitor-threshold 0\nLATENCY HISTORY\nLATENCY nosuch\nLATENCY GRAPH nosuch")
        self.c.must("SET", "k", "v")
        histogram = self.c.must("LATENCY", "HISTOGRAM", "set")
        self.assertEqual(histogram[0], b"set")
        facts = dict(zip(histogram[1][::2], histogram[1][1::2]))
        self.assertGreaterEqual(facts[b"calls"], 1)

    def test_debug(self):
        started = time.monotonic()
        self.assertEqual(self.c.must("DEBUG", "SLEEP", "0.1"), OK)
        self.assertGreaterEqual(time.monotonic() - started, 0.1)
        self.both("SET k v\nDEBUG SET-ACTIVE-EXPIRE 1\nDEBUG nosuch\nDEBUG OBJECT missing")
        ours, theirs = self.c.must("DEBUG", "OBJECT", "k"), self.r.must("DEBUG", "OBJECT", "k")
        self.assertRegex(ours.decode(), r"refcount:1 encoding:embstr serializedlength:\d+ lru:\d+ lru_seconds_idle:\d+")
        self.assertEqual(re.sub(r"\d+|0x\w+", "N", ours.decode()).split("encoding")[1],
                         re.sub(r"\d+|0x\w+", "N", theirs.decode()).split("encoding")[1])

    def test_lastsave_and_lolwut(self):
        self.assertLess(abs(self.c.must("LASTSAVE") - time.time()), 3600)
        for arguments in ([], ["VERSION", "5"]):
            reply = self.c.must("LOLWUT", *arguments)
            self.assertIn(b"ver. ", bytes(reply))

    @kelvin_only
    def test_the_fields_of_7_2_are_there(self):
        ours = sections(self.c.must("INFO"))
        for section, names in SINCE_7_2.items():
            self.assertEqual([name for name in names if name not in ours[section]], [], section)
        self.assertEqual(ours["Server"]["listener0"], "name=tcp,bind=127.0.0.1,port=%d" % self.server.port)

    def test_fields_come_in_the_order_of_redis(self):
        ours, theirs = sections(self.c.must("INFO", "everything")), sections(self.r.must("INFO", "everything"))
        for section in ("Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Cluster"):
            shared = [name for name in theirs[section] if name in ours[section]]
            self.assertEqual([name for name in ours[section] if name in theirs[section]], shared, section)
        self.assertEqual([name for name in ours if name != "Tiering"], list(theirs))

    def test_rates_show_the_load(self):
        """Sampled ten times per second: after two seconds of load, all samples are from the load."""
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            self.c.pipeline([["SET", "k", "v" * 100]] * 100)
        stats = self.server.info("stats")
        self.assertGreater(int(stats["instantaneous_ops_per_sec"]), 500)
        self.assertGreater(float(stats["instantaneous_input_kbps"]), 50)
        self.assertGreater(float(stats["instantaneous_output_kbps"]), 1)
        clients = self.server.info("clients")
        self.assertGreater(int(clients["client_recent_max_input_buffer"]) + int(clients["client_recent_max_output_buffer"]), 100)
        self.assertGreater(int(self.server.info("memory")["mem_clients_normal"]), 100)

    def test_average_time_to_live(self):
        self.c.pipeline([["SET", "k%d" % i, "v", "EX", "1000"] for i in range(500)] + [["SET", "n%d" % i, "v"] for i in range(500)])
        facts = dict(part.split("=") for part in self.server.info("keyspace")["db0"].split(","))
        self.assertEqual((facts["keys"], facts["expires"]), ("1000", "500"))
        if self.server.kelvin:      # Redis updates it periodically
            self.assertTrue(900000 < int(facts["avg_ttl"]) <= 1000000)

    @kelvin_only
    def test_keys_are_counted_over_both_tiers(self):
        self.c.pipeline(["SET", "k%d" % i, "v"] for i in range(300))
        self.c.must("TIER", "DEMOTE", *["k%d" % i for i in range(200)])
        self.assertTrue(self.server.info("keyspace")["db0"].startswith("keys=300,"))

    def test_resetstat_resets(self):
        self.c.pipeline([["BAD"]] * 5 + [["GET", "missing"]] * 3)
        self.assertIn("errorstat_ERR", self.server.info("errorstats"))
        self.c.must("CONFIG", "RESETSTAT")
        info = self.server.info()
        self.assertNotIn("errorstat_ERR", info)
        self.assertEqual((info["keyspace_misses"], info["total_error_replies"]), ("0", "0"))
        self.assertNotIn("cmdstat_get", info)

    @kelvin_only
    def test_the_tiering_section_is_complete(self):
        tiering = sections(self.c.must("INFO", "tiering"))["Tiering"]
        self.assertEqual(list(tiering), TIERING)
        reply = self.c.must("TIER", "STATS")
        self.assertEqual([name.decode() for name in reply[::2]], TIERING)
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "operating.md")) as file:
            documented = file.read()
        self.assertEqual([name for name in TIERING if "`%s`" % name not in documented], [], "not in docs/operating.md")


if __name__ == "__main__":
    main()

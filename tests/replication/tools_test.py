#!/usr/bin/python3
"""Debian's redis-cli as a replica: --rdb, --functions-rdb, --replica; a new redis-server from what they write; CLIENT KILL and LIST."""
import os
import select
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import PRIMARIES, ReplicationCase, main, only
from support.replication.load import fill_all_types
from support.replication.readings import check_same
from support.server import redis_tool, until


def cli(server, *words, **options):
    return subprocess.run([redis_tool("redis-cli"), "-p", str(server.port), *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, **options)


class ToolsTest(ReplicationCase):
    @only(*PRIMARIES)
    def scenario_rdb_of_redis_cli(self):
        for diskless in ("yes", "no"):
            with self.subTest(diskless=diskless):
                primary = self.start("primary", {"repl-diskless-sync": diskless})
                fill_all_types(primary, databases=3)
                copy = servers.start("redis", {"dbfilename": "copy.rdb"}, start=False)
                self.started(copy)
                done = cli(primary, "--rdb", os.path.join(copy.folder, "copy.rdb"))
                self.assertEqual(done.returncode, 0, done)
                copy.start()
                self.assertGreater(check_same(primary, copy), 100)
                until(lambda: servers.replication(primary)["connected_slaves"] == "0", 10, "redis-cli has left")

    @only(*PRIMARIES)
    def scenario_functions_rdb_of_redis_cli(self):
        primary = self.start("primary")
        fill_all_types(primary, databases=1)
        copy = servers.start("redis", {"dbfilename": "copy.rdb"}, start=False)
        self.started(copy)
        done = cli(primary, "--functions-rdb", os.path.join(copy.folder, "copy.rdb"))
        self.assertEqual(done.returncode, 0, done)
        copy.start()
        self.assertEqual(servers.values_of(copy, "DBSIZE"), [0])
        self.assertEqual(len(servers.must(copy, "FUNCTION LIST")), 1)

    @only(*PRIMARIES)
    def scenario_replica_of_redis_cli(self):
        primary = self.start("primary")
        servers.must(primary, "SET before 1")
        program = subprocess.Popen([redis_tool("redis-cli"), "-p", str(primary.port), "--replica"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            until(lambda: "state=online" in servers.replication(primary).get("slave0", ""), 20, "redis-cli is a replica")
            servers.must(primary, "SET seen 1", "SELECT 3", "LPUSH l x")
            output, deadline = b"", time.monotonic() + 20
            while b'"LPUSH","l","x"' not in output.upper().replace(b'"L","X"', b'"l","x"') and time.monotonic() < deadline:
                if select.select([program.stdout], [], [], 0.5)[0]:
                    output += os.read(program.stdout.fileno(), 1 << 16)
            self.assertIn(b'"seen","1"', output)
            self.assertIn(b'"SELECT","3"', output)
            self.assertIn(b'"l","x"', output)
        finally:
            program.kill()
            program.wait()
            program.stdout.close()

    def scenario_client_list_and_kill(self):
        primary, replica = self.pair()
        found = dict(field.split("=", 1) for field in servers.must(primary, "CLIENT LIST TYPE replica").decode().split())
        self.assertEqual(found["flags"], "S")
        found = dict(field.split("=", 1) for field in servers.must(replica, "CLIENT LIST TYPE master").decode().split())
        self.assertEqual(found["flags"], "M")
        self.assertEqual(servers.must(replica, "CLIENT KILL TYPE master"), 1)
        until(lambda: servers.count_of(primary, "sync_partial_ok") == 1, 20, "the replica is back")
        self.assertEqual(servers.cut_links(primary), 1)
        until(lambda: servers.count_of(primary, "sync_partial_ok") == 2, 20, "the replica is back")
        servers.must(primary, "SET k v")
        self.same(primary, replica)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""shutdown-timeout: the end of a primary waits for its replicas, while writes wait."""
import os
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.disk import DELAY
from support.replication import servers
from support.replication.case import PRIMARIES, ReplicationCase, main, only
from support.replication.faults import with_disk
from support.replication.load import Load
from support.replication.recorder import Recorder
from support.replication.scripted import ScriptedPrimary, make_rdb
from support.resp import Error, Status, encode
from support.server import is_sanitized, scaled, seed_new, until

REFUSED = Error(b"ERR Errors trying to SHUTDOWN. Check logs.")


def left_ms(server):
    found = server.info("server").get("shutdown_in_milliseconds")
    return None if found is None else int(found)


class ShutdownTest(ReplicationCase):
    def lagging(self, timeout_s, replica_options=None, **options):
        """A primary whose replica is stopped, and lacks a write."""
        primary, replica = self.pair({"shutdown-timeout": timeout_s, **options}, replica_options)
        pause = servers.stopped(replica)
        pause.__enter__()
        self.addCleanup(pause.__exit__, None, None, None)
        servers.must(primary, "SET last v")
        return primary, replica, pause

    def asked(self, server, *args):
        client = self.client(server)
        client.send(encode(("SHUTDOWN", *args)))
        until(lambda: left_ms(server) is not None, 10, "it waits for replicas")
        return client

    def ended(self, server):
        server.wait_end(30)
        server.expect_crash = True
        return server.log()

    def scenario_waits_until_the_replica_has_all(self):
        primary, replica, pause = self.lagging(60)
        self.asked(primary)
        self.assertTrue(1000 < left_ms(primary) <= 60000)
        pause.__exit__(None, None, None)
        log = self.ended(primary)
        self.assertIn(b"Waiting for replicas before shutting down.", log)
        self.assertIn(b"1 of 1 replicas are in sync when shutting down.", log)
        self.assertNotIn(b"Lagging replica", log)
        until(lambda: servers.values_of(replica, "GET last")[0] == b"v", 10, "the last write")

    def scenario_of_a_signal_waits_as_well(self):
        primary, replica, pause = self.lagging(60)
        primary.process.send_signal(signal.SIGTERM)
        until(lambda: left_ms(primary) is not None, 10, "it waits for replicas")
        pause.__exit__(None, None, None)
        self.assertIn(b"1 of 1 replicas are in sync when shutting down.", self.ended(primary))
        until(lambda: servers.values_of(replica, "GET last")[0] == b"v", 10, "the last write")

    def scenario_ends_after_its_time(self):
        primary, replica, pause = self.lagging(1)
        with primary.client() as client:
            client.send(b"SHUTDOWN\r\n")
            log = self.ended(primary)
        self.assertRegex(log, rb"Lagging replica [^ ]+:%d reported offset \d+ behind master, lag=\d+, state=online" % replica.port)
        self.assertIn(b"0 of 1 replicas are in sync when shutting down.", log)

    def scenario_with_now_or_without_time_does_not_wait(self):
        for timeout_s, args in ((60, ("NOW",)), (60, ("NOSAVE", "NOW")), (0, ())):
            with self.subTest(args=args):
                primary, replica, pause = self.lagging(timeout_s)
                with primary.client() as client:
                    client.send(encode(("SHUTDOWN", *args)))
                    log = self.ended(primary)
                self.assertNotIn(b"Waiting for replicas", log)
                self.assertIn(b"0 of 1 replicas are in sync when shutting down.", log)

    def scenario_of_replicas_in_sync_does_not_wait(self):
        primary, replica = self.pair({"shutdown-timeout": 60})
        servers.must(primary, "SET last v")
        servers.must(primary, "WAIT 1 0")
        servers.wait_in_sync(primary, replica)
        with primary.client() as client:
            client.send(b"SHUTDOWN\r\n")
            self.assertIn(b"1 of 1 replicas are in sync when shutting down.", self.ended(primary))

    def scenario_that_is_aborted_goes_on(self):
        primary, replica, pause = self.lagging(60)
        first = self.asked(primary)
        second = self.client(primary)
        second.send(b"SHUTDOWN NOSAVE\r\n")
        writer = self.client(primary)
        writer.send(b"SET meanwhile w\r\n")
        time.sleep(0.3)
        # Writes wait, all else is served.
        self.assertEqual(servers.values_of(primary, "GET meanwhile", "GET last"), [None, b"v"])
        self.assertEqual(servers.must(primary, "SHUTDOWN ABORT"), Status(b"OK"))
        self.assertEqual([first.receive(), second.receive()], [REFUSED, REFUSED])
        self.assertEqual(writer.receive(), Status(b"OK"))
        self.assertIsNone(left_ms(primary))
        self.assertIn(b"Shutdown manually aborted.", primary.log())
        self.assertEqual(servers.values_of(primary, "SHUTDOWN ABORT")[0], Error(b"ERR No shutdown in progress."))
        pause.__exit__(None, None, None)
        self.same(primary, replica, least=2)

    def scenario_of_a_replica_with_replicas(self):
        """Its primary goes on writing meanwhile, transactions too."""
        primary, middle = self.pair({"shutdown-timeout": 0}, {"shutdown-timeout": 60})
        end = self.start("replica")
        servers.make_replica(end, middle)
        with Load(primary, seed_new()) as load:
            load.wait_for(scaled(300))
            middle.process.send_signal(signal.SIGTERM)
            self.assertEqual(middle.wait_end(30), 0)
            middle.expect_crash = True
            load.stop()
        until(lambda: servers.replication(end)["master_link_status"] == "down", 10, "the end of the chain has lost its primary")

    @only(*PRIMARIES)
    def scenario_waits_for_one_that_only_loads(self):
        """A replica that has not acknowledged anything is waited for, too."""
        primary = self.start("primary", {"shutdown-timeout": 1})
        recorder = Recorder(primary.address, ack_s=None).full()
        self.addCleanup(recorder.close)
        servers.must(primary, "SET last v")
        until(lambda: servers.replication(primary)["connected_slaves"] == "1", 10, "a replica")
        began = time.monotonic()
        threading.Thread(target=lambda: primary.process.send_signal(signal.SIGTERM)).start()
        log = self.ended(primary)
        self.assertGreaterEqual(time.monotonic() - began, 0.9)
        self.assertIn(b"0 of 1 replicas are in sync when shutting down.", log)


@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class LoadingTest(ReplicationCase):
    @only("redis-kelvin")
    def scenario_of_a_replica_that_loads_saves_nothing(self):
        """Neither the data of before, of which a part may be gone, nor the new, for which it would have to wait."""
        for options in ({"save": "3600 1"}, {"appendonly": "yes", "save": "3600 1", "shutdown-on-sigterm": "save"}):
            with self.subTest(options=options):
                primary = ScriptedPrimary()
                self.addCleanup(primary.close)
                replica, disk = with_disk(self, "replica", options)
                servers.must(replica, "SET own x")
                disk.rule(0, "read", "*temp-*.link.rdb*", DELAY, delay_us=2000000)
                servers.make_replica(replica, primary, wait=False)
                primary.link().full(make_rdb(("SET", "new", "1")), framing="length")
                until(lambda: disk.matched(0) > 0, 20, "it loads")
                replica.process.send_signal(signal.SIGTERM)
                replica.wait_end(30)
                replica.expect_crash = True
                self.assertNotIn(b"Saving the final RDB", replica.log())
                self.assertFalse(os.path.exists(os.path.join(replica.folder, "dump.rdb")))


if __name__ == "__main__":
    main()

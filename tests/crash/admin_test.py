"""Concurrent operations on the server as a whole, under load: checkpoints, dumps, backups, switching the log on and off, reopening the
store, shutdowns that are requested and cancelled. Then a kill or a shutdown: no acknowledged write is lost, and the files and all backups
are undamaged (kelvin-check).

SEED=n, SEEDS=n: the first seed and the number of seeds. A seed repeats the random choices, but not the timing of the threads.
"""
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.check import verify                                                                    # noqa: E402
from support.load import Load                                                                       # noqa: E402
from support.resp import Closed, Error                                                                      # noqa: E402
from support.server import Server, is_sanitized, scaled, seed_new, until                            # noqa: E402

SEEDS = int(os.environ.get("SEEDS") or 0)
REFUSALS = (b"OOM",)
# Errors that are allowed while another of these operations is running.
EXPECTED = re.compile(rb"(Another child process is active|Background (save|append only file rewriting) already in progress|appendonly is no"
                      rb"|a backup is (running|being made)|A backup is|can't be made|was cancelled|Errors trying to SHUTDOWN|No shutdown in progress"
                      rb"|The save was ended|The server is ending)")


class Admin(threading.Thread):
    """Repeats one kind of operation until it is stopped or the server has ended."""

    def __init__(self, server, name, draw, seed):
        super().__init__(daemon=True)
        self.server, self.name, self.draw, self.random = server, name, draw, random.Random("%s/%s" % (seed, name))
        self.stop, self.wrong, self.done, self.good = threading.Event(), None, 0, []
        self.start()

    def run(self):
        try:
            with self.server.client(timeout=120) as client:
                while not self.stop.is_set() and not self.wrong:
                    args = self.draw(self.random)
                    reply = client.call(*args)
                    self.done += 1
                    if not isinstance(reply, Error):
                        self.good.append(args)
                    elif not EXPECTED.search(reply):
                        self.wrong = "%r: %r" % (args, reply)
                    time.sleep(self.random.uniform(0, 0.06))
        except OSError:
            pass


@kelvin_only
class AdminTest(unittest.TestCase):
    def orders(self, seed):
        self.backups = tempfile.mkdtemp(prefix="kelvin-admin-")
        self.addCleanup(shutil.rmtree, self.backups, True)
        number = iter(range(1 << 30))
        return {
            "rewrite": lambda chance: ["BGREWRITEAOF"],
            "switch": lambda chance: ["CONFIG", "SET", "appendonly", chance.choice(("yes", "no"))],
            "save": lambda chance: ["SAVE"],
            "bgsave": lambda chance: chance.choice((["BGSAVE"], ["BGSAVE", "SCHEDULE"])),
            "backup": lambda chance: ["TIER", "BACKUP", os.path.join(self.backups, "b%d" % next(number))],
            "tune": lambda chance: ["CONFIG", "SET"] + list(chance.choice((
                ("tier-write-buffer", "64kb"), ("tier-write-buffer", "1mb"), ("appendfsync", "always"), ("appendfsync", "everysec"),
                ("auto-aof-rewrite-percentage", "1"), ("auto-aof-rewrite-percentage", "0"), ("checkpoint-log-size", "100kb"),
                ("checkpoint-log-size", "0"), ("save", "1 1"), ("save", "3600 1"), ("tier-load-threads", "1"), ("tier-load-threads", "6")))),
            "look": lambda chance: chance.choice((["DBSIZE"], ["INFO", "everything"], ["SCAN", "0", "COUNT", "1000"], ["KEYS", "*"], ["RANDOMKEY"])),
        }

    def run_seed(self, seed):
        chance = random.Random(seed)
        keys, value_size, maxmemory = chance.choice(((30, 600, "0"), (30, 6000, "16mb"), (300, 30000, "24mb")))
        options = {"appendonly": chance.choice(("yes", "no")), "appendfsync": chance.choice(("always", "everysec", "no")), "save": "3600 1",
                   "io-threads": "4", "maxmemory": maxmemory, "tier-segment-size": "256kb", "tier-write-buffer": "64kb", "tier-batch-size": "64kb",
                   "auto-aof-rewrite-min-size": "1kb", "enable-protected-configs": "yes"}
        name = "SEED=%d, %r" % (seed, options)
        server = Server(options)
        self.addCleanup(server.discard)
        load = Load(seed, keys=keys, value_size=value_size, tolerated=REFUSALS)
        counts = {}
        for life in range(2):
            load.start(server, checkpoints=False)
            admins = [Admin(server, what, draw, "%d/%d" % (seed, life)) for what, draw in self.orders(seed).items()]
            time.sleep(chance.uniform(0.8, 2.5))
            kill = chance.random() < 0.5
            try:
                self.end_of_life(server, load, admins, chance, kill)
                for admin in admins:
                    counts[admin.name] = counts.get(admin.name, 0) + len(admin.good)
                    self.assertIsNone(admin.wrong)
                self.assertIsNone(server.alarm())
                self.files_are_whole(server, kill)
                for admin in admins:
                    if admin.name == "backup":
                        self.backups_are_whole(admin.good)
                server.start()
                load.settle(server)
            except AssertionError as error:
                server.kill9()
                server.folder_is_ours = False
                self.fail("%s, life %d, %s: %s\nThe directory is %s" % (name, life, "killed" if kill else "ended", error, server.folder))
        server.stop()
        return load.acknowledged, counts

    def end_of_life(self, server, load, admins, chance, kill):
        if kill:
            # After a kill all data is there only if the log is on; the other operations continue meanwhile.
            switch = next(admin for admin in admins if admin.name == "switch")
            switch.stop.set()
            switch.join(120)
            with server.client(timeout=60) as client:
                client.must("CONFIG", "SET", "appendonly", "yes")
            until(lambda: b"AOF is enabled" in self.last_switch(server) or self.on_from_the_start(server), 60, "switching the log on")
            until(lambda: server.info("persistence")["aof_enabled"] == "1", 60, "switching the log on")
            time.sleep(chance.uniform(0, 0.5))
            server.options["appendonly"] = "yes"
            server.kill9()
        else:
            if chance.random() < 0.5:           # cancelled, and requested again
                with server.client(timeout=60) as client, server.client(timeout=60) as other:
                    client.send(b"SHUTDOWN SAVE\r\n")
                    time.sleep(chance.uniform(0, 0.05))
                    try:
                        other.call("SHUTDOWN", "ABORT")
                    except (Closed, OSError):
                        pass                    # it had ended before the signal
                    time.sleep(chance.uniform(0, 0.1))
            self.assertEqual(server.terminate(240), 0, server.log_tail())
            server.options["appendonly"] = "no" if b"AOF is disabled" in self.last_switch(server) else \
                "yes" if b"AOF is enabled" in self.last_switch(server) else server.options["appendonly"]
        for admin in admins:
            admin.stop.set()
        for admin in admins:
            admin.join(120)
            self.assertFalse(admin.is_alive(), "%s is still waiting for a reply" % admin.name)
        load.end()

    @staticmethod
    def last_switch(server):
        """Returns the last line of the log since the start that reports the result of a switch."""
        found = re.findall(rb"AOF is enabled|AOF is disabled", server.log_new())
        return found[-1] if found else b""

    def on_from_the_start(self, server):
        return not self.last_switch(server) and server.options["appendonly"] == "yes"

    def files_are_whole(self, server, kill):
        if not os.path.isdir(os.path.join(server.folder, "appendonlydir")):
            return
        status, text = verify(server.folder)
        if kill and status == 1:                # the kill may have interrupted a write, which a start repairs as well
            self.assertIn("torn", text)
            status, text = verify(server.folder, "--repair")
        self.assertEqual(status, 0, text)

    def backups_are_whole(self, made):
        places = [args[2] for args in made]
        for place in places[-3:]:
            status, text = verify(place)
            self.assertEqual(status, 0, "%s\n%s" % (place, text))
        for name in os.listdir(self.backups):   # a backup that a kill interrupted is not recognized as one
            place = os.path.join(self.backups, name)
            if place not in places and os.path.exists(os.path.join(place, "appendonlydir")) and os.path.exists(os.path.join(place, "BACKUP")):
                self.assertEqual(verify(place)[0], 0, place)

    def test_random_operations(self):
        first, count, total, counts = seed_new(), SEEDS or scaled(5), 0, {}
        for seed in range(first, first + count):
            with self.subTest(seed=seed):
                acknowledged, good = self.run_seed(seed)
                total += acknowledged
                counts = {name: counts.get(name, 0) + good[name] for name in good}
        print("  %d commands acknowledged, none lost; orders: %s (seeds from %d)" % (
            total, ", ".join("%d %s" % (counts[name], name) for name in counts), first), file=sys.stderr)
        if not is_sanitized():
            for name in counts:
                self.assertGreater(counts[name], 0, name)


if __name__ == "__main__":
    main()

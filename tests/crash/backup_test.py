"""kill -9 during TIER BACKUP, --restore and kelvin-check --repair: the result is complete, or is recognized as incomplete."""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.resp import encode                                                                     # noqa: E402
from support.server import SHORT, Server, StartFailed, seed_new, under_test                                # noqa: E402

TOOL = os.path.join(os.path.dirname(under_test()), "kelvin-check")
KEYS = 30000
ROUNDS = 3 if SHORT else 8


@kelvin_only
class InterruptedTest(unittest.TestCase):
    def setUp(self):
        self.seed = seed_new()
        self.chance = random.Random(self.seed)
        self.folder = tempfile.mkdtemp(prefix="kelvin-interrupted-")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def fill(self, client):
        for start in range(0, KEYS, 1000):
            client.must("MSET", *[word for i in range(start, start + 1000) for word in ("k%d" % i, ("v%d;" % i) * 20)])

    def is_whole(self, client):
        self.assertEqual(client.must("DBSIZE"), KEYS, self.seed)
        for i in range(0, KEYS, 997):
            self.assertEqual(client.must("GET", "k%d" % i), (b"v%d;" % i) * 20, self.seed)

    def serves_all_or_refuses(self, folder, refusal):
        try:
            server = Server({"appendonly": "yes", "dir": folder})
        except StartFailed as failed:
            self.assertIn(refusal, str(failed), self.seed)
            return False
        with server, server.client() as client:
            self.is_whole(client)
        return True

    def test_a_killed_backup(self):
        with Server({"appendonly": "yes", "enable-protected-configs": "yes"}) as server:
            with server.client() as client:
                self.fill(client)
            for round_ in range(ROUNDS):
                place = self.path("b%d" % round_)
                client = server.client()
                client.send(encode(["TIER", "BACKUP", place]))
                time.sleep(self.chance.random() * 0.15)
                server.restart(kill=True)
                client.close()
                self.assertEqual([name for name in os.listdir(server.folder) if "stage" in name], [])
                with server.client() as client:
                    self.is_whole(client)
                if os.path.isdir(place) and os.listdir(place):
                    whole = os.path.isdir(os.path.join(place, "appendonlydir"))
                    self.assertEqual(self.serves_all_or_refuses(place, "interrupted"), whole, self.seed)

    def test_a_killed_restore(self):
        with Server({"appendonly": "yes", "enable-protected-configs": "yes"}) as server, server.client() as client:
            self.fill(client)
            client.must("TIER", "BACKUP", self.path("b"))
        for round_ in range(ROUNDS):
            place = self.path("r%d" % round_)
            os.mkdir(place)
            server = Server({"appendonly": "yes", "dir": place}, args=["--restore", self.path("b")], start=False)
            server.launch()
            time.sleep(self.chance.random() * 0.1)
            server.kill9()
            server.discard()
            if not os.path.isdir(os.path.join(place, "appendonlydir")):
                if any(not name.startswith("temp-") for name in os.listdir(place)):      # what it tries at its start is no restore yet
                    self.assertFalse(self.serves_all_or_refuses(place, "interrupted"), self.seed)
                with Server({"appendonly": "yes", "dir": place}, args=["--restore", self.path("b")]) as server, server.client() as client:
                    self.is_whole(client)
            self.assertTrue(self.serves_all_or_refuses(place, ""), self.seed)

    def test_a_killed_repair(self):
        with Server({"appendonly": "yes", "tier-segment-size": "256kb", "tier-write-buffer": "64kb", "auto-aof-rewrite-percentage": "0", "enable-protected-configs": "yes"}) as server:
            with server.client() as client:
                self.fill(client)
                client.must("BGREWRITEAOF")
                client.must("TIER", "BACKUP", self.path("b"))       # waits until the rewrite is done
        log = self.path("b", "appendonlydir")
        image = next(name for name in os.listdir(log) if name.endswith(".base.image"))
        store = os.path.join(log, image, "store")
        table = max((os.path.join(store, name) for name in os.listdir(store) if name.endswith(".run")), key=os.path.getsize)
        with open(table, "r+b") as file:
            file.seek(os.path.getsize(table) // 2)
            byte = file.read(1)[0]
            file.seek(os.path.getsize(table) // 2)
            file.write(bytes([byte ^ 1]))
        os.unlink(os.path.join(log, "appendonly.aof.manifest"))
        for round_ in range(ROUNDS):
            place = shutil.copytree(self.path("b"), self.path("m%d" % round_))
            for _ in range(3):
                tool = subprocess.Popen([TOOL, "--repair", place], stdout=subprocess.DEVNULL)
                time.sleep(self.chance.random() * 0.2)
                tool.kill()
                tool.wait()
            for _ in range(2):
                done = subprocess.run([TOOL, "--repair", place], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                text = done.stdout.decode()
            self.assertEqual(done.returncode, 0, "SEED=%d\n%s" % (self.seed, text))
            with Server({"appendonly": "yes", "dir": place}) as server, server.client() as client:
                count = 0
                for start in range(0, KEYS, 1000):
                    for i, value in enumerate(client.must("MGET", *["k%d" % i for i in range(start, start + 1000)])):
                        self.assertIn(value, (None, (b"v%d;" % (start + i)) * 20), self.seed)
                        count += value is not None
                self.assertEqual(client.must("DBSIZE"), count, self.seed)
                self.assertGreater(count, KEYS // 2, self.seed)


if __name__ == "__main__":
    main()

"""Power failures at any moment: acknowledged writes are on the disk as appendfsync guarantees, and the data is the state after a prefix of
the log.

A server runs under load, with consecutive checkpoints, while a preloaded shim records all its changes of the disk in a journal. From the
journal, the test creates states that a power failure or a kill at some moment could have left. A new server is started on each.

SEED=n        the first seed        SEEDS=n   number of seeds (a seed repeats the random choices, but not the timing of the load)
CUTS=n        states per seed       KEEP=dir  the files of a failure, to be tested again: KEEP=/tmp/kelvin-test-x
"""
import bisect
import os
import pickle
import random
import shutil
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.disk import DELAY, Disk, Journal                                                       # noqa: E402
from support.resp import OK                                                                  # noqa: E402
from support.server import Server, StartFailed, is_sanitized, scaled, seed_new, until               # noqa: E402
from support.writers import Data, Writer, apply, check, cut, state_of                               # noqa: E402

# `everysec`: one second until the next sync, and the duration of a sync on a busy machine.
EVERYSEC_S = 2.5
SEEDS = int(os.environ.get("SEEDS") or 0)
CUTS = int(os.environ.get("CUTS") or scaled(8))
INTERESTING = ("rename", "link", "unlink", "mkdir", "rmdir", "create", "sync", "truncate")


class Evidence:
    """One run: the acknowledged commands with their times, and the journal."""

    def __init__(self, seed, options, writers, journal_path):
        self.seed, self.options, self.journal_path = seed, options, journal_path
        self.writers = [WriterState(writer) for writer in writers]

    def open(self):
        self.journal = Journal(self.journal_path)
        self.log = self.journal.log_commands()
        self.interesting = {}
        for moment, entry in enumerate(self.journal.entries, 1):
            if entry.kind in INTERESTING:
                self.interesting.setdefault(entry.kind, []).append(moment)
        return self

    def moment(self, chance):
        """Returns a random moment, or one of a rare kind of change or soon after it."""
        if chance.random() < 0.3:
            return chance.randrange(len(self.journal) + 1)
        return min(len(self.journal), chance.choice(self.interesting[chance.choice(sorted(self.interesting))]) + chance.randrange(4))

    def save(self, path):
        with open(path, "wb") as file:
            pickle.dump((self.seed, self.options, self.journal_path, self.writers), file)

    @staticmethod
    def load(path):
        self = Evidence.__new__(Evidence)
        with open(path, "rb") as file:
            self.seed, self.options, self.journal_path, self.writers = pickle.load(file)
        return self.open()


class WriterState:
    """The part of a Writer that is needed to check a state."""

    def __init__(self, writer):
        self.number, self.databases, self.model = writer.number, writer.databases, writer.model
        self.commands, self.acknowledged, self.moments = writer.commands, writer.acknowledged, writer.moments

    def promised(self, kill, policy, moment, time_s):
        """Returns the number of its commands that must be there."""
        if kill or policy == "always":
            return bisect.bisect_right([at for at, _ in self.moments], moment)
        if policy == "everysec":
            return bisect.bisect_right([when for _, when in self.moments], time_s - EVERYSEC_S)
        return 0


def prefix_of(log, state):
    """Returns the number of commands of the log after which the state is the given one, or None. Compares only changed keys after each."""
    data = Data()
    differing = set(state)
    for count in range(len(log) + 1):
        if not differing:
            return count
        if count == len(log):
            return None
        changed = apply(data, log[count])
        if changed is None:
            differing = {key for key in set(data.keys) | set(state) if data.keys.get(key) != state.get(key)}
            continue
        for key in changed:
            (differing.discard if data.keys.get(key) == state.get(key) else differing.add)(key)
    return None


def checkpoints(server, stop, chance):
    try:
        with server.client() as client:
            while not stop.wait(chance.uniform(0.01, 0.15)):
                client.call("BGREWRITEAOF")
    except OSError:
        pass


@kelvin_only
@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class PowerTest(unittest.TestCase):
    def load(self, seed, policy):
        """A run under load, which ends with a kill. Returns the evidence; its files are removed if the test passes."""
        chance = random.Random(seed)
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        disk = Disk(folder, journal=True)
        options = {"appendonly": "yes", "appendfsync": policy, "auto-aof-rewrite-percentage": "0",
                   "io-threads": str(chance.choice((1, 4))), "maxmemory": chance.choice(("0", "16mb", "32mb")),
                   "tier-batch-size": chance.choice(("4kb", "1mb")), "tier-segment-size": "256kb", "tier-write-buffer": chance.choice(("64kb", "1mb"))}
        server = Server(options, folder=folder, environment=disk.environment)
        if chance.random() < 0.3:
            disk.rule(0, "sync", "*", DELAY, delay_us=chance.choice((1000, 20000)))
        if chance.random() < 0.5:
            disk.rule(1, "write", "store/*.seg", DELAY, delay_us=3000)      # so that sealing takes some time
        writers = [Writer(server.address, number, seed, keys=chance.choice((30, 100)), demote=True, value_size=chance.choice((60, 600, 6000)),
                          pause=chance.choice((0.003, 0.01)), databases=databases, moment=lambda: (disk.records, time.monotonic()))
                   for number, databases in enumerate(((0,), (0,), (0,), (3, 4, 5)))]
        stop = threading.Event()
        rewriter = threading.Thread(target=checkpoints, args=(server, stop, chance))
        for thread in writers + [rewriter]:
            thread.start()
        time.sleep(EVERYSEC_S + 2 if policy == "everysec" else chance.uniform(0.6, 1.5))
        server.kill9()
        stop.set()
        for thread in writers + [rewriter]:
            thread.join(30)
        for writer in writers:
            self.assertIsNone(writer.wrong, "seed %d" % seed)
        self.assertIsNone(server.alarm())
        evidence = Evidence(seed, options, writers, disk.journal_path)
        evidence.save(folder + ".evidence")
        self.kept.append((folder, disk))
        return evidence.open()

    def setUp(self):
        self.kept = []

    def drop(self):
        for folder, disk in self.kept:
            shutil.rmtree(folder)
            disk.remove()
            os.remove(folder + ".evidence")
        self.kept = []

    def judge(self, evidence, server, kill, moment):
        """Checks that the state of a server is allowed by the guarantees."""
        journal = evidence.journal
        time_s = journal.entries[moment - 1].time if moment else 0
        whole = {}
        with server.client() as client:
            for writer in evidence.writers:
                state = state_of(client, writer)
                check(writer, state, writer.promised(kill, evidence.options["appendfsync"], moment, time_s))
                whole.update(state)
        if prefix_of(evidence.log, whole) is None:
            raise AssertionError("each writer's keys are the state after a prefix of its commands, but all keys are not that after a prefix of the log")
        return whole

    def look(self, evidence, draw, moment=None):
        """Checks one state, which is drawn with `draw`."""
        journal, chance = evidence.journal, random.Random(draw)
        kill = chance.random() < 0.2
        if moment is None:
            moment = evidence.moment(chance)
        folder = tempfile.mkdtemp(prefix="kelvin-test-power-")
        how = journal.state(moment, None if kill else chance, folder)
        name = "seed %d, draw %r: %s at moment %d of %d, %r; %s" % (
            evidence.seed, draw, "kill" if kill else "power cut", moment, len(journal), evidence.options, how)
        server = None
        try:
            before = shutil.copytree(folder, folder + ".before", symlinks=True)
            server = Server(evidence.options, folder=folder)
            whole = self.judge(evidence, server, kill, moment)
            if chance.random() < 0.3:
                self.goes_on(evidence, server, whole, chance)
            self.assertIsNone(server.alarm())
            server.kill9()
        except (AssertionError, StartFailed, OSError) as error:
            if server:
                server.kill9()
            self.fail("%s: %s\nThe state is kept in %s, after the server ran in %s, the run in %s.*; repeat with KEEP=%s DRAW=%r" % (
                name, error, folder + ".before", folder, evidence.journal_path[:-8], evidence.journal_path[:-8], draw))
        shutil.rmtree(before)
        shutil.rmtree(folder)

    def goes_on(self, evidence, server, whole, chance):
        """A recovered server works: it has the same data after another kill, a write and a checkpoint."""
        if chance.random() < 0.5:
            server.restart(kill=True)
        with server.client() as client:
            client.must("SELECT", 9)
            self.assertEqual(client.call("SET", "after", "v"), OK)
            if chance.random() < 0.5:
                client.must("BGREWRITEAOF")
                until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 30, "the end of a checkpoint")
                self.assertEqual(server.info("persistence")["aof_last_bgrewrite_status"], "ok")
        server.restart(kill=True)
        with server.client() as client:
            found = {}
            for writer in evidence.writers:
                found.update(state_of(client, writer))
            client.must("SELECT", 9)
            self.assertEqual(client.must("GET", "after"), b"v")
        wrong = ["%r is %s, was %s" % (key, cut(found.get(key)), cut(whole.get(key)))
                 for key in set(found) | set(whole) if found.get(key) != whole.get(key)]
        self.assertEqual(wrong[:5], [], "after another kill")

    def one_seed(self, seed, policy):
        evidence = self.load(seed, policy)
        acknowledged = sum(writer.acknowledged for writer in evidence.writers)
        self.assertGreater(acknowledged, 100)
        self.assertLessEqual({"rename", "mkdir", "sync", "create"}, set(evidence.interesting))
        for number in range(CUTS):
            self.look(evidence, "%d/%d" % (seed, number))
        self.drop()
        return acknowledged

    def seeds(self, policy, few):
        first, count, total = seed_new(), SEEDS or scaled(few), 0
        for seed in range(first, first + count):
            with self.subTest(seed=seed):
                total += self.one_seed(seed, policy)
        print("  %s: %d commands acknowledged, %d states of the disk (seeds from %d)" % (policy, total, count * CUTS, first),
              file=sys.stderr)

    @unittest.skipIf(os.environ.get("KEEP"), "one failure is repeated")
    def test_always_loses_nothing(self):
        self.seeds("always", 3)

    @unittest.skipIf(os.environ.get("KEEP"), "one failure is repeated")
    def test_everysec_loses_at_most_one_second(self):
        self.seeds("everysec", 1)

    @unittest.skipIf(os.environ.get("KEEP"), "one failure is repeated")
    def test_no_leaves_a_prefix(self):
        self.seeds("no", 2)

    @unittest.skipUnless(os.environ.get("KEEP"), "only for repeating a failure")
    def test_repeat_a_failure(self):
        evidence = Evidence.load(os.environ["KEEP"] + ".evidence")
        for draw in [os.environ["DRAW"]] if os.environ.get("DRAW") else ["%d/%d" % (evidence.seed, i) for i in range(CUTS)]:
            self.look(evidence, draw)

    @unittest.skipIf(os.environ.get("KEEP"), "one failure is repeated")
    def test_the_check_finds_a_lost_write(self):
        """The check must find a log that is truncated before the end of the synced part, and prefixes of two writers that no prefix of the log has."""
        evidence = self.load(seed_new(), "always")
        folder = tempfile.mkdtemp(prefix="kelvin-test-power-")
        moment = len(evidence.journal)
        evidence.journal.state(moment, None, folder)
        with Server(evidence.options, folder=folder) as server:
            self.judge(evidence, server, True, moment)
            with server.client() as client:
                state = state_of(client, evidence.writers[0])
                (db, key), _ = next((at, what) for at, what in sorted(state.items()) if at[1].startswith(b"s:"))
                client.must("SELECT", db)
                client.must("APPEND", key, "x")
            with self.assertRaises(AssertionError):
                self.judge(evidence, server, True, moment)
        shutil.rmtree(folder)
        log = [[b"SET", b"a", b"1"], [b"SET", b"b", b"1"], [b"SET", b"a", b"2"]]
        self.assertEqual(prefix_of(log, {(0, b"a"): (b"1", False)}), 1)
        self.assertEqual(prefix_of(log, {(0, b"a"): (b"2", False), (0, b"b"): (b"1", False)}), 3)
        self.assertIsNone(prefix_of(log, {(0, b"a"): (b"2", False)}))
        self.drop()


if __name__ == "__main__":
    main()

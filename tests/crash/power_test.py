"""Power cuts at any moment: what was acknowledged is on the disk as appendfsync promises, and what is there is a prefix of the log.

A server runs under load, with checkpoints one after the other, while a preloaded shim writes down all it does to its disk. From
that journal come the states which a power cut could have left at some moment, and those of a kill. Each is given to a fresh server.

SEED=n        the first seed        SEEDS=n   how many (the load's threads run as they like: a seed repeats the draws, not the load)
CUTS=n        states a seed         KEEP=dir  what a failure left behind, to be looked at again: KEEP=/tmp/kelvin-test-x
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
from support.witness import Data, Writer, apply, check, cut, state_of                               # noqa: E402

# `everysec`: a second until the flusher looks, and what a sync may take on a machine that does other things as well.
EVERYSEC_S = 2.5
SEEDS = int(os.environ.get("SEEDS") or 0)
CUTS = int(os.environ.get("CUTS") or scaled(8))
INTERESTING = ("rename", "link", "unlink", "mkdir", "rmdir", "create", "sync", "truncate")


class Evidence:
    """One run: what was acknowledged when, and the journal."""

    def __init__(self, seed, options, writers, journal_path):
        self.seed, self.options, self.journal_path = seed, options, journal_path
        self.witnesses = [Witness(writer) for writer in writers]

    def open(self):
        self.journal = Journal(self.journal_path)
        self.log = self.journal.log_commands()
        self.interesting = {}
        for moment, entry in enumerate(self.journal.entries, 1):
            if entry.kind in INTERESTING:
                self.interesting.setdefault(entry.kind, []).append(moment)
        return self

    def moment(self, chance):
        """One at any time, or at a rare kind of change or soon after."""
        if chance.random() < 0.3:
            return chance.randrange(len(self.journal) + 1)
        return min(len(self.journal), chance.choice(self.interesting[chance.choice(sorted(self.interesting))]) + chance.randrange(4))

    def save(self, path):
        with open(path, "wb") as file:
            pickle.dump((self.seed, self.options, self.journal_path, self.witnesses), file)

    @staticmethod
    def load(path):
        self = Evidence.__new__(Evidence)
        with open(path, "rb") as file:
            self.seed, self.options, self.journal_path, self.witnesses = pickle.load(file)
        return self.open()


class Witness:
    """What of a Writer is needed to judge a state."""

    def __init__(self, writer):
        self.number, self.databases, self.model = writer.number, writer.databases, writer.model
        self.commands, self.acknowledged, self.moments = writer.commands, writer.acknowledged, writer.moments

    def promised(self, kill, policy, moment, time_s):
        """How many of its commands must be there."""
        if kill or policy == "always":
            return bisect.bisect_right([at for at, _ in self.moments], moment)
        if policy == "everysec":
            return bisect.bisect_right([when for _, when in self.moments], time_s - EVERYSEC_S)
        return 0


def prefix_of(log, state):
    """How many commands of the log lead to a state, or None: none does. Compares as it goes, key by key."""
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
@unittest.skipIf(is_sanitized(), "a sanitizer and the shim want to be loaded first, both")
class PowerTest(unittest.TestCase):
    def load(self, seed, policy):
        """A run under load, ended by a kill. Returns the evidence; its files are removed at the end of a test that passed."""
        chance = random.Random(seed)
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        disk = Disk(folder, journal=True)
        options = {"appendonly": "yes", "appendfsync": policy, "auto-aof-rewrite-percentage": "0",
                   "io-threads": str(chance.choice((1, 4))), "maxmemory": chance.choice(("0", "16mb", "32mb")),
                   "tier-batch-size": chance.choice(("4kb", "1mb")), "tier-write-buffer": chance.choice(("64kb", "1mb"))}
        server = Server(options, folder=folder, environment=disk.environment)
        if chance.random() < 0.3:
            disk.rule(0, "sync", "*", DELAY, delay_us=chance.choice((1000, 20000)))
        if chance.random() < 0.5:
            disk.rule(1, "write", "store/*.log", DELAY, delay_us=3000)      # a checkpoint that takes its time to seal
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
        """The state that a server has is one that the promise allows."""
        journal = evidence.journal
        time_s = journal.entries[moment - 1].time if moment else 0
        whole = {}
        with server.client() as client:
            for witness in evidence.witnesses:
                state = state_of(client, witness)
                check(witness, state, witness.promised(kill, evidence.options["appendfsync"], moment, time_s))
                whole.update(state)
        if prefix_of(evidence.log, whole) is None:
            raise AssertionError("each writer's keys are a prefix of its own commands, but all together are none of the log's")
        return whole

    def look(self, evidence, draw, moment=None):
        """One state, drawn with `draw`."""
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
            self.fail("%s: %s\nThe state is kept in %s, what the server made of it in %s, the run in %s.*; again with KEEP=%s DRAW=%r" % (
                name, error, folder + ".before", folder, evidence.journal_path[:-8], evidence.journal_path[:-8], draw))
        shutil.rmtree(before)
        shutil.rmtree(folder)

    def goes_on(self, evidence, server, whole, chance):
        """A server that recovered is a whole one: a kill, a write and a checkpoint leave it what it has."""
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
            for witness in evidence.witnesses:
                found.update(state_of(client, witness))
            client.must("SELECT", 9)
            self.assertEqual(client.must("GET", "after"), b"v")
        wrong = ["%r is %s, was %s" % (key, cut(found.get(key)), cut(whole.get(key)))
                 for key in set(found) | set(whole) if found.get(key) != whole.get(key)]
        self.assertEqual(wrong[:5], [], "after another kill")

    def one_seed(self, seed, policy):
        evidence = self.load(seed, policy)
        acknowledged = sum(witness.acknowledged for witness in evidence.witnesses)
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

    @unittest.skipIf(os.environ.get("KEEP"), "looking at one failure")
    def test_always_loses_nothing(self):
        self.seeds("always", 3)

    @unittest.skipIf(os.environ.get("KEEP"), "looking at one failure")
    def test_everysec_loses_no_more_than_its_second(self):
        self.seeds("everysec", 1)

    @unittest.skipIf(os.environ.get("KEEP"), "looking at one failure")
    def test_no_leaves_a_prefix(self):
        self.seeds("no", 2)

    @unittest.skipUnless(os.environ.get("KEEP"), "for looking at a failure")
    def test_again(self):
        evidence = Evidence.load(os.environ["KEEP"] + ".evidence")
        for draw in [os.environ["DRAW"]] if os.environ.get("DRAW") else ["%d/%d" % (evidence.seed, i) for i in range(CUTS)]:
            self.look(evidence, draw)

    @unittest.skipIf(os.environ.get("KEEP"), "looking at one failure")
    def test_the_judge_sees_a_lost_write(self):
        """A log that is cut behind what was synced, and two writers' prefixes that are none together, must not pass."""
        evidence = self.load(seed_new(), "always")
        folder = tempfile.mkdtemp(prefix="kelvin-test-power-")
        moment = len(evidence.journal)
        evidence.journal.state(moment, None, folder)
        with Server(evidence.options, folder=folder) as server:
            self.judge(evidence, server, True, moment)
            with server.client() as client:
                state = state_of(client, evidence.witnesses[0])
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

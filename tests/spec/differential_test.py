"""Random commands on the server under test and on redis-server must have the same replies and result in the same data.

    differential_test.py                    run the tests (SEED=n repeats one)
    differential_test.py --replay FILE      run a script that a failure printed
"""
import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.differential import Difference, Runner, explain, from_script, minimise                 # noqa: E402
from support.generate import TEMPLATES, Generator                                                   # noqa: E402
from support.resp import Error                                                                      # noqa: E402
from support.server import REDIS, Server, is_redis, scaled, seed_new                                          # noqa: E402

# Small limits, so that values change their encoding often.
ENCODINGS = {"hash-max-listpack-entries": "8", "hash-max-listpack-value": "20", "set-max-intset-entries": "8",
             "zset-max-listpack-entries": "8", "zset-max-listpack-value": "20", "list-max-listpack-size": "4", "list-compress-depth": "1",
             "stream-node-max-entries": "5", "stream-node-max-bytes": "300"}
# Options that the oracle does not have.
OWN_ENCODINGS = {"set-max-listpack-entries": "8", "set-max-listpack-value": "20"}
# Commands with keys that other tests cover, or that can't be compared.
NOT_RANDOM = {"restore", "migrate", "restore-asking", "object", "memory", "debug", "tier", "wait", "waitaof",
              "spop", "watch", "spublish", "ssubscribe", "sunsubscribe", "eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro",
              # The oracle does not have them; hash_expire_test.py has its own model.
              "hexpire", "hpexpire", "hexpireat", "hpexpireat", "httl", "hpttl", "hexpiretime", "hpexpiretime", "hpersist",
              "hgetex", "hsetex", "hgetdel",
              # The same, with models in later_versions_test.py and later_streams_test.py.
              "digest", "delex", "msetex", "xackdel", "xdelex"}
FILLER_DATABASE = 15


def commands_of(server):
    with server.client() as client:
        return {name.decode().lower() for name in client.must("COMMAND", "LIST")}


class Filler:
    """Keys in a separate database, many times larger than maxmemory, which are written and read between the batches, so that
    the keys of the test are demoted and loaded all the time."""

    def __init__(self, server, seed, keys, size):
        self.server, self.keys, self.size = server, keys, size
        self.random = random.Random(seed)
        self.versions = {}
        self.client = self.process = None

    def value(self, index, version):
        return (b"%d:%d;" % (index, version)) * (self.size // 10)

    def tick(self, done):
        if self.client is None or self.process is not self.server.process:
            # The first time, or after the server was restarted while a failing sequence is minimised.
            self.close()
            self.client, self.process = self.server.client(), self.server.process
            self.client.must("SELECT", FILLER_DATABASE)
        # The sequence may contain a FLUSHALL, which empties this database as well.
        if self.client.must("DBSIZE") == 0:
            self.versions = {}
        commands, expected = [], []
        for _ in range(60):
            index = self.random.randrange(self.keys)
            if index in self.versions and self.random.random() < 0.4:
                commands.append([b"GET", b"filler:%d" % index])
                expected.append(self.value(index, self.versions[index]))
            else:
                self.versions[index] = version = self.versions.get(index, 0) + 1
                commands.append([b"SET", b"filler:%d" % index, self.value(index, version)])
                expected.append(None)
        for args, reply, value in zip(commands, self.client.pipeline(commands), expected):
            if isinstance(reply, Error) or (value is not None and reply != value):
                raise Difference(args, reply, value, done, "a filler key is wrong")
        size = self.client.must("DBSIZE")
        if size != len(self.versions):
            raise Difference([b"DBSIZE"], size, len(self.versions), done, "the number of filler keys is wrong")

    def close(self):
        if self.client:
            self.client.close()


class DifferentialTest(unittest.TestCase):
    def differ(self, options, count, demote=False, filler=None, protocol=2):
        seed = seed_new()
        ours_options = dict(ENCODINGS)
        ours_options.update(options)
        if not is_redis():
            ours_options.update(OWN_ENCODINGS)
        # How often per second the oracle deletes expired keys.
        with Server(dict(ENCODINGS, hz="500"), binary=REDIS) as oracle, Server(ours_options) as ours:
            commands = commands_of(ours) & commands_of(oracle)
            generator = Generator(seed, commands, demote=demote)
            fill = Filler(ours, seed, *filler) if filler else None
            runner = Runner(ours, oracle, tick=fill.tick if fill else None, protocol=protocol)
            sequence = [generator.next() for _ in range(count)]
            print("  %d commands, seed %d" % (count, seed), file=sys.stderr)
            try:
                runner.run(sequence)
            except Difference as difference:
                # Printed before minimising, which takes some time and may not reproduce a failure that depends on time.
                print("  after %d commands: %s" % (difference.done, difference), file=sys.stderr, flush=True)
                report = explain(runner, sequence, difference, seed)
                ours.expect_crash = True
                self.fail(report)
            finally:
                runner.disconnect()
                if fill:
                    fill.close()
            if demote and ours.kelvin:
                self.assertGreater(runner.demoted, 0, "no key was demoted, so this tested nothing")
            return ours.info() if ours.alive() and ours.kelvin else {}

    def test_all_hot(self):
        self.differ({}, scaled(200000))

    def test_all_hot_in_resp3(self):
        self.differ({}, scaled(30000), protocol=3)

    @kelvin_only
    def test_four_workers_in_resp3_with_random_demotions(self):
        self.differ({"io-threads": "4"}, scaled(20000), demote=True, protocol=3)

    @kelvin_only
    def test_four_workers_while_memory_is_tiny(self):
        self.differ({"io-threads": "4", "maxmemory": "24mb"}, scaled(6000), demote=True, filler=(20000, 3000), protocol=3)

    @kelvin_only
    def test_with_random_demotions_between_commands(self):
        self.differ({}, scaled(60000), demote=True)

    @kelvin_only
    def test_while_all_keys_move_because_memory_is_tiny(self):
        self.differ({"maxmemory": "24mb"}, scaled(16000), demote=False, filler=(20000, 3000))

    @kelvin_only
    def test_with_tiny_memory_and_demotions(self):
        self.differ({"maxmemory": "24mb"}, scaled(8000), demote=True, filler=(20000, 3000))

    @kelvin_only
    def test_every_data_command_present_is_generated(self):
        with Server() as server, server.client() as client:
            replies = client.must("COMMAND")
            unknown = sorted(reply[0].decode() for reply in replies
                             if reply[3] and reply[0].decode() not in TEMPLATES and reply[0].decode() not in NOT_RANDOM)
        self.assertEqual(unknown, [], "commands with keys that support/generate.py has no template for")

    def test_a_failing_sequence_is_minimised(self):
        """A test of minimise(): of 500 commands, only two are needed."""
        sequence = [[b"GET", b"%d" % index] for index in range(500)]
        found = minimise(lambda some: [b"GET", b"77"] in some and [b"GET", b"401"] in some, sequence)
        self.assertEqual(found, [[b"GET", b"77"], [b"GET", b"401"]])

    def test_a_difference_is_found(self):
        """A test of the comparison: it must find a write by another client."""
        with Server(binary=REDIS) as one, Server(binary=REDIS) as two:
            runner = Runner(one, two)
            runner.start_empty()
            with one.client() as client:
                client.must("HSET", "k1", "f1", "secret")
            with self.assertRaises(Difference):
                runner.compare_all()
            with two.client() as client:
                client.must("HSET", "k1", "f1", "Secret")
            with self.assertRaises(Difference):
                runner.compare_all()
            runner.disconnect()


def replay(path):
    with open(path) as file:
        sequence = from_script(file.read())
    with Server(ENCODINGS, binary=REDIS) as oracle, Server(dict(ENCODINGS, **OWN_ENCODINGS)) as ours:
        runner = Runner(ours, oracle, deep_every=1)
        started = time.monotonic()
        try:
            runner.run(sequence)
        except Difference as difference:
            ours.expect_crash = True
            sys.exit(str(difference) + ("" if ours.alive() else "\n" + ours.log_tail()))
        print("%d commands, no difference (%.1f s)" % (len(sequence), time.monotonic() - started))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--replay":
        replay(sys.argv[2])
    else:
        main()

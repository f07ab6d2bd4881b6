"""Random transactions, scripts, functions and watches, beside redis-server, while keys are demoted; see support/units.py.

    unit_differential_test.py                    run the tests (SEED=n repeats one)
    unit_differential_test.py --replay FILE      run a script that a failure printed
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.differential import Difference, explain, from_script                                   # noqa: E402
from support.server import REDIS, Server, is_redis, scaled, seed_new                                # noqa: E402
from support.units import Demoter, UnitGenerator, UnitRunner                                        # noqa: E402

ENCODINGS = {"hash-max-listpack-entries": "8", "hash-max-listpack-value": "20", "set-max-intset-entries": "8", "zset-max-listpack-entries": "8",
             "zset-max-listpack-value": "20", "list-max-listpack-size": "4", "list-compress-depth": "1", "stream-node-max-entries": "5", "stream-node-max-bytes": "150"}
OWN_ENCODINGS = {"set-max-listpack-entries": "8", "set-max-listpack-value": "20"}
NEEDED = ("MULTI", "EVAL", "FCALL", "WATCH")


def names_of(client):
    return {name.decode().lower() for name in client.must("COMMAND", "LIST")}


class UnitDifferentialTest(unittest.TestCase):
    def differ(self, options, count, protocol=2, demote=False, shares=(0.35, 0.03, 0.35, 0.12)):
        seed = seed_new()
        ours_options = dict(ENCODINGS, **options)
        if not is_redis():
            ours_options.update(OWN_ENCODINGS)
        with Server(dict(ENCODINGS, hz="500"), binary=REDIS) as oracle, Server(ours_options) as ours:
            with ours.client() as one, oracle.client() as other:
                commands = names_of(one) & names_of(other)
            missing = [name for name in NEEDED if name.lower() not in commands]
            if missing:
                self.skipTest("the server under test has no %s yet" % missing[0])
            generator = UnitGenerator(seed, commands, demote=demote, shares=shares)
            sequence = [generator.next() for _ in range(count)]
            runner = UnitRunner(ours, oracle, protocol=protocol)
            demoter = Demoter(ours, seed) if demote and ours.kelvin else None
            if demoter:
                demoter.start()
            print("  %d items, seed %d" % (count, seed), file=sys.stderr)
            try:
                runner.run(sequence)
                counts = dict(runner.counts)
                print("  %s" % counts, file=sys.stderr)
            except Difference as difference:
                print("  after %d items: %s" % (difference.done, difference), file=sys.stderr, flush=True)
                report = explain(runner, sequence, difference, seed)
                ours.expect_crash = True
                self.fail(report)
            finally:
                if demoter:
                    demoter.stop()
                runner.disconnect()
            if demoter:
                self.assertIsNone(demoter.wrong)
                self.assertGreater(demoter.demoted + runner.demoted, 0, "no key was demoted, so this tested nothing")
            for name, done in counts.items():
                self.assertGreater(done, 0, "no item of the kind `%s`" % name)

    def test_all_hot(self):
        self.differ({}, scaled(12000))

    def test_all_hot_in_resp3(self):
        self.differ({}, scaled(6000), protocol=3)

    def test_four_workers_while_keys_are_demoted(self):
        self.differ({"io-threads": "4"}, scaled(5000), demote=not is_redis())

    def test_four_workers_while_keys_are_demoted_in_resp3(self):
        self.differ({"io-threads": "4"}, scaled(5000), protocol=3, demote=not is_redis())

    def test_one_worker_while_keys_are_demoted(self):
        self.differ({}, scaled(4000), demote=not is_redis())

    @kelvin_only
    def test_the_log_replays_to_the_same_data(self):
        """With appendonly, after a kill and a restart the data is that of the oracle."""
        seed = seed_new()
        with Server(dict(ENCODINGS, hz="500"), binary=REDIS) as oracle, \
                Server(dict(ENCODINGS, **OWN_ENCODINGS, appendonly="yes", appendfsync="always", **{"io-threads": "4"})) as ours:
            with ours.client() as one, oracle.client() as other:
                commands = names_of(one) & names_of(other)
            if any(name.lower() not in commands for name in NEEDED):
                self.skipTest("the server under test has no transactions and scripts yet")
            generator = UnitGenerator(seed, commands)
            runner = UnitRunner(ours, oracle)
            for _ in range(3):
                runner.run([generator.next() for _ in range(scaled(1500))])
                ours.restart(kill=True)
                runner.connect()
                runner.compare_all(encodings=False)
            runner.disconnect()


def replay(path):
    with open(path) as file:
        sequence = from_script(file.read())
    with Server(ENCODINGS, binary=REDIS) as oracle, Server(dict(ENCODINGS, **OWN_ENCODINGS)) as ours:
        runner = UnitRunner(ours, oracle, deep_every=1)
        try:
            runner.run(sequence)
        except Difference as difference:
            ours.expect_crash = True
            sys.exit(str(difference) + ("" if ours.alive() else "\n" + ours.log_tail()))
        print("%d items, no difference" % len(sequence))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--replay":
        replay(sys.argv[2])
    else:
        main()

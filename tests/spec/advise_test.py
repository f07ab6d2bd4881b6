"""TIER ADVISE: predictions beside what is measured, its forms and errors, and what it survives. How well it predicts at other sizes is measured by
utils/measure; the method has tests in unit/tier/advise_test.c."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                               # noqa: E402
from support.resp import OK, Error                                                                   # noqa: E402
from support.server import Server, port_free, until                                                         # noqa: E402

MB = 1 << 20
OPTIONS = {"maxmemory": 32 * MB, "tier-warmup": "no", "save": ""}


def facts(reply):
    return {bytes(name).decode(): value for name, value in zip(reply[::2], reply[1::2])}


def advice(client):
    """The reply of TIER ADVISE, and its sizes by factor."""
    reply = facts(client.must("TIER", "ADVISE"))
    return reply, {float(size["factor"]): size for size in map(facts, reply["sizes"])}


def fill(client, count, size=200):
    for start in range(0, count, 1000):
        client.must("MSET", *[word for i in range(start, min(count, start + 1000)) for word in ("k%d" % i, "x" * size)])


def read(client, count, keys, rand):
    for _ in range(0, count, 1000):
        client.pipeline(["GET", "k%d" % rand.randrange(keys)] for _ in range(1000))


def sampled(server):
    return int(server.info("tiering")["tier_advise_sampled_keys"])


def wait_on(server):
    """Until the first tick, which turns sampling on."""
    with server.client() as client:
        def is_on():
            client.pipeline(["SET", "on%d" % i, "v"] for i in range(2000))
            is_sampled = sampled(server) > 0
            client.pipeline(["DEL", "on%d" % i] for i in range(2000))
            return is_sampled
        until(is_on, 20, "the first sampled use")


@kelvin_only
class AdviseTest(ServerCase):
    options = OPTIONS

    def setUp(self):
        super().setUp()
        wait_on(self.server)
        until(lambda: sampled(self.server) == 0, 20, "the sweep of what the test before has left")

    def counted(self, uses):
        """Until the tick has taken the uses over."""
        until(lambda: int(self.server.info("tiering")["tier_advise_sampled_uses"]) > uses / 128 * 0.99, 20, "the next tick")

    def set_maxmemory(self, size):
        """And waits until it is what is predicted from: uses before the first tick that sees it do not count."""
        def is_counted():
            self.c.pipeline(["GET", "used"] for _ in range(1000))
            return self.server.info("tiering")["tier_advise_sampled_uses"] != "0"
        self.c.must("CONFIG", "SET", "maxmemory", size)
        self.c.must("CONFIG", "RESETSTAT")
        self.c.must("SET", "used", "v")
        until(is_counted, 20, "the tick after that")
        self.c.must("DEL", "used")

    def test_what_is_predicted_for_the_present_size_is_measured(self):
        keys, rand = 200000, random.Random(1)      # fewer are less memory than the models can predict
        self.set_maxmemory(int(keys * 160))
        fill(self.c, keys)
        read(self.c, keys, keys, rand)
        self.assertEqual(self.c.must("CONFIG", "RESETSTAT"), OK)
        read(self.c, keys, keys, rand)
        self.counted(keys)
        reply, sizes = advice(self.c)
        self.assertEqual(reply["maxmemory"], keys * 160)
        self.assertEqual(float(reply["known"]), 100)
        self.assertAlmostEqual(reply["sampled_keys"], keys / 128, delta=keys / 128 / 4)
        measured = float(reply["measured_hit_ratio"])
        self.assertTrue(10 < measured < 90, measured)
        self.assertAlmostEqual(float(sizes[1]["hit_ratio"]), measured, delta=15)      # demotion of so little memory lags on a busy machine
        self.assertEqual(float(sizes[4]["hit_ratio"]), 100)
        self.assertLess(float(sizes[0.25]["hit_ratio"]), float(sizes[1]["hit_ratio"]))
        for factor, size in sizes.items():
            self.assertEqual(size["maxmemory"], int(keys * 160 * factor))
            self.assertGreater(float(size["p99_usec"]), 0)
        self.assertLess(float(sizes[4]["mean_usec"]), float(sizes[1]["mean_usec"]))
        self.assertEqual(float(sizes[4]["reads_per_second"]), 0)
        self.check_ratio(sizes)
        self.check_cost(sizes)
        info = self.server.info("tiering")
        self.assertAlmostEqual(float(info["tier_advise_hit_ratio"]), float(sizes[1]["hit_ratio"]), delta=1)
        self.assertEqual(float(info["tier_advise_double_hit_ratio"]), float(sizes[2]["hit_ratio"]))

    def check_ratio(self, sizes):
        least = facts(self.c.must("TIER", "ADVISE", "hitratio", sizes[1]["hit_ratio"]))
        self.assertTrue(0.75 < float(least["factor"]) < 1.1, least)
        self.assertGreaterEqual(float(least["hit_ratio"]), float(sizes[1]["hit_ratio"]))
        self.assertLess(float(facts(self.c.must("TIER", "ADVISE", "HITRATIO", "0"))["factor"]), 0.25)

    def check_cost(self, sizes):
        by_ram = facts(self.c.must("TIER", "ADVISE", "COST", "5", "0"))
        self.assertLess(float(by_ram["factor"]), 0.25)
        by_reads = facts(self.c.must("TIER", "ADVISE", "COST", "0.000001", "1000", "0.01"))
        self.assertEqual(float(by_reads["hit_ratio"]), 100)
        for reply in (by_ram, by_reads):
            self.assertAlmostEqual(float(reply["cost"]), float(reply["ram_cost"]) + float(reply["ssd_cost"]), delta=0.02)
        free = facts(self.c.must("TIER", "ADVISE", "COST", "-0", "-0"))
        self.assertEqual([bytes(free[name]) for name in ("ram_cost", "ssd_cost", "cost")], [b"0.00"] * 3)
        dear = facts(self.c.must("TIER", "ADVISE", "COST", "1e12", "1e12", "1e-3"))
        self.assertGreater(float(dear["factor"]), 0)
        self.assertAlmostEqual(float(by_ram["cost"]), 5 * by_ram["maxmemory"] / (1 << 30), delta=0.01)

    def test_sizes_beyond_the_largest_integer(self):
        fill(self.c, 20000)
        self.set_maxmemory((1 << 63) - 1)
        self.c.must("CONFIG", "RESETSTAT")
        read(self.c, 30000, 20000, random.Random(4))
        until(lambda: not isinstance(self.c.call("TIER", "ADVISE"), Error), 20, "the next tick")
        sizes = advice(self.c)[1]
        self.assertEqual(sizes[4]["maxmemory"], (1 << 63) - 1)
        self.assertTrue(all(size["maxmemory"] > 0 for size in sizes.values()), sizes)

    def test_uses_that_do_not_touch_are_sampled(self):
        """They are counted as hits and misses."""
        fill(self.c, 30000)
        self.c.must("CONFIG", "SET", "tier-advise", "no")
        until(lambda: sampled(self.server) == 0, 20, "the tick that forgets all")
        self.c.must("CONFIG", "SET", "tier-advise", "yes")
        self.c.must("CLIENT", "NO-TOUCH", "ON")

        def is_sampled():
            read(self.c, 30000, 30000, random.Random(5))
            return sampled(self.server) > 50
        until(is_sampled, 20, "keys that were read")

    def test_a_key_that_is_created_again_is_known(self):
        fill(self.c, 30000)
        for start in range(0, 30000, 1000):
            self.c.must("TIER", "DEMOTE", *["k%d" % i for i in range(start, start + 1000)])
        self.assertGreater(int(self.server.info("tiering")["tier_cold_keys"]), 0)
        read_all = [["GET", "k%d" % i] for i in range(30000)]
        self.c.pipeline(read_all)
        for start in range(0, 30000, 100):
            self.c.pipeline([["MULTI"]] + [words for i in range(start, start + 100) for words in (["DEL", "k%d" % i], ["SET", "k%d" % i, "v"])] + [["EXEC"]])
        self.c.must("CONFIG", "RESETSTAT")
        for start in range(0, 30000, 100):
            self.c.pipeline([["MULTI"]] + [words for i in range(start, start + 100) for words in (["DEL", "k%d" % i], ["SET", "k%d" % i, "v"])] + [["EXEC"]])
        self.c.pipeline(read_all)
        self.counted(30000)
        self.assertEqual(float(self.server.info("tiering")["tier_advise_known"]), 100)

    def test_a_hit_ratio_that_no_size_has(self):
        keys, rand = 100000, random.Random(2)
        self.set_maxmemory(12 * MB)      # six times this is not enough
        fill(self.c, keys, 1000)
        self.c.must("CONFIG", "RESETSTAT")
        read(self.c, keys // 2, keys, rand)
        self.counted(keys // 2)
        reply = self.c.call("TIER", "ADVISE", "HITRATIO", "99.9")
        self.assertIsInstance(reply, Error)
        self.assertRegex(bytes(reply).decode(), "ERR a hit ratio of 99.9 is not reached up to maxmemory [0-9]+: it would be [0-9.]+")

    def test_errors(self):
        for words in (["x"], ["HITRATIO"], ["HITRATIO", "9", "9"], ["COST"], ["COST", "1"], ["COST", "1", "2", "3", "4"]):
            self.assertEqual(bytes(self.c.call("TIER", "ADVISE", *words)), b"ERR syntax error", words)
        for words in (["HITRATIO", "x"], ["COST", "x", "1"], ["COST", "1", "x"], ["COST", "1", "1", "x"]):
            self.assertEqual(bytes(self.c.call("TIER", "ADVISE", *words)), b"ERR value is not a valid float", words)
        for words in (["HITRATIO", "-1"], ["HITRATIO", "100.1"], ["COST", "-1", "1"], ["COST", "1", "-1"], ["COST", "1", "1", "0"], ["COST", "inf", "1"],
                      ["COST", "1e307", "1"], ["COST", "1", "1.1e12"], ["COST", "1", "1", "1e13"]):
            self.assertIn(b"ERR value is out of range", self.c.call("TIER", "ADVISE", *words), words)
        self.c.must("CONFIG", "RESETSTAT")
        self.assertIn(b"ERR too few uses of keys were sampled yet", self.c.call("TIER", "ADVISE"))
        self.c.must("CONFIG", "SET", "maxmemory", 0)
        self.assertIn(b"ERR maxmemory is 0", self.c.call("TIER", "ADVISE"))

    def test_switched_off_it_keeps_nothing(self):
        fill(self.c, 20000)
        self.assertGreater(sampled(self.server), 50)
        self.c.must("CONFIG", "SET", "tier-advise", "no")
        self.assertIn(b"tier-advise no", self.c.call("TIER", "ADVISE"))
        until(lambda: sampled(self.server) == 0, 20, "the tick that forgets all")
        self.c.must("CONFIG", "SET", "tier-advise", "yes")
        wait_on(self.server)

    def test_flushed_and_deleted_keys_leave_the_sample(self):
        fill(self.c, 30000)
        self.assertGreater(sampled(self.server), 100)
        self.c.pipeline(["UNLINK", "k%d" % i] for i in range(30000))
        self.assertEqual(sampled(self.server), 0)
        for command in (["FLUSHALL"], ["FLUSHDB"]):
            fill(self.c, 30000)
            self.assertGreater(sampled(self.server), 100)
            self.c.must(*command)
            until(lambda: sampled(self.server) == 0, 20, "the sweep")
        fill(self.c, 30000)
        kept = sampled(self.server)
        self.c.must("SWAPDB", 0, 1)
        self.c.must("FLUSHDB")                      # what was database 1
        fill(self.c, 5000)
        until(lambda: sampled(self.server) >= kept, 20, "the keys of both")
        self.c.must("SELECT", 1)
        self.c.must("FLUSHDB")
        until(lambda: 0 < sampled(self.server) < kept, 20, "the sweep of one")


@kelvin_only
class AdviseKeptTest(ServerCase):
    options = {**OPTIONS, "appendonly": "yes"}

    def test_the_sample_is_kept_over_a_restart(self):
        wait_on(self.server)
        fill(self.c, 50000)
        kept = sampled(self.server)
        self.assertGreater(kept, 100)
        self.c.must("BGREWRITEAOF")
        until(lambda: self.server.info("persistence")["aof_rewrites"] != "0" and
              self.server.info("persistence")["aof_rewrite_in_progress"] == "0", 60, "the checkpoint")
        image = [name for name in os.listdir(self.log()) if name.endswith(".base.image")]
        path = os.path.join(self.log(), image[0], "advise")
        self.assertTrue(os.path.exists(path))
        self.server.kill9()
        self.server.start()
        self.assertEqual(sampled(self.server), kept)
        self.c = self.server.client()
        self.c.pipeline(["DEL", "k%d" % i] for i in range(50000))       # before the restart, but after the image
        self.assertEqual(self.c.must("DBSIZE"), 0)
        self.server.kill9()
        self.server.start()
        self.assertEqual(sampled(self.server), 0)
        self.server.kill9()
        with open(path, "r+b") as file:
            file.seek(1000)
            file.write(b"damage")
        self.server.start()
        self.assertEqual(sampled(self.server), 0)
        self.assertIn(b"TIER ADVISE begins without samples", self.server.log())

    def log(self):
        return os.path.join(self.server.folder, "appendonlydir")


@kelvin_only
class AdviseElsewhereTest(ServerCase):
    """On a replica, whose uses are those of the stream and of its own clients; and in a cluster."""
    options = OPTIONS

    def test_on_a_replica(self):
        with Server({**OPTIONS, "replicaof": "127.0.0.1 %d" % self.server.port}) as replica:
            until(lambda: replica.info("replication")["master_link_status"] == "up", 60, "the link")
            with replica.client() as client:
                def is_sampled():
                    fill(self.c, 5000)
                    return sampled(replica) > 0
                until(is_sampled, 60, "keys of the stream")
                self.c.must("FLUSHALL")
                until(lambda: sampled(replica) == 0, 60, "the sweep")
                fill(self.c, 30000)
                until(lambda: client.must("DBSIZE") == 30000, 60, "the keys")
                read(client, 100000, 30000, random.Random(3))
                until(lambda: not isinstance(client.call("TIER", "ADVISE"), Error), 20, "the tick")
                self.assertEqual(float(advice(client)[1][1]["hit_ratio"]), 100)

    def test_a_full_synchronization_begins_without_samples(self):
        with Server(OPTIONS) as replica, replica.client() as client:
            wait_on(replica)
            fill(client, 30000)
            self.assertGreater(sampled(replica), 100)
            client.must("REPLICAOF", "127.0.0.1", self.server.port)
            until(lambda: replica.info("replication")["master_link_status"] == "up", 60, "the link")
            self.assertEqual(client.must("DBSIZE"), 0)
            until(lambda: sampled(replica) == 0, 20, "the sweep")

    def test_in_a_cluster(self):
        node = Server({**OPTIONS, "cluster-enabled": "yes", "cluster-port": port_free()})
        self.addCleanup(node.discard)
        client = node.client()
        self.addCleanup(client.close)
        client.must("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        until(lambda: b"cluster_state:ok" in client.must("CLUSTER", "INFO"), 20, "the cluster's state")

        def is_sampled():
            for start in range(0, 30000, 1000):
                client.pipeline(["SET", "k%d" % i, "x" * 200] for i in range(start, start + 1000))
            read(client, 30000, 30000, random.Random(3))
            return not isinstance(client.call("TIER", "ADVISE"), Error)
        until(is_sampled, 60, "enough uses")
        self.assertAlmostEqual(advice(client)[0]["sampled_keys"], 30000 / 128, delta=80)
        self.assertEqual(float(advice(client)[1][1]["hit_ratio"]), 100)


if __name__ == "__main__":
    main()

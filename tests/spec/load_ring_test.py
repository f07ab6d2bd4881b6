"""Cold keys that workers read by themselves, on io_uring; and the same where the kernel refuses io_uring, so that threads read."""
import os
import random
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                              # noqa: E402
from support.resp import OK, encode                                                                 # noqa: E402
from support.seccomp import WITHOUT_IO_URING                                                        # noqa: E402
from support.server import Server, scaled, seed_new                                                 # noqa: E402

KEYS = 2000


def value_of(number):
    return b"%d:" % number + b"abcdefg" * (number % 40)


class Reading:
    """What must hold by either way. Mixed into the classes below."""

    def fill(self):
        for start in range(0, KEYS, 500):
            self.assertEqual(self.c.must("MSET", *[word for i in range(start, start + 500) for word in ("k%d" % i, value_of(i))]), OK)
        self.cool()

    def cool(self):
        keys = self.c.must("KEYS", "*")
        for start in range(0, len(keys), 500):
            self.c.must("TIER", "DEMOTE", *keys[start:start + 500])
        self.assertEqual(self.tiering("tier_hot_keys"), "0")

    def tiering(self, name):
        return self.server.info("tiering")[name]

    def test_values_are_right_alone_and_in_batches(self):
        chance = random.Random(seed_new())
        self.fill()
        for _ in range(300):
            number = chance.randrange(KEYS)
            self.assertEqual(self.c.must("GET", "k%d" % number), value_of(number))
        self.cool()
        for _ in range(20):
            numbers = [chance.randrange(KEYS + 100) for _ in range(chance.randrange(1, 400))]
            self.assertEqual(self.c.must("MGET", *["k%d" % number for number in numbers]),
                             [value_of(number) if number < KEYS else None for number in numbers])
        self.assertEqual(self.tiering("tier_errors"), "0")
        self.assertEqual(self.tiering("tier_loads_waiting"), "0")

    def test_a_pipeline_of_many_clients(self):
        """They read the same keys, change them and demote them."""
        self.fill()
        wrong = []

        def run(number):
            chance = random.Random(number)
            with self.server.client() as client:
                for _ in range(scaled(60)):
                    keys = [chance.randrange(KEYS) for _ in range(40)]
                    replies = client.pipeline([("GET", "k%d" % key) for key in keys])
                    wrong.extend(key for key, reply in zip(keys, replies) if reply != value_of(key))
                    client.must("TIER", "DEMOTE", *["k%d" % key for key in keys[:20]])
                    key = chance.randrange(KEYS)
                    client.must("SET", "k%d" % key, value_of(key))

        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(self.tiering("tier_errors"), "0")

    def test_values_of_all_sizes(self):
        sizes = [0, 1, 100, 511, 512, 4000, 4096, 40000, 64000, 65536, 70000, 300000, 3000000]
        for size in sizes:
            self.c.must("SET", "s%d" % size, os.urandom(1) * size)
        before = [self.c.must("GET", "s%d" % size) for size in sizes]
        self.cool()
        self.assertEqual([self.c.must("GET", "s%d" % size) for size in sizes], before)
        self.cool()
        self.assertEqual(self.c.must("MGET", *["s%d" % size for size in sizes]), before)

    def test_the_server_ends_while_keys_are_read(self):
        self.fill()
        clients = [self.client() for _ in range(10)]
        for client in clients:
            client.send(encode(["MGET"] + ["k%d" % number for number in range(KEYS)]))
        self.server.terminate()
        self.assertIsNone(self.server.alarm())


@kelvin_only
class LoadRingTest(Reading, ServerCase):
    options = {"io-threads": 2}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.has_ring = cls.server.info("tiering")["tier_read_method"] == "io_uring"

    def test_the_keys_of_a_call_are_read_in_batches(self):
        if not self.has_ring:
            self.skipTest("the kernel refuses io_uring")
        self.fill()
        self.c.must("CONFIG", "RESETSTAT")
        before = self.server.info("tiering")
        self.c.must("MGET", *["k%d" % number for number in range(100)])
        after = self.server.info("tiering")
        self.assertEqual(int(after["tier_ring_reads"]) - int(before["tier_ring_reads"]), 100)
        self.assertEqual(int(after["tier_ring_batches"]) - int(before["tier_ring_batches"]), 1)


@kelvin_only
class WithoutIoUringTest(Reading, ServerCase):
    options = {"io-threads": 2}

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.options, prefix=WITHOUT_IO_URING)
        cls.addClassCleanup(lambda: cls.server.stop())

    def setUp(self):
        if not self.server.alive():
            type(self).server.discard()
            type(self).server = Server(self.options, prefix=WITHOUT_IO_URING)
        super().setUp()

    def test_the_reason_is_logged_once(self):
        self.assertEqual(self.tiering("tier_read_method"), "threads")
        self.assertEqual(self.server.log().count(b"Cold keys are read by threads: io_uring is forbidden"), 1)
        self.fill()
        self.c.must("MGET", *["k%d" % number for number in range(100)])
        self.assertEqual(self.tiering("tier_ring_reads"), "0")


if __name__ == "__main__":
    main()

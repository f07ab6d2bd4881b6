"""Garbage of the store is collected while clients write as fast as the server lets them, so that demotion has no end."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                               # noqa: E402
from support.resp import Error                                                                       # noqa: E402
from support.server import Server, redis_tool, until                                                 # noqa: E402

KEYS, VALUE_SIZE = 150000, 200
TIMEOUT_S = 180         # a busy machine writes slowly
ROUNDS = 4
SPACE_MAX = 2.5             # bytes of segments for each byte that is live


@kelvin_only
class GarbageTest(ServerCase):

    def written(self, server):
        return int(server.info("tiering")["tier_segment_written_bytes"])

    def write_twice_the_data(self, server):
        """Waits until as much was written to the segments; what the collection writes counts, too."""
        enough = self.written(server) + 2 * KEYS * VALUE_SIZE
        until(lambda: self.written(server) >= enough, timeout=TIMEOUT_S, what="records to be written")

    def is_bounded(self, server):
        info = server.info("tiering")
        return int(info["tier_segment_bytes"]) < SPACE_MAX * int(info["tier_segment_live_bytes"])

    def test_space_is_bounded_while_clients_write(self):
        options = {"appendonly": "no", "maxmemory": "16mb", "tier-segment-size": "1mb", "tier-space-target": "60"}
        with Server(options) as server:
            with subprocess.Popen([redis_tool("redis-benchmark"), "-p", str(server.port), "-t", "set", "-r", str(KEYS), "-d", str(VALUE_SIZE), "-P", "32",
                                   "-n", "1000000000", "-q"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as clients:
                try:
                    for _ in range(ROUNDS):
                        self.write_twice_the_data(server)
                        # On a busy machine the collector may lag for a moment. Without it this is never true.
                        try:
                            until(lambda: self.is_bounded(server), timeout=TIMEOUT_S, what="garbage to be collected")
                        except AssertionError as error:
                            self.fail("%s: %s" % (error, {name: text for name, text in server.info("tiering").items() if "segment" in name}))
                        self.assertIsNone(clients.poll(), "the load ended")
                finally:
                    clients.kill()

    def test_a_store_at_its_limit_asks_for_a_checkpoint(self):
        """What is removed stays on the disk while the last image has it: moving more only makes the store larger."""
        options = {"appendonly": "yes", "appendfsync": "no", "maxmemory": "16mb", "tier-segment-size": "1mb", "auto-aof-rewrite-percentage": "0",
                   "checkpoint-log-size": "0", "checkpoint-on-shutdown": "no", "save": ""}
        count, value = 50000, b"v" * 1000
        with Server(options) as server, server.client(timeout=60) as client:
            def size():
                """The files are measured once a second; the segments, which nearly all of it is, are counted."""
                info = server.info("tiering")
                return int(info["tier_store_bytes"]), int(info["tier_segment_bytes"])

            def overwrite(at):
                return any(isinstance(reply, Error) for reply in client.pipeline([("SET", "k%d" % (i % count), value) for i in range(at, at + 500)]))

            for at in range(0, count, 500):
                self.assertFalse(overwrite(at))
            client.must("BGREWRITEAOF")
            until(lambda: server.info("persistence")["aof_rewrites"] == "1", 120, "the first checkpoint")
            until(lambda: size()[0] >= size()[1], what="the size of the store")
            limit, largest, at = size()[0] * 3 // 2, 0, 0
            client.must("CONFIG", "SET", "tier-max-size", limit)
            while server.info("tiering")["tier_status"] != "full":
                overwrite(at * 7 % count)
                at += 500
                self.assertLess(at, 100 * count)
            begun = max(size())         # beyond the limit, by what is demoted within a second
            self.assertLess(begun, limit * 2)

            def is_over():
                nonlocal largest
                largest = max(largest, size()[0])
                return server.info("tiering")["tier_status"] == "ok"

            until(is_over, 180, "the checkpoint that frees the disk")
            self.assertLess(largest, begun * 1.5)       # what the checkpoint itself writes is in it
            self.assertGreater(int(server.info("persistence")["aof_rewrites"]), 1)
            until(lambda: not overwrite(0), 60, "writing to go on")


if __name__ == "__main__":
    main()

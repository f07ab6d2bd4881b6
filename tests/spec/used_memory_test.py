"""used_memory counts what all threads allocate and free: work that is repeated does not make it grow."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.server import Server, is_sanitized, until                                              # noqa: E402

import unittest                                                                                     # noqa: E402

REWRITES = 5


@kelvin_only
class UsedMemoryTest(unittest.TestCase):
    @unittest.skipIf(is_sanitized(), "sanitizers have an allocator of their own")
    def test_rewrites_do_not_make_used_memory_grow(self):
        server = Server({"appendonly": "yes"})
        self.addCleanup(server.discard)
        with server.client(timeout=60) as client:
            client.pipeline(["SET", "k%d" % number, "v" * 1000] for number in range(1000))

            def rewrite():
                client.must("SET", "changed", "v")
                client.must("BGREWRITEAOF")
                until(lambda: b"aof_rewrite_in_progress:0" in client.must("INFO", "persistence"), 30, "the end of the rewrite")

            for _ in range(REWRITES):
                rewrite()
            before = int(server.info("memory")["used_memory"])
            for _ in range(REWRITES):
                rewrite()
            # Each used to add 328 KB: the flusher's thread was not counted, and it frees what other threads have allocated.
            self.assertLess(int(server.info("memory")["used_memory"]) - before, REWRITES * 100_000)
        server.stop()


if __name__ == "__main__":
    main()

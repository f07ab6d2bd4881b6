"""Scripts in progress: their number is bounded, their stacks are counted, and a stack for which there is no memory is an error of that call."""
import os
import resource
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.resp import Error, Status, encode                                                              # noqa: E402
from support.server import Server, is_sanitized, until                                              # noqa: E402

SCRIPTS_MAX = 64
MB = 1 << 20
# 150 calls of C functions within each other, each with a buffer of 8 KB.
DEEP = ("redis.log(redis.LOG_WARNING, 'it has begun') local function f(n) if n == 0 then while true do end end "
        "return (string.gsub('a', 'a', function() return f(n - 1) end)) end return f(150)")
ENDLESS = "redis.log(redis.LOG_WARNING, 'it has begun') while true do end"


@kelvin_only
class LimitsTest(unittest.TestCase):
    def start(self, **options):
        server = Server({"io-threads": "1", "busy-reply-threshold": 600000, **options})
        self.addCleanup(server.discard)
        return server

    def begun(self, server):
        return server.log().count(b"it has begun")

    def kill(self, client, is_over):
        client.must("CONFIG", "SET", "busy-reply-threshold", 1)
        until(lambda: isinstance(client.call("SCRIPT", "KILL"), Error) and is_over(), 60, "the end of all scripts")

    def test_others_wait_before_they_begin(self):
        server = self.start()
        before = int(server.info("memory")["used_memory"])
        waiting = [server.client(timeout=120) for _ in range(SCRIPTS_MAX + 40)]
        with server.client(timeout=60) as other:
            for client in waiting:
                client.send(encode(["EVAL_RO", DEEP, 0]))
            until(lambda: self.begun(server) >= SCRIPTS_MAX, 60, "as many as may have begun")
            text = other.must("INFO", "memory").decode()            # all have had a turn
            self.assertEqual(self.begun(server), SCRIPTS_MAX)
            self.assertGreater(int(text.split("used_memory:")[1].split()[0]), before + SCRIPTS_MAX * MB // 2)
            for client in waiting[-10:]:
                client.close()              # one that waits leaves the queue
            # What runs no script begins at once.
            self.assertEqual(other.pipeline([["MULTI"], ["SET", "k", "v"], ["GET", "k"], ["EXEC"]])[-1][1], b"v")
            self.kill(other, lambda: self.begun(server) >= SCRIPTS_MAX + 30)
            for client in waiting[:-10]:
                self.assertRegex(bytes(client.receive()), b"^ERR Error running script: Script killed by user")
            self.assertEqual(other.must("EVAL", "return 'after'", 0), b"after")
            until(lambda: int(server.info("memory")["used_memory"]) < before + SCRIPTS_MAX * MB // 4, 30, "stacks given back")
        for client in waiting:
            client.close()

    def test_scripts_that_are_kept_are_bounded(self):
        """SCRIPT LOAD keeps its texts until the flush, so they would be taken from the data."""
        server = self.start(maxmemory="16mb")
        with server.client(timeout=60) as client:
            replies = [client.call("SCRIPT", "LOAD", b"return %d --" % number + b"x" * 100000) for number in range(40)]
            kept = sum(not isinstance(reply, Error) for reply in replies)
            self.assertIn(kept, range(15, 23))          # an eighth of maxmemory, and the one that goes beyond it
            error = Error(b"OOM the scripts of SCRIPT LOAD take more than an eighth of maxmemory. SCRIPT FLUSH drops them.")
            self.assertEqual(set(replies[kept:]), {error})
            self.assertEqual(client.must("EVAL", "return 'runs'", 0), b"runs")
            client.must("SCRIPT", "FLUSH")
            self.assertEqual(client.must("SCRIPT", "LOAD", b"return 0 --" + b"x" * 100000), replies[0])

    @unittest.skipIf(is_sanitized(), "its memory is not limited by address space")
    def test_no_memory_for_a_stack(self):
        server = self.start()
        with server.client(timeout=60) as first, server.client(timeout=60) as other:
            self.assertEqual(other.must("EVAL_RO", "return 1", 0), 1)
            first.send(encode(["EVAL_RO", ENDLESS, 0]))             # it has the one stack that there is
            until(lambda: self.begun(server) == 1, 30, "begun")
            with open("/proc/%d/statm" % server.process.pid) as file:
                size = int(file.read().split()[0]) * resource.getpagesize()
            limits = resource.prlimit(server.process.pid, resource.RLIMIT_AS, (size + 6 * MB, -1))
            error = b"OOM there is no memory for the stack of this call"
            self.assertEqual(other.call("EVAL", "return redis.call('SET', 'k', 'v')", 1, "k"), Error(error))
            self.assertEqual(other.pipeline([["MULTI"], ["SET", "k", "v"], ["EXEC"]])[-1], Error(b"EXECABORT Transaction discarded because of: " + error))
            self.assertEqual(other.must("EXISTS", "k"), 0)
            resource.prlimit(server.process.pid, resource.RLIMIT_AS, limits)
            self.assertEqual(other.pipeline([["MULTI"], ["SET", "k", "v"], ["EXEC"]])[-1], [Status(b"OK")])
            self.assertEqual(other.must("EVAL", "return redis.call('GET', 'k')", 1, "k"), b"v")
            self.kill(other, lambda: True)
            self.assertIsInstance(first.receive(), Error)


if __name__ == "__main__":
    main()

"""Common clients: redis-py, redis-cli, redis-benchmark."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
try:
    import redis
except ImportError:                     # another python than Debian's may be first in PATH
    sys.path.append("/usr/lib/python3/dist-packages")
    import redis
from support.case import ServerCase, main                                                           # noqa: E402
from support.server import redis_tool, scaled                                                       # noqa: E402


class RedisPyTest(ServerCase):
    def setUp(self):
        super().setUp()
        self.redis = redis.Redis(port=self.server.port, decode_responses=True, socket_timeout=30)
        self.addCleanup(self.redis.close)

    def test_basic_use(self):
        r = self.redis
        self.assertTrue(r.ping())
        self.assertTrue(r.set("name", "Kelvin", ex=100))
        self.assertEqual(r.get("name"), "Kelvin")
        self.assertTrue(0 < r.ttl("name") <= 100)
        self.assertIsNone(r.get("missing"))
        self.assertIsNone(r.set("name", "x", nx=True))
        self.assertEqual(r.incr("n", 5), 5)
        self.assertEqual(r.incrbyfloat("f", 1.5), 1.5)
        self.assertEqual(r.hset("h", mapping={"a": 1, "b": 2}), 2)
        self.assertEqual(r.hgetall("h"), {"a": "1", "b": "2"})
        self.assertEqual(r.hmget("h", "a", "x"), ["1", None])
        self.assertEqual(r.mget("name", "missing"), ["Kelvin", None])
        self.assertEqual(r.type("h"), "hash")
        self.assertEqual(sorted(r.keys("*")), ["f", "h", "n", "name"])
        self.assertEqual(r.delete("n", "f", "nosuch"), 2)
        self.assertTrue(r.rename("h", "g"))
        self.assertTrue(r.expire("g", 50, gt=False))
        self.assertEqual(r.dbsize(), 2)
        self.assertTrue(r.copy("g", "g2"))
        self.assertEqual(r.getdel("name"), "Kelvin")
        with self.assertRaises(redis.ResponseError):
            r.get("g")
        self.assertTrue(r.setbit("bits", 7, 1) == 0 and r.bitcount("bits") == 1)
        self.assertEqual(r.bitfield("bits").get("u8", 0).incrby("u8", 8, 3).execute(), [1, 3])

    def test_pipeline(self):
        with self.redis.pipeline(transaction=False) as pipe:
            for index in range(5000):
                pipe.set("k%d" % index, index)
            for index in range(5000):
                pipe.get("k%d" % index)
            replies = pipe.execute()
        self.assertEqual(replies[:5000], [True] * 5000)
        self.assertEqual(replies[5000:], [str(index) for index in range(5000)])
        pipe = self.redis.pipeline(transaction=False)
        pipe.set("s", "v").hget("s", "f").get("s")
        replies = pipe.execute(raise_on_error=False)
        self.assertIsInstance(replies[1], redis.ResponseError)
        self.assertEqual(replies[2], "v")

    def test_iterators(self):
        expected = {"key:%d" % index for index in range(3000)}
        self.redis.mset(dict.fromkeys(expected, "v"))
        self.redis.hset("hash", mapping={"f%d" % index: index for index in range(2000)})
        self.assertEqual(set(self.redis.scan_iter("key:*")), expected)
        self.assertEqual(set(self.redis.scan_iter(count=500, _type="string")), expected)
        self.assertEqual(dict(self.redis.hscan_iter("hash")), {"f%d" % index: str(index) for index in range(2000)})

    def test_server_commands(self):
        r = self.redis
        self.assertTrue(r.info()["redis_version"].startswith("7."))
        self.assertIn("maxmemory", r.config_get("max*"))
        self.assertTrue(r.config_set("timeout", 0))
        self.assertTrue(any(client["cmd"] == "client|list" for client in r.client_list()))
        self.assertGreater(r.command_count(), 50)
        self.assertIn("get", r.command())
        self.assertEqual(len(r.time()), 2)
        self.assertTrue(r.client_setname("me"))
        self.assertGreater(r.memory_usage("x") or 1, 0)
        self.assertIsInstance(r.slowlog_get(), list)
        r.set("k", "v")
        payload = redis.Redis(port=self.server.port).dump("k")
        self.assertTrue(r.restore("k2", 0, payload))
        self.assertEqual(r.object("encoding", "k2"), "embstr")

    def test_databases_and_connection_pool(self):
        pool = redis.ConnectionPool(port=self.server.port, db=3, max_connections=10)
        three = redis.Redis(connection_pool=pool)
        three.set("k", "three")
        self.assertIsNone(self.redis.get("k"))
        self.assertEqual(three.get("k"), b"three")
        self.assertTrue(self.redis.swapdb(0, 3))
        self.assertEqual(self.redis.get("k"), "three")
        pool.disconnect()

    def test_binary_values_are_unchanged(self):
        r = redis.Redis(port=self.server.port)
        value = bytes(range(256)) * 100
        r.set(value[:200], value)
        self.assertEqual(r.get(value[:200]), value)
        self.assertEqual(r.keys(), [value[:200]])


class ToolsTest(ServerCase):
    def run_tool(self, *command, text=None, code=0):
        process = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200,
                                 universal_newlines=True)
        if code is not None:
            self.assertEqual(process.returncode, code, process.stdout)
        return process.stdout

    def cli(self, *words, **options):
        return self.run_tool(redis_tool("redis-cli"), "-p", str(self.server.port), *words, **options)

    def test_redis_cli(self):
        self.assertEqual(self.cli("SET", "k", "v"), "OK\n")
        self.assertEqual(self.cli("GET", "k"), "v\n")
        self.assertEqual(self.cli("--no-raw", "GET", "missing"), "(nil)\n")
        self.assertEqual(self.cli("-3", "HSET", "h", "f", "v"), "1\n")
        self.assertEqual(self.cli("-3", "--no-raw", "HGETALL", "h"), '1# "f" => "v"\n')
        self.assertEqual(self.cli("-n", "5", "DBSIZE"), "0\n")
        self.assertIn("WRONGTYPE", self.cli("GET", "h"))
        self.assertEqual(self.cli(text="SET a 1\nINCR a\nGET a\n"), "OK\n2\n2\n")
        self.assertIn("PONG", self.cli("PING"))
        self.assertIn("# Server", self.cli("INFO"))
        self.assertEqual(sorted(self.cli("--scan").split()), ["a", "h", "k"])

    def test_redis_cli_pipe_mode(self):
        """Mass insertion ends when the reply to an ECHO of random bytes arrives."""
        count = scaled(50000)
        lines = "".join("SET key:%d value:%d\r\n" % (index, index) for index in range(count))
        self.assertIn("errors: 0, replies: %d" % count, self.cli("--pipe", text=lines))
        self.assertEqual(self.c.must("DBSIZE"), count)
        self.assertEqual(self.c.must("GET", "key:%d" % (count - 1)), b"value:%d" % (count - 1))

    def test_redis_cli_big_keys_and_memory_keys(self):
        self.c.must("MSET", *[word for index in range(500) for word in ("k%d" % index, "v" * index)])
        self.c.must("HSET", "h", *[str(index) for index in range(200)])
        output = self.cli("--bigkeys")
        self.assertIn("Sampled 501 keys in the keyspace", output)
        self.assertRegex(output, r'Biggest string found .*k499.* has 499 bytes')
        self.assertIn("Sampled 501 keys in the keyspace", self.cli("--memkeys"))

    def test_redis_benchmark(self):
        for options in ([], ["-P", "16"], ["--threads", "2"], ["-c", "1", "-n", "500"]):
            output = self.run_tool(redis_tool("redis-benchmark"), "-p", str(self.server.port), "-t", "ping,set,get,incr,mset,hset", "-n", "2000",
                                   "-r", "1000", "-q", *options)
            for name in ("PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "HSET", "MSET"):
                self.assertTrue(re.search(r"%s.*: [\d.]+ requests per second" % name, output), (name, output[-500:]))
            self.assertNotIn("rror", output)
        self.assertGreater(self.c.must("DBSIZE"), 500)


if __name__ == "__main__":
    main()

"""RESTORE of a string that would decompress to more than the limit is refused before memory is allocated; logs and dumps are read
regardless of the limit."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from replay_test import dump_of                                                                     # noqa: E402
from support.case import ServerCase, kelvin_only, main                                              # noqa: E402
from support.resp import Error, OK, encode                                                                  # noqa: E402
from support.server import REDIS, Server, is_sanitized                                              # noqa: E402

MB = 1 << 20
BAD = Error(b"ERR Bad data format")


def length(number):
    return bytes([0x81]) + number.to_bytes(8, "big")


def many(size):
    """Returns `size` bytes of x compressed with LZF, about 88 times smaller."""
    count, rest = divmod(size - 1, 264)
    packed = b"\x00x" + b"\xe0\xff\x00" * count + (b"\x1f" + b"x" * 32) * (rest // 32) + (bytes([rest % 32 - 1]) + b"x" * (rest % 32) if rest % 32 else b"")
    return b"\xc3" + length(len(packed)) + length(size) + packed


def dump(type, body):
    return dump_of(bytes([type]) + body)


@kelvin_only
class RestoreLimitTest(ServerCase):

    def peak(self):
        with open("/proc/%d/status" % self.server.process.pid) as status:
            return int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1)) * 1024

    def test_a_string_beyond_the_limit_is_bad_data(self):
        self.c.must("CONFIG", "SET", "proto-max-bulk-len", 4 * MB)
        self.addCleanup(self.c.must, "CONFIG", "SET", "proto-max-bulk-len", 512 * MB)
        for type, before, after in ((0, b"", b""), (1, b"\x01", b""), (2, b"\x01", b""), (3, b"\x01", b"\x011"), (4, b"\x01\x01f", b"")):
            self.assertEqual(self.c.call("RESTORE", "k", 0, dump(type, before + many(4 * MB + 1) + after), "REPLACE"), BAD, type)
            self.assertEqual(self.c.must("RESTORE", "k", 0, dump(type, before + many(4 * MB) + after), "REPLACE"), OK, type)

    @unittest.skipIf(is_sanitized(), "a sanitizer's memory is not the server's")
    def test_a_refused_string_takes_no_memory(self):
        before = self.peak()
        for type, size in ((0, 600 * MB), (16, 1025 * MB)):
            self.assertEqual(self.c.call("RESTORE", "k", 0, dump(type, many(size))), BAD)
        self.assertLess(self.peak(), before + 128 * MB)     # the request itself has 12 MB

    def test_strings_in_the_log_are_allowed(self):
        with Server({"appendonly": "yes", "proto-max-bulk-len": 8 * MB}) as server:
            with server.client() as client:
                client.must("RESTORE", "k", 0, dump(0, many(6 * MB)))
            server.kill9()
            server.options["proto-max-bulk-len"] = MB
            server.start()
            with server.client() as client:
                self.assertEqual(client.must("STRLEN", "k"), 6 * MB)

    def test_a_string_in_the_log_beyond_any_command_is_an_error(self):
        """The log of another server, or a damaged one: the start says which command it is, instead of taking the memory."""
        for words in (["SETRANGE", "k", "4611686018427387904", "x"], ["SETBIT", "k", "9223372036854775807", "1"]):
            with self.subTest(words=words):
                server = Server({"appendonly": "yes"}, start=False)
                self.addCleanup(server.discard)
                with open(os.path.join(server.folder, "appendonly.aof"), "wb") as log:
                    log.write(encode(["SET", "k", "v"]) + encode(words))
                server.launch()
                self.assertEqual(server.wait_end(60), 1, server.log_tail())
                self.assertIn(b"'%s' in the log failed" % words[0].encode(), server.log())

    def test_strings_in_a_dump_are_allowed(self):
        with Server({"save": ""}, binary=REDIS) as server, server.client() as client:
            client.must("SET", "k", b"x" * (6 * MB))
            client.must("SAVE")
            with open(os.path.join(server.folder, "dump.rdb"), "rb") as file:
                saved = file.read()
        self.assertLess(len(saved), MB)
        with Server({"proto-max-bulk-len": MB}, start=False) as server:
            with open(os.path.join(server.folder, "dump.rdb"), "wb") as file:
                file.write(saved)
            server.start()
            with server.client() as client:
                self.assertEqual(client.must("STRLEN", "k"), 6 * MB)


if __name__ == "__main__":
    main()

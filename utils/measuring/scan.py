"""A fast full SCAN of kelvin-benchmark's keys, with its errors."""
import socket
import time

from support.resp import encode

PREFIX = b"key:"


class Scanner:
    """Reads the replies of SCAN by lines: keys contain no line ends, and a full parser in Python would take most of the time."""

    def __init__(self, address, timeout):
        self.socket = socket.create_connection(address, timeout=timeout)
        self.data = b""

    def line(self):
        while b"\r\n" not in self.data:
            self.more()
        line, self.data = self.data.split(b"\r\n", 1)
        return line

    def more(self):
        got = self.socket.recv(1 << 18)
        if not got:
            raise ConnectionError("the server closed the connection during SCAN")
        self.data += got

    def page(self, cursor, count):
        """Returns (next cursor, keys)."""
        self.socket.sendall(encode(["SCAN", cursor, "COUNT", count]))
        first = self.line()
        if first != b"*2":
            raise ValueError("SCAN returned %r" % first[:200])
        self.line()
        following = self.line()
        lines = 2 * int(self.line()[1:])
        while self.data.count(b"\r\n") < lines:
            self.more()
        found = self.data.split(b"\r\n", lines)
        self.data = found.pop()
        return following, found[1::2]

    def close(self):
        self.socket.close()


def scan_all(address, keys, count, limit_s):
    """Counts how often each of the keys 0 .. keys - 1 was returned, and other keys."""
    started = time.monotonic()
    seen = bytearray(keys)
    result = {"count": count, "returned": 0, "repeated": 0, "foreign": 0, "pages": 0}
    scanner = Scanner(address, 60)
    try:
        cursor = b"0"
        while True:
            cursor, page = scanner.page(cursor, count)
            result["pages"] += 1
            result["returned"] += len(page)
            for key in page:
                number = int(key[len(PREFIX):]) if key[len(PREFIX):].isdigit() else -1
                if not key.startswith(PREFIX) or not 0 <= number < keys:
                    result["foreign"] += 1
                elif seen[number]:
                    result["repeated"] += 1
                else:
                    seen[number] = 1
            if cursor == b"0":
                break
            if time.monotonic() - started > limit_s:
                raise TimeoutError("SCAN COUNT %d was not done within %d s: %s" % (count, limit_s, result))
    finally:
        scanner.close()
    result["missing"] = keys - sum(seen)
    result["seconds"] = time.monotonic() - started
    return result

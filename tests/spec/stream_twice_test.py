"""XREAD and XREADGROUP with the same stream several times: each is handled as a separate stream. A blocking XREAD is compared with the
behaviour of Redis 7.2, which runs the command again when an entry is added; 7.0 served such a client once for each stream."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, kelvin_only, main                                                # noqa: E402
from support.scripts import blocked                                                                    # noqa: E402
from support.resp import encode                                                                     # noqa: E402
from support.server import until                                                                    # noqa: E402


class StreamTwiceTest(PairCase):

    def test_without_waiting(self):
        for protocol in (2, 3):
            self.both("FLUSHALL")
            clients = self.clients(protocol=protocol)
            self.both("""
                XADD s 1-1 a b
                XADD s 2-1 a c
                XADD t 3-1 a d
                XREAD STREAMS s s 0 1
                XREAD STREAMS s s s 0 0 0
                XREAD COUNT 1 STREAMS s t s 0 0 1
                XREAD STREAMS s s $ 1
                XREAD STREAMS s s 2-1 2-1
                XREAD STREAMS s none s 1 0 9
                XREAD BLOCK 10 STREAMS s s $ $
                XREAD BLOCK 10 STREAMS s s $ 1
                XGROUP CREATE s g 0
                XREADGROUP GROUP g a COUNT 1 STREAMS s s > 0
                XREADGROUP GROUP g a STREAMS s s s > > 0
                XREADGROUP GROUP g a STREAMS s s > >
                XPENDING s g
            """, clients)

    def entry(self, id):
        return [[id, [b"f", b"v"]]]

    @kelvin_only
    def test_a_waiting_client_is_served_for_each_name(self):
        plays = (("$ $ $", ["5-1"], [(b"s", b"5-1")] * 3),
                 ("$ 7 $", ["5-1"], [(b"s", b"5-1")] * 2),
                 ("7 $ 7", ["5-1"], [(b"s", b"5-1")]),
                 ("7 8 9", ["5-1", "8-1"], [(b"s", b"8-1")] * 2))
        for cold in (False, True):
            for ids, adds, served in plays:
                self.c.must("FLUSHALL")
                self.c.must("XADD", "s", "1-1", "f", "v")
                with self.server.client() as reader:
                    if cold:
                        self.c.must("TIER", "DEMOTE", "s")
                    reader.send(encode(["XREAD", "BLOCK", 0, "STREAMS", "s", "s", "s"] + ids.split()))
                    until(lambda: blocked(self.c) == 1)
                    self.assertIn(b"total_blocking_keys:1\r\n", self.c.must("INFO", "clients"))
                    for id in adds:
                        if cold:
                            self.c.must("TIER", "DEMOTE", "s")
                        self.c.must("XADD", "s", id, "f", "v")
                    self.assertEqual(reader.receive(), [[name, self.entry(id)] for name, id in served], (ids, cold))
                until(lambda: blocked(self.c) == 0)

    @kelvin_only
    def test_a_group_delivers_an_entry_once(self):
        self.c.must("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        with self.server.client() as reader:
            reader.send(encode("XREADGROUP GROUP g a BLOCK 0 STREAMS s s > >".split()))
            until(lambda: blocked(self.c) == 1)
            self.c.must("XADD", "s", "1-1", "f", "v")
            self.assertEqual(reader.receive(), [[b"s", self.entry(b"1-1")]])
        self.assertEqual(self.c.must("XPENDING", "s", "g")[0], 1)


if __name__ == "__main__":
    main()

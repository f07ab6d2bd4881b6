"""The protocol and its clients: bytes that are sent and returned, and the isolation of clients from each other."""
import os
import random
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, kelvin_only, main                                     # noqa: E402
from support.resp import OK, Client, Closed, Error, Map, Status, encode                             # noqa: E402
from support.server import Server, is_sanitized, scaled, seed_new, until                            # noqa: E402

PONG = Status(b"PONG")


def fields(line):
    return dict(word.split("=", 1) for word in line.decode().strip().split(" "))


class CommandsTest(PairCase):
    def test_ping_and_echo(self):
        self.both("""
            PING
            ping
            PiNg hello
            PING "\\x00\\xff"
            PING a b
            ECHO hello
            ECHO ""
            ECHO
            ECHO a b
        """)

    def test_unknown_commands(self):
        self.both([["NOSUCH"], ["nosuch", "a", "b"], ["", "x"], ["NO\r\nSUCH", "arg\r\n"], ["NOSUCH", "x" * 300], ["x" * 300, "y"],
                   ["NOSUCH"] + ["arg"] * 100, ["NOSUCH", "\x00\x01\xff"], ["GET|SET", "x"], ["CONFIG|GET", "x"],
                   ["CLIENT", "NOSUCH"], ["CONFIG", "nosuch", "x"], ["OBJECT", "x" * 200], ["COMMAND", "NOSUCH"], ["CLIENT"],
                   ["CONFIG"], ["OBJECT"]])

    def test_time(self):
        seconds, micros = self.c.must("TIME")
        self.assertLess(abs(int(seconds) + int(micros) / 1e6 - time.time()), 2)
        self.both("TIME x")

    def test_hello(self):
        for arguments in ((), ("2",), ("3",), ("3",), ("4",), ("1",), ("abc",), ("3", "SETNAME", "me"), ("3", "SETNAME", "not me"),
                          ("3", "SETNAME"), ("3", "AUTH", "default", "x"), ("3", "AUTH", "default"), ("3", "FOO"), ("2",), ()):
            self.both([["HELLO"] + list(arguments), ["CLIENT", "GETNAME"], ["HGETALL", "missing"]])

    def test_hello_3_returns_a_map(self):
        client = self.client_of_ours()
        reply = client.must("HELLO", 3)
        self.assertIsInstance(reply, Map)
        facts = dict(reply)
        self.assertEqual(facts[b"proto"], 3)
        self.assertEqual(facts[b"mode"], b"standalone")
        self.assertEqual(facts[b"role"], b"master")

    def client_of_ours(self, **options):
        client = self.server.client(**options)
        self.addCleanup(client.close)
        return client

    def test_passwords(self):
        self.both("AUTH x\nAUTH default x\nAUTH unknown x\nAUTH\nAUTH a b c")
        self.both("CONFIG SET requirepass sesame")
        try:
            pair = self.clients()
            self.both("""
                GET k
                PING
                NOSUCH
                GET
                AUTH wrong
                AUTH default wrong
                AUTH unknown sesame
                HELLO 3
                HELLO 3 AUTH default wrong
                RESET
                AUTH sesame
                GET k
                RESET
                GET k
                AUTH default sesame
                PING
            """, pair)
            self.both("HELLO 3 AUTH default sesame SETNAME me\nCLIENT GETNAME\nGET k", self.clients())
            self.both_raw(b"*1\r\n$4\r\nQUIT\r\n", closes=True)
            self.both_raw(b"*11\r\n$4\r\nPING\r\n", closes=True)
            self.both_raw(b"*1\r\n$20000\r\n", closes=True)
            self.both_raw(b"PING\r\nAUTH sesame\r\nPING\r\n", closes=False)
        finally:
            self.both("CONFIG SET requirepass \"\"")
        self.both("GET k", self.clients())

    def test_select_is_per_connection(self):
        one, two = self.clients(), self.clients()
        self.both("SELECT 3\nSET k three", one)
        self.both("GET k\nSELECT 3\nGET k", two)

    def test_reset_and_quit(self):
        pair = self.clients()
        self.both("""
            SELECT 4
            CLIENT SETNAME me
            HELLO 3
            RESET
            CLIENT GETNAME
            HGETALL x
            SET k v
            RESET x
        """, pair)
        self.both("GET k")
        self.both_raw(encode(["QUIT"]), closes=True)
        self.both_raw(encode(["quit"]) + encode(["PING"]), closes=True)
        self.both_raw(encode(["SET", "q", "1"]) + encode(["QUIT"]) + encode(["SET", "q", "2"]), closes=True)
        self.both("GET q")


class ClientCommandTest(PairCase):
    def test_names(self):
        self.both("""
            CLIENT GETNAME
            CLIENT SETNAME me
            CLIENT GETNAME
            CLIENT SETNAME "not me"
            CLIENT SETNAME "\\x01"
            CLIENT GETNAME
            CLIENT SETNAME ""
            CLIENT GETNAME
            CLIENT SETNAME
            CLIENT GETNAME x
            CLIENT ID x
        """)

    def test_ids_increase(self):
        first, second = self.server.client(), self.server.client()
        self.addCleanup(first.close)
        self.addCleanup(second.close)
        ids = first.must("CLIENT", "ID"), second.must("CLIENT", "ID")
        self.assertLess(ids[0], ids[1])
        self.assertEqual(first.must("CLIENT", "ID"), ids[0])

    def test_list_and_info_have_the_fields_of_redis(self):
        ours, theirs = self.clients()
        mine = fields(ours.must("CLIENT", "INFO"))
        other = fields(theirs.must("CLIENT", "INFO"))
        self.assertEqual(set(other) - set(mine), set(), "fields that redis has")
        self.assertLessEqual(set(mine) - set(other), {"lib-name", "lib-ver"})
        ours.must("CLIENT", "SETNAME", "someone")
        ours.must("SELECT", 7)
        mine = fields(ours.must("CLIENT", "INFO"))
        self.assertEqual((mine["name"], mine["db"], mine["id"], mine["resp"], mine["cmd"], mine["user"]),
                         ("someone", "7", str(ours.must("CLIENT", "ID")), "2", "client|info", "default"))
        self.assertEqual(mine["addr"], "%s:%d" % ours.socket.getsockname())
        self.assertEqual(mine["laddr"], "%s:%d" % ours.socket.getpeername())
        lines = self.c.must("CLIENT", "LIST").splitlines()
        self.assertIn("someone", [fields(line)["name"] for line in lines])
        identity = mine["id"]
        lines = self.c.must("CLIENT", "LIST", "ID", identity, 999999).splitlines()
        self.assertEqual([fields(line)["id"] for line in lines], [identity])
        self.both("""
            CLIENT LIST ID
            CLIENT LIST ID abc
            CLIENT LIST TYPE foo
            CLIENT LIST foo
            CLIENT INFO x
        """)
        self.assertEqual(self.c.must("CLIENT", "LIST", "TYPE", "pubsub"), b"")

    def test_the_last_command_may_have_been_refused(self):
        for line in ("GET x", "NOSUCH a", "GET", "CLIENT NOSUCH", "CONFIG GET", "MULTI", "SET a b", "LPUSH a", "EXEC", "EVAL return(redis.call('get','x')) 0",
                     "OBJECT", "SUBSCRIBE c"):
            seen = []
            for watcher, client in zip((self.c, self.r), self.clients()):
                identity = client.must("CLIENT", "ID")
                client.call(*line.split())
                seen.append(fields(watcher.must("CLIENT", "LIST", "ID", identity).strip())["cmd"])
            self.assertEqual(*seen, line)

    def test_kill(self):
        self.both("""
            CLIENT KILL 1.2.3.4:5
            CLIENT KILL ID 99999
            CLIENT KILL ID abc
            CLIENT KILL TYPE foo
            CLIENT KILL USER unknown
            CLIENT KILL SKIPME foo
            CLIENT KILL ADDR 1.2.3.4:5
            CLIENT KILL LADDR 1.2.3.4:5
            CLIENT KILL FOO bar
            CLIENT KILL
        """)
        victim = self.server.client()
        self.addCleanup(victim.close)
        identity = victim.must("CLIENT", "ID")
        self.assertEqual(self.c.must("CLIENT", "KILL", "ID", identity), 1)
        with self.assertRaises((Closed, ConnectionError)):
            victim.call("PING")
        victim = self.server.client()
        self.addCleanup(victim.close)
        victim.must("PING")
        self.assertEqual(self.c.must("CLIENT", "KILL", "%s:%d" % victim.socket.getsockname()), OK)
        with self.assertRaises((Closed, ConnectionError)):
            victim.call("PING")
        # The client itself: it is closed after the reply.
        own = self.server.client()
        self.addCleanup(own.close)
        self.assertEqual(own.must("CLIENT", "KILL", "ID", own.must("CLIENT", "ID"), "SKIPME", "no"), 1)
        with self.assertRaises((Closed, ConnectionError)):
            own.call("PING")

    def test_reply_modes(self):
        ours, theirs = self.clients()
        for client in (ours, theirs):
            client.send(encode(["CLIENT", "REPLY", "OFF"]) + encode(["SET", "k", "v"]) + encode(["GET", "k"]) +
                        encode(["CLIENT", "REPLY", "ON"]) + encode(["CLIENT", "REPLY", "SKIP"]) + encode(["GET", "k"]) +
                        encode(["GET", "k"]))
            self.assertEqual([client.receive(), client.receive()], [OK, b"v"])
        self.both("CLIENT REPLY foo\nCLIENT REPLY", (ours, theirs))

    def test_pause(self):
        self.both("CLIENT PAUSE\nCLIENT PAUSE abc\nCLIENT PAUSE -1\nCLIENT PAUSE 1 foo\nCLIENT UNPAUSE x")
        other = self.server.client()
        self.addCleanup(other.close)
        self.assertEqual(self.c.must("CLIENT", "PAUSE", 300, "WRITE"), OK)
        started = time.monotonic()
        self.assertEqual(other.must("GET", "k"), None)
        self.assertLess(time.monotonic() - started, 0.25)
        self.assertEqual(other.must("SET", "k", "v"), OK)
        self.assertGreater(time.monotonic() - started, 0.25)
        self.assertEqual(self.c.must("CLIENT", "PAUSE", 10000), OK)
        other.send(encode(["GET", "k"]))
        time.sleep(0.05)
        self.assertEqual(self.c.must("CLIENT", "UNPAUSE"), OK)
        started = time.monotonic()
        self.assertEqual(other.receive(), b"v")
        self.assertLess(time.monotonic() - started, 5)

    def test_other_subcommands(self):
        self.both("""
            CLIENT NO-EVICT on
            CLIENT NO-EVICT off
            CLIENT NO-EVICT foo
            CLIENT UNBLOCK 999
            CLIENT UNBLOCK abc
            CLIENT UNBLOCK 1 foo
            CLIENT UNBLOCK 1 error x
            CLIENT PAUSE 1 ALL x
            CLIENT GETREDIR
            CLIENT TRACKINGINFO
            CLIENT TRACKING off
            CLIENT TRACKING off NOLOOP
            CLIENT TRACKING off foo
            CLIENT TRACKING foo
            CLIENT TRACKING off REDIRECT abc
            CLIENT CACHING yes
            CLIENT KILL ID 1 TYPE
            CLIENT KILL ID 0
            CLIENT LIST ID -5
            CLIENT LIST TYPE master
        """)
        self.both("CLIENT TRACKINGINFO\nCLIENT LIST TYPE master\nCLIENT GETNAME\nCLIENT NO-EVICT on", self.clients(protocol=3))

    @kelvin_only
    def test_subcommands_of_7_2(self):
        client = self.server.client()
        self.addCleanup(client.close)
        self.assertEqual(client.must("CLIENT", "SETINFO", "lib-name", "mylib"), OK)
        self.assertEqual(client.must("CLIENT", "SETINFO", "LIB-VER", "1.2.3"), OK)
        line = fields(client.must("CLIENT", "INFO"))
        self.assertEqual((line["lib-name"], line["lib-ver"]), ("mylib", "1.2.3"))
        self.assertEqual(client.call("CLIENT", "SETINFO", "lib-name", "not mine"),
                         Error(b"ERR lib-name cannot contain spaces, newlines or special characters."))
        self.assertEqual(client.call("CLIENT", "SETINFO", "foo", "bar"), Error(b"ERR Unrecognized option 'foo'"))
        self.assertEqual(client.must("RESET"), Status(b"RESET"))
        self.assertEqual(fields(client.must("CLIENT", "INFO"))["lib-name"], "mylib", "the library is still the same")
        self.assertEqual(client.must("CLIENT", "SETINFO", "lib-name", ""), OK)
        self.assertEqual(fields(client.must("CLIENT", "INFO"))["lib-name"], "")
        self.assertEqual(client.must("CLIENT", "NO-TOUCH", "on"), OK)
        self.assertEqual(fields(client.must("CLIENT", "INFO"))["flags"], "T")
        self.assertEqual(client.must("CLIENT", "NO-EVICT", "ON"), OK)
        self.assertEqual(fields(client.must("CLIENT", "INFO"))["flags"], "eT")
        self.assertEqual(client.call("CLIENT", "NO-TOUCH", "foo"), Error(b"ERR syntax error"))
        self.assertEqual(client.must("RESET"), Status(b"RESET"))
        self.assertEqual(fields(client.must("CLIENT", "INFO"))["flags"], "N")


class WireTest(PairCase):
    def test_inline_commands(self):
        for line in (b"PING\r\n", b"PING\n", b"ping\r\nPING\r\n", b"  PING  \r\n", b"\r\n", b"\n\n\r\nPING\r\n", b"SET k v\r\nGET k\r\n",
                     b'SET k "a b\\x41\\n\\"c"\r\nGET k\r\n', b"SET k 'a \\' b'\r\nGET k\r\n", b"SET k \"a\" \"b\"\r\n",
                     b"ECHO \"\"\r\n", b"ECHO\t\thello\r\n", b"GET\r\n", b"nosuch a b\r\n", b"   \r\nPING\r\n",
                     b"PING\r\n*1\r\n$4\r\nPING\r\nPING\r\n", b"ECHO \\x41\r\n", b"ECHO \"\\xZZ\\a\\b\\q\"\r\n"):
            self.both_raw(line, silent=line in (b"\r\n",), closes=False)

    def test_invalid_inline_commands(self):
        for line in (b'SET k "unbalanced\r\n', b"SET k 'unbalanced\r\n", b'SET k "a"b\r\n', b"SET k 'a'b\r\n", b'"\r\n',
                     b"x" * 70000, b"PING\r\n" + b"y" * 70000):
            self.both_raw(line)

    @kelvin_only
    def test_a_too_long_inline_command_is_refused_in_any_pieces(self):
        """Redis accepts it if its end has arrived when the limit is exceeded; Kelvin checks the length of the line."""
        for pieces in ((b"GET " + b"x" * 70000 + b"\r\n",), (b"GET " + b"x" * 65000, b"x" * 5000, b"\r\n")):
            with self.server.client() as client:
                for piece in pieces:
                    client.send(piece)
                    time.sleep(0.01)
                self.assertEqual(client.raw(1), (b"-ERR Protocol error: too big inline request\r\n", True))

    def test_protocol_errors(self):
        for data in (b"*abc\r\n", b"*1x\r\n", b"*1\r\nx\r\n", b"*1\r\n$abc\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$-5\r\n", b"*1\r\n$\r\n", b"*1\r\n+PING\r\n",
                     b"*1\r\n:5\r\n", b"*2147483648\r\n", b"*9223372036854775808\r\n", b"*1\r\n$536870913\r\n",
                     b"*1\r\n$9223372036854775807\r\n", b"*\r\n", b"* 1\r\n", b"*+1\r\n", b"*01\r\n$4\r\nPING\r\n",
                     b"*1\r\n$ 4\r\nPING\r\n", b"*1\r\n$04\r\nPING\r\n", b"*" + b"1" * 70000, b"*1\r\n$" + b"1" * 70000,
                     b"*1\r\n" + b"z" * 70000, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n*1\r\n", b"*1\r\n*1\r\n",
                     b"PING\r\n*1\r\n$4\r\nPING\r\n*1\r\nPING\r\n*1\r\n$4\r\nPING\r\n"):
            self.both_raw(data, closes=None)

    def test_empty_requests(self):
        for data in (b"*0\r\n", b"*-1\r\n", b"*-5\r\n", b"*0\r\n*-1\r\n\r\n"):
            self.both_raw(data + b"PING\r\n", closes=False)

    def test_a_bulk_is_not_checked_for_its_end(self):
        """Redis skips the two bytes after a bulk without checking them."""
        self.both_raw(b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", closes=False)

    def test_quotes_after_a_big_request(self):
        """Parsing ahead must not access the arguments of a request whose buffer has been freed."""
        big = encode(["SET", "big", "x" * 300000])
        for _ in range(3):
            self.both_raw(big + encode(["MGET"] + ["k%d" % i for i in range(5)]) * 20, closes=False)
            self.both_raw(b"PING\r\nSET k 'x y'\r\nGET k\r\n", closes=False)

    def test_random_damage(self):
        """Requests with a few bytes changed, removed or duplicated: the same replies, and the same end of the connection. Without NUL
        bytes: Redis never finds the end of a line after one, and waits forever; Kelvin replies."""
        seed = seed_new()
        chooser = random.Random(seed)
        for round_ in range(scaled(80)):
            data = bytearray(b"".join(chooser.choice((
                encode(["SET", "k", chooser.choice(("v", "", "a b\r\n", "*1\r\n$4"))]), encode(["GET", "k"]), b"PING\r\n",
                encode(["INCR", "n"]), b"SET k 'x y'\r\n", encode(["MSET", "a", "1", "b", "2"]), b"*0\r\n", b"\r\n",
                encode(["HSET", "h", "f", "v" * 30]), encode(["ECHO", "x" * 100]))) for _ in range(chooser.randrange(1, 6))))
            for _ in range(chooser.randrange(1, 4)):
                at = chooser.randrange(len(data) or 1)
                kind = chooser.randrange(4)
                if kind == 0 and data:
                    data[at] = chooser.choice(b"*$\r\n019- \"'\xffa")
                elif kind == 1:
                    del data[at:at + chooser.randrange(1, 4)]
                elif kind == 2:
                    data[at:at] = data[at:at + chooser.randrange(1, 6)]
                else:
                    data[at:at] = bytes(chooser.choices(b"*$:+-\r\n0129 \"'\\", k=chooser.randrange(1, 4)))
            with self.subTest(seed=seed, round=round_):
                self.both_raw(bytes(data), silent=True)

    def test_bytes_one_by_one(self):
        data = encode(["SET", "k", "v\r\nw"]) + b"GET k\r\n" + encode(["GET", "k"]) + b"\r\n*0\r\n" + encode(["PING"])
        for byte in data:
            self.c.send(bytes([byte]))
        replies = [self.c.receive() for _ in range(4)]
        self.assertEqual(replies, [OK, b"v\r\nw", b"v\r\nw", PONG])

    def test_every_way_to_split_a_request_in_two(self):
        data = encode(["SET", "key", "va\r\nlue"]) + b"GET key\r\n"
        for cut in range(1, len(data)):
            self.c.send(data[:cut])
            time.sleep(0.0005)
            self.c.send(data[cut:])
            self.assertEqual([self.c.receive(), self.c.receive()], [OK, b"va\r\nlue"], "cut after %d bytes" % cut)

    def test_pipelines_of_any_length(self):
        for depth in (10, 1000, 10000, scaled(100000)):
            commands = [["INCR", "n"] for _ in range(depth)]
            self.c.must("DEL", "n")
            self.assertTrue(self.c.pipeline(commands) == list(range(1, depth + 1)), "depth %d" % depth)
        commands = [command for i in range(5000) for command in (["SET", "k%d" % i, i], ["GET", "k%d" % i], ["GET", "no"], ["BAD"])]
        self.assertTrue(self.c.pipeline(commands) == self.r.pipeline(commands))

    def test_big_bulks(self):
        for size in (1 << 20, 10000000, (16 << 20) + 3) if is_sanitized() else (1 << 20, 10000000, (64 << 20) + 3):
            value = os.urandom(1 << 16) * (size // (1 << 16) + 1)
            value = value[:size]
            self.assertEqual(self.c.exchange(encode(["SET", "big", value]), 1), [OK])
            self.assertTrue(self.c.must("GET", "big") == value)
            self.assertTrue(self.c.pipeline([["GET", "big"]] * 3) == [value] * 3)
            self.assertEqual(self.c.must("GETRANGE", "big", size - 5, -1), value[-5:])
        self.c.must("DEL", "big")

    def test_many_arguments(self):
        count = 100000
        words = [word for i in range(count) for word in (b"k%d" % i, b"v%d" % i)]
        self.assertEqual(self.c.exchange(encode(["MSET"] + words), 1), [OK])
        self.assertTrue(self.c.exchange(encode(["MGET"] + words[::2]), 1)[0] == words[1::2])
        self.assertEqual(self.c.exchange(encode(["DEL"] + words[::2]), 1), [count])


class NeighboursTest(ServerCase):
    def worst_ping(self, seconds, client=None):
        client = client or self.c
        worst, deadline = 0.0, time.monotonic() + seconds
        while time.monotonic() < deadline:
            started = time.monotonic()
            client.must("SET", "x", "y")
            worst = max(worst, time.monotonic() - started)
        return worst

    def test_a_partial_command_delays_no_other_client(self):
        halves = [self.client() for _ in range(50)]
        for index, half in enumerate(halves):
            half.send(encode(["SET", "half%d" % index, "z" * 100000])[:-(index * 1000 + 3)])
        self.assertLess(self.worst_ping(0.3), 2 if is_sanitized() else 0.2)
        self.assertEqual(self.c.must("EXISTS", *["half%d" % index for index in range(50)]), 0)
        for half in halves[:25]:
            half.close()
        for index, half in list(enumerate(halves))[25:]:
            half.send(encode(["SET", "half%d" % index, "z" * 100000])[-(index * 1000 + 3):])
            self.assertEqual(half.receive(), OK)
        self.assertEqual(self.c.must("EXISTS", *["half%d" % index for index in range(50)]), 25)

    def test_a_slow_reader_delays_no_other_client_and_gets_all_replies(self):
        value = os.urandom(1 << 20)
        self.c.must("SET", "big", value)
        slow = self.client(timeout=60)
        slow.send(encode(["GET", "big"]) * 40 + encode(["PING"]))
        self.assertLess(self.worst_ping(0.5), 2)         # long, as the machine may be busy; a client that waited for the slow one would wait forever
        for index in range(40):
            self.assertTrue(slow.receive() == value, "reply %d" % index)
        self.assertEqual(slow.receive(), PONG)

    def test_the_begin_of_a_large_request_after_quit(self):
        """It arrives with QUIT, and the connection stays as long as its replies wait for the reader."""
        self.c.must("SET", "v", b"y" * 60000)
        begin = encode(["SET", "big", b"x" * 3000000])[:1000000]
        for _ in range(3):
            reader = socket.socket()
            self.addCleanup(reader.close)
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", self.server.port))
            reader.settimeout(1)
            for _ in range(60):
                reader.sendall(encode(["GET", "v"]))
                time.sleep(0.002)
            try:
                reader.sendall(encode(["QUIT"]) + begin)
            except OSError:
                pass                                # it may be closed, or read no more
            self.assertEqual(self.c.must("PING"), PONG)
        self.assertEqual(self.c.must("EXISTS", "big"), 0)

    def test_a_transaction_that_goes_on_after_the_end_of_its_client(self):
        """It becomes a replica's in name. What that takes is freed: a build that looks for leaks fails otherwise."""
        with Server({}) as server, server.client() as other:
            for count in (b"1", b"2"):
                client = server.client()
                client.send(b"".join(map(encode, (["MULTI"], ["EVAL", "for i = 1, 10000000 do end redis.call('INCR', 'runs')", 0],
                                                  ["REPLCONF", "listening-port", 7001], ["EXEC"]))))
                until(lambda: b"cmd=exec" in other.must("CLIENT", "LIST"), 20, "the transaction to run")
                client.close()
                until(lambda count=count: other.must("GET", "runs") == count, 60, "the end of the transaction")

    def test_an_output_buffer_over_its_limit_closes_the_client(self):
        old = self.c.must("CONFIG", "GET", "client-output-buffer-limit")[1]
        self.c.must("CONFIG", "SET", "client-output-buffer-limit", "normal 2000000 0 0")
        try:
            self.c.must("SET", "big", "z" * 20000000)      # more than the socket buffers can store
            slow = self.client()
            slow.send(encode(["GET", "big"]) * 100)
            identity = b"addr=%s:%d " % (slow.socket.getsockname()[0].encode(), slow.socket.getsockname()[1])
            until(lambda: identity not in self.c.must("CLIENT", "LIST"), 10, "closing the slow client")
            with self.assertRaises((Closed, ConnectionError)):
                for _ in range(101):
                    slow.receive()
        finally:
            self.c.must("CONFIG", "SET", "client-output-buffer-limit", old)

    def test_a_single_reply_over_the_limit_closes_the_client(self):
        """Also one that reads at once, as in Redis."""
        for server, control in ((self.server, self.c), (self.oracle, self.r)) if hasattr(self, "r") else ((self.server, self.c),):
            old = control.must("CONFIG", "GET", "client-output-buffer-limit")[1]
            control.must("SET", "big", "z" * 4000000)
            control.must("CONFIG", "SET", "client-output-buffer-limit", "normal 3000000 0 0")
            try:
                with server.client() as reader, self.assertRaises(ConnectionError):
                    reader.call("GET", "big")
                with server.client() as reader:
                    self.assertEqual(len(reader.must("GETRANGE", "big", "0", "1999999")), 2000000)
            finally:
                control.must("CONFIG", "SET", "client-output-buffer-limit", old)

    def test_a_query_buffer_over_its_limit_closes_the_client(self):
        self.c.must("CONFIG", "SET", "client-query-buffer-limit", 1048576)
        try:
            greedy = self.client()
            with self.assertRaises((Closed, ConnectionError)):
                greedy.send(b"*2\r\n$3\r\nGET\r\n$8000000\r\n")
                for _ in range(80):
                    greedy.send(b"z" * 100000)
                greedy.receive()
            self.assertEqual(self.c.must("PING"), PONG)
        finally:
            self.c.must("CONFIG", "SET", "client-query-buffer-limit", 1 << 30)

    def test_idle_clients_are_closed_after_the_timeout(self):
        self.c.must("CONFIG", "SET", "timeout", 1)
        try:
            idle, busy = self.client(), self.client()
            started = time.monotonic()
            idle.must("PING")
            idle.socket.settimeout(0.1)
            while True:
                busy.must("PING")
                try:
                    idle.receive()
                except socket.timeout:
                    self.assertLess(time.monotonic() - started, 10)
                    continue
                except (Closed, ConnectionError):
                    break
            self.assertGreater(time.monotonic() - started, 0.9)
            busy.must("PING")
        finally:
            # The connection of this test may also have been closed.
            client = self.client()
            client.must("CONFIG", "SET", "timeout", 0)

    def test_maxclients(self):
        self.c.must("CONFIG", "SET", "maxclients", 20)
        try:
            clients = []
            for _ in range(60):
                clients.append(self.client())
            answers = []
            for client in clients:
                try:
                    answers.append(client.call("PING"))
                except (Closed, ConnectionError):
                    answers.append(None)
            refused = [answer for answer in answers if answer != PONG]
            self.assertGreaterEqual(len(refused), 40)
            self.assertIn(Error(b"ERR max number of clients reached"), refused)
            self.assertEqual(self.c.must("PING"), PONG)
            for client in clients:
                client.close()
            # On the existing connection, as a new one might be refused.
            until(lambda: int(self.c.must("INFO", "clients").split(b"connected_clients:")[1].split()[0]) < 10, 10,
                  "closing the clients")
        finally:
            self.c.must("CONFIG", "SET", "maxclients", 10000)

    def test_many_clients_at_once(self):
        count = 400
        clients = [self.client() for _ in range(count)]
        for index, client in enumerate(clients):
            client.send(encode(["SET", "k%d" % index, index]) + encode(["GET", "k%d" % index]))
        for index, client in enumerate(clients):
            self.assertEqual([client.receive(), client.receive()], [OK, b"%d" % index])
        self.assertGreaterEqual(int(self.server.info("clients")["connected_clients"]), count)

    def test_small_requests_of_many_clients_in_pieces(self):
        """They are gathered and run together: in order for each client, each in its own database, and before the client's end."""
        count, keep = 64, 48
        clients = [self.client() for _ in range(count)]
        self.c.must("SET", "number", 12345)
        for client in clients[::2]:
            client.must("SELECT", 1)
        for round_number in range(5):
            requests = [encode(["SET", "piece%d" % (index // 2), "%d-%d" % (index, round_number)]) + encode(["INCR", "all"]) +
                        encode(["GET", "piece%d" % (index // 2)]) for index in range(keep)]
            cut = 3 + 11 * round_number
            for client, request in zip(clients, requests):
                client.send(request[:cut])
            for client, request in zip(clients, requests):
                client.send(request[cut:])
            for index, client in enumerate(clients[:keep]):
                self.assertEqual(client.receive(), OK)
                client.receive()
                self.assertEqual(client.receive(), b"%d-%d" % (index, round_number))
        for client in clients[1::2]:
            client.send(encode(["OBJECT", "ENCODING", "number"]))       # its key is not the first argument
        for client in clients[1::2]:
            self.assertEqual(client.receive(), b"int")
        for client in clients[keep:]:
            client.send(encode(["INCR", "last"]))
        for client in clients[keep:]:
            client.close()
        for db in (0, 1):
            self.c.must("SELECT", db)
            self.assertEqual(self.c.must("GET", "all"), b"%d" % (keep // 2 * 5))
            until(lambda: self.c.must("GET", "last") == b"%d" % ((count - keep) // 2), 10, "running the last requests")
        self.c.must("SELECT", 0)

    def test_counters_of_many_threads_add_up(self):
        """Lost increments, and replies on the wrong connection: typical bugs with several workers."""
        rounds, hands, wrong = scaled(3000), 8, []

        def work(hand):
            try:
                with Client(self.server.address, timeout=60) as client:
                    for start in range(0, rounds, 50):
                        replies = client.pipeline([command for i in range(start, start + 50) for command in (
                            ["INCR", "total"], ["SET", "own%d" % hand, i], ["GET", "own%d" % hand],
                            ["HINCRBY", "hash", "f%d" % (i % 3), 1])])
                        if replies[2::4] != [b"%d" % i for i in range(start, start + 50)]:
                            wrong.append((hand, start))
            except Exception as error:          # shown by the assertion below
                wrong.append((hand, repr(error)))
        threads = [threading.Thread(target=work, args=(hand,)) for hand in range(hands)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        # Each thread runs complete batches of 50.
        total = -(-rounds // 50) * 50 * hands
        self.assertEqual(self.c.must("GET", "total"), b"%d" % total)
        self.assertEqual(sum(map(int, self.c.must("HVALS", "hash"))), total)

    def test_clients_that_are_reset_leave_nothing(self):
        def connected():
            return int(self.server.info("clients")["connected_clients"])
        before = connected()
        for index in range(200):
            client = Client(self.server.address)
            if index % 3 == 0:
                client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk")
            elif index % 3 == 1:
                client.send(encode(["GET", "k"]) * 10)
                # A TCP reset instead of an orderly close.
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            client.close()
        until(lambda: connected() <= before, 10, "closing the clients")


class HalfClosedTest(ServerCase):
    """A client that has sent all and closes its sending side still gets its replies."""

    def replies_after_the_end(self, requests, size):
        with socket.create_connection(self.server.address) as stream:
            stream.sendall(requests)
            stream.shutdown(socket.SHUT_WR)
            stream.settimeout(30)
            got = b""
            while True:
                data = stream.recv(1 << 16)
                if not data:
                    break
                got += data
        self.assertEqual(len(got), size)
        return got

    def test_cold_keys_are_replied(self):
        names = ["k%d" % number for number in range(1000)]
        self.c.must("MSET", *sum(([name, name] for name in names), []))
        self.c.must("TIER", "DEMOTE", *names)
        expected = b"".join(b"$%d\r\n%s\r\n" % (len(name), name.encode()) for name in names)
        self.assertEqual(self.replies_after_the_end(b"".join(encode(["GET", name]) for name in names), len(expected)), expected)

    def test_a_part_of_a_request_is_not_waited_for(self):
        self.assertEqual(self.replies_after_the_end(encode(["PING"]) + b"*2\r\n$3\r\nGET\r\n$1", 7), b"+PONG\r\n")

    def test_a_client_that_waits_for_a_key_is_gone(self):
        self.assertEqual(self.replies_after_the_end(encode(["BLPOP", "nothing", "0"]), 0), b"")


class ListenTest(ServerCase):
    def test_a_unix_socket(self):
        with Server({"unixsocket": "k.sock", "unixsocketperm": "700"}) as server:
            path = os.path.join(server.folder, "k.sock")
            with Client(path) as client:
                self.assertEqual(client.must("SET", "k", "v"), OK)
                self.assertIn(b"flags=U", client.must("CLIENT", "INFO"))
            with server.client() as client:
                self.assertEqual(client.must("GET", "k"), b"v")
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o700)

    def test_several_addresses(self):
        with Server({"bind": ["127.0.0.1", "127.0.0.2"]}) as server:
            for address in ("127.0.0.1", "127.0.0.2"):
                with Client((address, server.port)) as client:
                    self.assertEqual(client.must("PING"), PONG)
            with self.assertRaises(ConnectionRefusedError):
                Client(("127.0.0.3", server.port))

    def test_a_port_in_use_is_reported(self):
        second = Server({"port": self.server.port}, start=False)
        self.addCleanup(second.discard)
        second.launch()
        self.assertNotEqual(second.wait_end(), 0)
        self.assertIn(b"ddress already in use", second.log())

    def test_protected_mode_refuses_other_machines(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
                address = probe.getsockname()[0]
            except OSError:
                self.skipTest("only a loopback address")
        with Server({"bind": "*", "protected-mode": "yes"}) as server:
            with Client((address, server.port)) as client:
                reply = client.receive()
                self.assertTrue(reply.startswith(b"DENIED "), reply)
            with server.client() as client:
                self.assertEqual(client.must("PING"), PONG)
                client.must("CONFIG", "SET", "protected-mode", "no")
            with Client((address, server.port)) as client:
                self.assertEqual(client.must("PING"), PONG)

    @kelvin_only
    def test_several_workers_serve_one_port(self):
        with Server({"io-threads": "4"}) as server:
            clients = [server.client() for _ in range(40)]
            for index, client in enumerate(clients):
                self.assertEqual(client.must("SET", "k%d" % index, index), OK)
            for index, client in enumerate(clients):
                self.assertEqual(client.must("GET", "k%d" % (39 - index)), b"%d" % (39 - index))
                client.close()

    @kelvin_only
    def test_all_workers_clients_are_listed_and_killed(self):
        """A client belongs to one worker; CLIENT LIST on any worker has all of them, in the order of their connections."""
        with Server({"io-threads": "4"}) as server:
            clients = [server.client() for _ in range(24)]
            for client in clients:
                self.addCleanup(client.close)
            ids = [client.must("CLIENT", "ID") for client in clients]
            for asker in clients[:8]:
                lines = [fields(line) for line in asker.must("CLIENT", "LIST").splitlines()]
                self.assertEqual([int(line["id"]) for line in lines], sorted(ids))
                self.assertEqual({line["flags"] for line in lines}, {"N"})
            chosen = [ids[7], ids[0], ids[7], 999999, ids[23]]
            lines = clients[3].must("CLIENT", "LIST", "ID", *chosen).splitlines()
            self.assertEqual([int(fields(line)["id"]) for line in lines], [ids[7], ids[0], ids[7], ids[23]])
            for victim in range(8, 16):
                self.assertEqual(clients[0].must("CLIENT", "KILL", "ID", ids[victim]), 1)
                with self.assertRaises((Closed, ConnectionError)):
                    clients[victim].call("PING")
            self.assertEqual(clients[1].must("CLIENT", "KILL", "ID", ids[1]), 0, "it spares itself")
            self.assertEqual(clients[1].must("CLIENT", "KILL", "ID", ids[1], "SKIPME", "no"), 1)
            with self.assertRaises((Closed, ConnectionError)):
                clients[1].call("PING")
            self.assertEqual(clients[2].must("CLIENT", "KILL", "TYPE", "normal"), 14)
            self.assertEqual(clients[2].must("PING"), PONG)
            self.assertEqual(len(clients[2].must("CLIENT", "LIST").splitlines()), 1)

    @kelvin_only
    def test_listing_and_killing_concurrently(self):
        """Clients connect, list, kill and disconnect on all workers; CLIENT LIST always has all clients that stay connected."""
        with Server({"io-threads": "4"}) as server:
            stay = [server.client() for _ in range(12)]
            for client in stay:
                self.addCleanup(client.close)
            ids = {client.must("CLIENT", "ID") for client in stay}
            ended, failed = threading.Event(), []

            def churn(number):
                try:
                    while not ended.is_set():
                        client = server.client()
                        identity = client.must("CLIENT", "ID")
                        if number == 0:
                            client.send(encode(["CLIENT", "LIST"]))        # closed before the reply
                        elif number == 1:
                            assert client.must("CLIENT", "KILL", "ID", identity, "SKIPME", "no") == 1
                        else:
                            client.must("CLIENT", "SETNAME", "c%d" % identity)
                            assert b"name=c%d " % identity in client.must("CLIENT", "LIST")
                        client.close()
                except Exception as error:                                  # the assertion is made in the main thread
                    failed.append(error)

            threads = [threading.Thread(target=churn, args=(number,)) for number in range(3)]
            for thread in threads:
                thread.start()
            for round_ in range(scaled(300)):
                lines = stay[round_ % len(stay)].must("CLIENT", "LIST").splitlines()
                seen = [int(fields(line)["id"]) for line in lines]
                self.assertEqual(seen, sorted(seen))
                self.assertLessEqual(ids, set(seen))
            ended.set()
            for thread in threads:
                thread.join()
            self.assertEqual(failed, [])

    @kelvin_only
    def test_a_shutdown_under_load(self):
        """Workers send each other lines for monitors, surveys, replies for waiting clients, new sockets. The server is stopped, and none of
        them are leaked (for LeakSanitizer in the AddressSanitizer build; other builds check that it stops cleanly)."""
        seed = seed_new()
        chance = random.Random(seed)

        def keep_on(server, work):
            try:
                with server.client() as client:
                    while True:
                        work(client)
            except OSError:
                pass                                                        # the end

        def come_and_go(server):
            with server.client() as client:
                client.call("PING")

        def watch(monitor):
            try:
                while True:
                    monitor.receive()
            except OSError:
                monitor.close()

        for _ in range(6):
            server = Server({"io-threads": "4", "appendonly": "yes", "appendfsync": "always"})
            self.addCleanup(server.discard)
            threads = []
            for _ in range(12):
                monitor = server.client()
                self.assertEqual(monitor.must("MONITOR"), OK)
                threads.append(threading.Thread(target=watch, args=(monitor,)))
            works = [lambda client: client.pipeline([["ECHO", "x" * 100]] * 30), lambda client: client.call("CLIENT", "LIST"),
                     lambda client: client.pipeline([["LPUSH", "l", "1"], ["LPUSH", "m", "1"]]), lambda client: come_and_go(server)]
            works += [lambda client: client.call("BLPOP", "l", "m", 0.01)] * 3
            threads += [threading.Thread(target=keep_on, args=(server, work)) for work in works + works[:1]]
            for thread in threads:
                thread.start()
            time.sleep(chance.uniform(0.05, 0.3))
            code = server.terminate()
            for thread in threads:
                thread.join(30)
            self.assertEqual((code, server.alarm()), (0, None), "SEED=%d" % seed)


if __name__ == "__main__":
    main()

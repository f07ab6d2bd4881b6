"""CLIENT TRACKING and related commands: who gets which invalidation messages, and in what order with replies.

A scene has named clients on both servers. After each line of its script all clients send a PING, and what each has received by then must
be the same on both servers: messages and, for the client of the line, its reply. `{name}` is the ID of a client."""
import os
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, main                                                 # noqa: E402
from support.resp import NULL, Map, Push, Status, encode, split                                     # noqa: E402
from support.server import is_redis, is_sanitized, until                                            # noqa: E402

MARK = b"mark-of-the-scene"


class Stage:
    """One server's side of a scene."""

    def __init__(self, server, names):
        self.server = server
        self.clients, self.ids, self.gone = {}, {}, set()
        for name, protocol in names:
            client = server.client(protocol=protocol)
            self.clients[name] = client
            self.ids[name] = client.must("CLIENT", "ID")

    def words(self, line):
        return [word if not word.startswith("{") else "%d" % self.ids[word[1:-1]] for word in split_text(line)]

    def send(self, name, line):
        self.clients[name].send(b"".join(encode(self.words(part)) for part in line.split(" ; ")))

    def close(self, name):
        self.clients.pop(name).close()
        until(lambda: "id=%d " % self.ids[name] not in self.server_list(), what="the end of a connection")

    def server_list(self):
        with self.server.client() as client:
            return client.must("CLIENT", "LIST").decode()

    def all_received(self, first):
        """By client. The client that ran the line comes first: when it has its reply, the messages are on their way. A second PING gets
        what comes at the end of the turn in which the first one ran."""
        names = sorted(self.clients, key=lambda name: (name != first, name))
        found = {name: self.received(name) for name in names}
        return {name: found[name] + self.received(name) for name in names}

    def received(self, name):
        """All that the client has received before the reply of a PING."""
        client, found = self.clients[name], []
        client.send(encode(["PING", MARK]))
        while True:
            reply = client.receive()
            if reply == MARK or reply == [b"pong", MARK]:
                return found
            found.append(self.named(reply))

    def named(self, reply):
        """IDs replaced by names."""
        if isinstance(reply, list) and reply and reply[0] in (b"server", (b"server", b"redis")):
            return "the reply of HELLO"
        if isinstance(reply, bool) or not isinstance(reply, (int, list, tuple)):
            return reply
        if isinstance(reply, int):
            return next(("{%s}" % name for name, number in self.ids.items() if number == reply and reply > 2), reply)
        return type(reply)(self.named(item) for item in reply)


def split_text(line):
    return [word.decode("latin1") for word in split(line)]


class SceneCase(PairCase):
    def scene(self, names, script):
        """`names`: "a3 b2": client a speaks RESP3, b RESP2. A line is a client and its command, several with ";" between them in one
        packet; `-a` closes client a; `sleep` waits until keys have expired."""
        names = [(name[:-1], int(name[-1])) for name in names.split()]
        ours, theirs = Stage(self.server, names), Stage(self.oracle, names)
        log = []
        try:
            for line in [line.strip() for line in script.strip().splitlines() if line.strip()]:
                self.play(line, ours, theirs, log)
        finally:
            for stage in (ours, theirs):
                for client in stage.clients.values():
                    client.close()

    def play(self, line, ours, theirs, log):
        name, _, command = line.partition(" ")
        if name == "sleep":
            time.sleep(0.7)
        for stage in (theirs, ours):
            if name.startswith("-"):
                stage.close(name[1:])
            elif name != "sleep":
                stage.send(name, command)
        wanted, got = theirs.all_received(name), ours.all_received(name)
        deadline = time.monotonic() + 5
        while got != wanted and time.monotonic() < deadline and all(len(got[who]) <= len(wanted[who]) for who in got):
            for who in got:
                got[who] += ours.received(who)      # messages of other workers come when they come
        if got != wanted:
            self.fail("%s\n  ours  %r\n  redis %r\nafter\n%s" % (line, got, wanted, "\n".join(log)))
        log.append("%s -> %r" % (line, got))


class CommandTest(SceneCase):
    def test_the_state_of_a_client(self):
        self.scene("a3 b2 c2", """
            a CLIENT TRACKINGINFO
            a CLIENT GETREDIR
            a CLIENT TRACKING ON
            a CLIENT TRACKINGINFO
            a CLIENT GETREDIR
            b CLIENT TRACKING on redirect {c} optin noloop
            b CLIENT TRACKINGINFO
            b CLIENT GETREDIR
            b CLIENT CACHING yes
            b CLIENT TRACKINGINFO
            b GET k
            b CLIENT TRACKINGINFO
            b CLIENT TRACKING OFF
            b CLIENT TRACKINGINFO
            b CLIENT GETREDIR
            b CLIENT TRACKING ON OPTOUT
            b CLIENT CACHING NO
            b CLIENT TRACKINGINFO
            b NOSUCH
            b CLIENT TRACKINGINFO
            b CLIENT TRACKING ON
            b CLIENT TRACKINGINFO
            c CLIENT TRACKING ON BCAST PREFIX foo PREFIX bar NOLOOP
            c CLIENT TRACKINGINFO
            c CLIENT TRACKING ON BCAST PREFIX aaa
            c CLIENT TRACKINGINFO
            c CLIENT TRACKING OFF
            c CLIENT TRACKING ON BCAST
            c CLIENT TRACKINGINFO
            c CLIENT TRACKING ON BCAST
            c CLIENT TRACKINGINFO
            c CLIENT TRACKING OFF
            c CLIENT TRACKING OFF
            a RESET
            a CLIENT TRACKINGINFO
        """)

    def test_errors(self):
        self.scene("a3 b2", """
            a CLIENT TRACKING
            a CLIENT TRACKING maybe
            a CLIENT TRACKING ON nonsense
            a CLIENT TRACKING maybe nonsense
            a CLIENT TRACKING ON REDIRECT
            a CLIENT TRACKING ON REDIRECT x
            a CLIENT TRACKING ON REDIRECT 0
            a CLIENT TRACKING ON REDIRECT -1
            a CLIENT TRACKING ON REDIRECT 999999
            a CLIENT TRACKING ON REDIRECT {b} REDIRECT {b}
            a CLIENT TRACKING OFF REDIRECT 999999
            a CLIENT TRACKING ON PREFIX
            a CLIENT TRACKING ON PREFIX p
            a CLIENT TRACKING OFF PREFIX p
            a CLIENT TRACKING ON BCAST OPTIN
            a CLIENT TRACKING ON BCAST OPTOUT
            a CLIENT TRACKING ON OPTIN OPTOUT
            a CLIENT TRACKING ON BCAST PREFIX a PREFIX ab
            a CLIENT TRACKING ON BCAST PREFIX ab PREFIX a
            a CLIENT TRACKING ON BCAST PREFIX "" PREFIX a
            a CLIENT TRACKINGINFO
            a CLIENT CACHING YES
            a CLIENT CACHING NO
            a CLIENT CACHING maybe
            a CLIENT CACHING
            a CLIENT TRACKING ON BCAST PREFIX ab
            a CLIENT TRACKING ON
            a CLIENT TRACKING ON OPTIN
            a CLIENT TRACKING ON BCAST PREFIX abc
            a CLIENT TRACKING ON BCAST PREFIX a
            a CLIENT TRACKING ON BCAST PREFIX b PREFIX x PREFIX y
            a CLIENT CACHING YES
            a CLIENT CACHING maybe
            a CLIENT TRACKINGINFO
            b CLIENT TRACKING ON
            b CLIENT TRACKING ON BCAST
            b CLIENT CACHING YES
            b CLIENT TRACKING ON OPTIN
            b CLIENT CACHING NO
            b CLIENT CACHING maybe
            b CLIENT TRACKING ON OPTOUT
            b CLIENT TRACKING ON
            b CLIENT TRACKING ON OPTOUT
            b CLIENT CACHING YES
            b CLIENT TRACKING ON OPTIN
            b CLIENT TRACKINGINFO
        """)

    def test_the_line_of_client_list(self):
        def flags(client):
            words = dict(word.split("=", 1) for word in client.must("CLIENT", "INFO").decode().split())
            return words["flags"], words["redir"]
        found = []
        for server in (self.server, self.oracle):
            with server.client(protocol=3) as a, server.client() as b:
                seen = [flags(a)]
                for options in (["ON"], ["OFF"], ["ON", "BCAST"], ["OFF"], ["ON", "REDIRECT", b.must("CLIENT", "ID")]):
                    a.must("CLIENT", "TRACKING", *options)
                    seen.append(flags(a))
                self.assertEqual(seen[-1], ("t", "%d" % b.must("CLIENT", "ID")))
                seen[-1] = "t"
                found.append(seen)
        self.assertEqual(found[0], found[1])

    def test_statistics(self):
        found = []
        for server in (self.server, self.oracle):
            def counts():
                stats = server.info("stats")
                return [server.info("clients")["tracking_clients"]] + [stats["tracking_total_" + name] for name in ("keys", "items", "prefixes")]
            with server.client(protocol=3) as a, server.client(protocol=3) as b, server.client(protocol=3) as c:
                seen = [counts()]
                for client, words in ((a, "CLIENT TRACKING ON"), (b, "CLIENT TRACKING ON"), (a, "MGET k1 k2 k3"), (b, "GET k1"), (b, "GET k1"),
                                      (c, "CLIENT TRACKING ON BCAST PREFIX x PREFIX y"), (c, "GET k9"), (c, "CLIENT TRACKING ON BCAST PREFIX z"),
                                      (c, "DEL k1 k2"), (c, "CLIENT TRACKING OFF"), (b, "RESET"), (b, "FLUSHDB")):
                    client.send(encode(split(words)))
                    client.receive()
                    seen.append(counts())
            until(lambda: server.info("clients")["tracking_clients"] == "0", what="no tracking client")
            found.append(seen)
        self.assertEqual(found[0], found[1])


class DefaultModeTest(SceneCase):
    def test_a_read_is_followed_by_one_invalidation(self):
        self.scene("a3 w2", """
            a CLIENT TRACKING ON
            a GET k
            w SET k 1
            w SET k 2
            a GET k
            w APPEND k x
            a GET k
            w GET k
            w EXPIRE k 100
            a EXISTS k
            w PERSIST k
            a MGET k k k2 k3
            w MSET k 1 k2 2 k3 3
            a TTL k
            a TYPE k
            w DEL k
            w DEL k
            a CLIENT TRACKING OFF
            w SET k 1
            w SET k2 1
        """)

    def test_commands_that_remember(self):
        self.scene("a3 w2", """
            w RPUSH l 1 2 3
            w HSET h f v
            w ZADD z 1 m
            w SADD s m
            w XADD x 1-1 f v
            w SETBIT b 1 1
            w PFADD p a
            a CLIENT TRACKING ON
            a LRANGE l 0 -1
            a HGETALL h
            a ZRANGE z 0 -1
            a SMEMBERS s
            a XRANGE x - +
            a GETBIT b 1
            a PFCOUNT p
            a OBJECT REFCOUNT l
            a STRLEN b
            w LPUSH l 0
            w HSET h f w
            w HDEL h nosuch
            w HDEL h f
            w ZINCRBY z 1 m
            w SREM s m
            w XADD x 1-2 f v
            w XTRIM x MAXLEN 5
            w SETBIT b 1 0
            w PFADD p a
            w PFADD p b
            a SET b 1
            w SET b 2
            a GETDEL b
            w SET b 2
            a SORT_RO l
            w LTRIM l 0 0
            a GETRANGE b 0 1
            w SETRANGE b 0 x
            a SINTER s z2
            w SADD s x
            w ZADD z2 1 m
            a XREAD STREAMS x 0
            w XADD x 2-1 f v
            a OBJECT FREQ nosuch
            a HGET z f
            w ZADD z 5 q
            a LPOS l 1
            w RENAME l l2
            w RENAME l2 l
            a DUMP l
            w COPY l l3
            w COPY l3 l REPLACE
            a LLEN l
            a LLEN l3
            w MOVE l3 1
            a TOUCH l l3
            w LMOVE l l3 LEFT LEFT
            a BITFIELD_RO b GET u8 0
            w BITFIELD b SET u8 0 1
            a GEOPOS z m
            w ZREM z m
            a KEYS nosuch
            a DBSIZE
            w FLUSHDB
        """)

    def test_own_changes(self):
        self.scene("a3 n3 w2", """
            a CLIENT TRACKING ON
            n CLIENT TRACKING ON NOLOOP
            a GET k
            n GET k
            a SET k 1
            a GET k
            n GET k
            n SET k 2
            a SET k 3
            n GET k
            n SET k 3
            w SET k 4
            a GET k ; SET k 5 ; GET k ; PING
            a SET k 6 ; PING ; SET k 7
            a GET k ; GET k2 ; DEL k k2 ; PING
        """)

    def test_a_database_is_not_part_of_a_key(self):
        self.scene("a3 w2", """
            a CLIENT TRACKING ON
            a GET k
            w SELECT 3
            w SET k 1
            w SET k 2
            a SELECT 5
            a GET k
            w DEL k
        """)

    def test_opting(self):
        self.scene("a3 b3 w2", """
            a CLIENT TRACKING ON OPTIN
            b CLIENT TRACKING ON OPTOUT
            a GET k
            b GET k
            w SET k 1
            a CLIENT CACHING YES
            a GET k
            b CLIENT CACHING NO
            b GET k
            w SET k 2
            a CLIENT CACHING YES
            a CLIENT ID
            a GET k
            w SET k 3
            a CLIENT CACHING YES ; GET k1 ; GET k2
            b CLIENT CACHING NO ; GET k1 ; GET k2
            w MSET k1 1 k2 2
            a CLIENT CACHING YES ; NOSUCH ; GET k1
            a CLIENT CACHING YES ; GET ; GET k1
            a CLIENT CACHING YES ; PING ; GET k1
            w MSET k1 1 k2 2
            a CLIENT CACHING YES ; CLIENT CACHING YES ; GET k1
            w SET k1 1
        """)

    def test_flush(self):
        self.scene("a3 b3 n3 c2 r2 w2", """
            a CLIENT TRACKING ON
            b CLIENT TRACKING ON BCAST PREFIX p
            n CLIENT TRACKING ON NOLOOP
            r SUBSCRIBE __redis__:invalidate
            c CLIENT TRACKING ON REDIRECT {r}
            a GET k
            w FLUSHALL
            w SET k 1
            n FLUSHDB
            w FLUSHDB ASYNC
            a GET k
            a GET k2 ; FLUSHALL ; SET k 1
            w SELECT 2
            w FLUSHDB
            w SET k2 1
        """)

    def test_off_and_on_again(self):
        self.scene("a3 w2", """
            a CLIENT TRACKING ON
            a GET k
            a CLIENT TRACKING OFF
            w SET k 1
            a CLIENT TRACKING ON
            w SET k 2
            a GET k
            a CLIENT TRACKING OFF
            a CLIENT TRACKING ON
            w SET k 3
            a GET k
            a RESET
            w SET k 4
            a HELLO 3
            a CLIENT TRACKING ON
            a GET k
            a CLIENT TRACKING OFF
            a CLIENT TRACKING ON BCAST PREFIX x
            w SET k 5
            w SET x 5
        """)

    def test_protocols(self):
        self.scene("a2 b3 w2", """
            a CLIENT TRACKING ON
            a GET k
            w SET k 1
            a HELLO 3
            a GET k
            w SET k 2
            a GET k
            a HELLO 2
            w SET k 3
            b CLIENT TRACKING ON
            b CLIENT REPLY OFF ; GET k ; SET k 4 ; GET k ; CLIENT REPLY ON
            w SET k 5
            b CLIENT REPLY SKIP ; GET k ; GET k
            b CLIENT REPLY SKIP ; SET k 6 ; GET k
        """)

    def test_expiry(self):
        self.scene("a3 w2", """
            w SET k v PX 60
            w SET k2 v
            a CLIENT TRACKING ON
            a GET k
            a GET k2
            sleep
            w GET k
            w EXPIRE k2 -1
            a GET k2
            w SET k2 v PX 50
            a GET k2
            sleep
            a GET k2
            w SET k2 v
        """)

    def test_blocking_reads_and_pops(self):
        self.scene("a3 w2", """
            a CLIENT TRACKING ON
            a XREAD BLOCK 1 STREAMS x $
            w XADD x 1-1 f v
            a XREAD BLOCK 1 STREAMS x $
            w RPUSH l 1
            a LRANGE l 0 -1
            w BLPOP l 0
            a LRANGE l 0 -1
            a BRPOP l 0.01
            w RPUSH l 1
            a LRANGE l 0 -1
            a BRPOP l 0.01
        """)


class RedirectTest(SceneCase):
    def test_messages_go_to_another_client(self):
        self.scene("a2 b3 r2 s3 w2", """
            a CLIENT TRACKING ON REDIRECT {r}
            b CLIENT TRACKING ON REDIRECT {s}
            a GET k
            b GET k
            w SET k 1
            r SUBSCRIBE __redis__:invalidate
            a GET k
            b GET k
            w SET k 2
            a GET k ; SET k 3
            r UNSUBSCRIBE
            a GET k
            w SET k 4
            r SUBSCRIBE other
            a MGET k k2
            w MSET k 4 k2 5
            a CLIENT TRACKING ON REDIRECT {s}
            a GET k
            b GET k
            w SET k 6
            a CLIENT TRACKING ON
            a GET k
            w SET k 7
            b CLIENT TRACKING OFF
            w SET k 8
        """)

    def test_the_receiver_is_gone(self):
        self.scene("a3 b2 r3 w2", """
            a CLIENT TRACKING ON REDIRECT {r}
            b CLIENT TRACKING ON REDIRECT {r}
            a MGET k1 k2 k3 k4
            b MGET k1 k2 k3 k4
            w SET k1 1
            -r
            a CLIENT TRACKINGINFO
            w SET k2 1
            a CLIENT TRACKINGINFO
            b CLIENT TRACKINGINFO
            w SET k3 1
            a CLIENT TRACKING ON
            a CLIENT TRACKINGINFO
            w SET k4 1
            b CLIENT TRACKING OFF
            b CLIENT TRACKINGINFO
        """)

    def test_the_flag_of_a_broken_redirection(self):
        found = []
        for server in (self.server, self.oracle):
            with server.client(protocol=3) as a:
                receiver = server.client(protocol=3)
                number = receiver.must("CLIENT", "ID")
                a.must("CLIENT", "TRACKING", "ON", "REDIRECT", number)
                a.must("GET", "k")
                receiver.close()
                with server.client() as w:
                    until(lambda: b"id=%d " % number not in w.must("CLIENT", "LIST"), what="the end of a connection")
                    w.must("SET", "k", "1")
                self.assertEqual(a.receive(), Push([b"tracking-redir-broken", number]))
                words = dict(word.split("=", 1) for word in a.must("CLIENT", "INFO").decode().split())
                self.assertEqual(words["redir"], "%d" % number)
                found.append(words["flags"])
        self.assertEqual(found, ["tR", "tR"])

    def test_a_client_redirects_to_itself(self):
        self.scene("a3 w2", """
            a CLIENT TRACKING ON REDIRECT {a}
            a GET k
            w SET k 1
        """)


class BroadcastTest(SceneCase):
    def test_all_keys(self):
        self.scene("a3 b2 r2 w2", """
            a CLIENT TRACKING ON BCAST
            r SUBSCRIBE __redis__:invalidate
            b CLIENT TRACKING ON BCAST REDIRECT {r}
            w SET k 1
            w SET k 1
            w GET k
            w MSET a 1 b 2 a 3
            w DEL a b nosuch
            a SET own 1
            a GET own
            w FLUSHALL
            a CLIENT TRACKING OFF
            w SET k 2
        """)

    def test_prefixes(self):
        self.scene("a3 b3 w2", """
            a CLIENT TRACKING ON BCAST PREFIX foo: PREFIX bar:
            b CLIENT TRACKING ON BCAST PREFIX foo:1 PREFIX b
            w SET foo:1 x
            w SET foo:2 x
            w SET foo x
            w SET bar:1 x
            w SET fop x
            w MSET bar:9 1 foo:11 1 foo:10 1 foo:2 1 bar:8 1 zzz 1
            a CLIENT TRACKING ON BCAST PREFIX zz
            w SET zzz 2
            w RENAME foo:1 foo:3
            w SET bar:1 x ; SET foo:1 y ; SET bar:1 x
            a SET bar:1 y
        """)

    def test_noloop(self):
        self.scene("a3 b3 w2", """
            a CLIENT TRACKING ON BCAST NOLOOP
            b CLIENT TRACKING ON BCAST
            a SET k 1
            w SET k 2
            a MSET k 3 k2 3
            a SET k 1 ; SET k2 2
        """)

    def test_nothing_is_remembered(self):
        self.scene("a3 w2", """
            a CLIENT TRACKING ON BCAST PREFIX p
            a GET k
            a GET p
            w SET k 1
            a CLIENT TRACKING OFF
            a CLIENT TRACKING ON
            w SET k 1
            w SET p 1
        """)

    def test_expiry(self):
        self.scene("a3 w2", """
            a CLIENT TRACKING ON BCAST
            w SET k v PX 60
            sleep
            w GET k
        """)


class TransactionTest(SceneCase):
    def test_changes_come_after_the_whole_reply(self):
        self.scene("a3 n3 b3 w2", """
            a CLIENT TRACKING ON
            n CLIENT TRACKING ON NOLOOP
            b CLIENT TRACKING ON BCAST
            a MULTI ; GET k ; SET k 1 ; GET k ; SET k2 1 ; EXEC ; PING
            n MULTI ; GET k ; SET k 2 ; GET k2 ; EXEC ; PING
            w MULTI ; SET k 3 ; SET k2 3 ; SET k 4 ; EXEC
            b MULTI ; SET k 5 ; INCR n ; SET k 6 ; EXEC ; PING
            a MULTI ; GET k ; SET k 1 ; DISCARD
            w SET k 7
            a MULTI ; GET k ; GET k2 ; EXEC
            w DEL k2
            w DEL k
            a MULTI ; GET k ; NOSUCH ; EXEC
            w SET k 8
            a WATCH k
            w SET k 9
            a MULTI ; GET k ; EXEC
            w SET k 10
        """)

    def test_flush_in_a_transaction(self):
        self.scene("a3 b3 w2", """
            a CLIENT TRACKING ON
            b CLIENT TRACKING ON
            a GET k
            b GET k
            a MULTI ; SET k 1 ; FLUSHALL ; SET k 2 ; GET k ; EXEC ; PING
            w MULTI ; SET k 3 ; FLUSHDB ; SET k 4 ; EXEC
            b MULTI ; FLUSHALL ; EXEC ; PING
        """)

    def test_opting(self):
        self.scene("a3 b3 w2", """
            a CLIENT TRACKING ON OPTIN
            b CLIENT TRACKING ON OPTOUT
            a CLIENT CACHING YES ; MULTI ; GET k1 ; GET k2 ; EXEC ; GET k3
            w MSET k1 1 k2 1 k3 1
            a MULTI ; GET k1 ; CLIENT CACHING YES ; GET k2 ; EXEC ; GET k3
            w MSET k1 1 k2 1 k3 1
            b CLIENT CACHING NO ; MULTI ; GET k1 ; GET k2 ; EXEC ; GET k3
            w MSET k1 1 k2 1 k3 1
            a MULTI ; CLIENT TRACKINGINFO ; CLIENT CACHING YES ; CLIENT TRACKINGINFO ; EXEC
            a CLIENT TRACKINGINFO
            a CLIENT CACHING YES ; MULTI ; GET k1 ; DISCARD ; GET k2
            w MSET k1 1 k2 1 k3 1
        """)

    def test_tracking_is_turned_on_and_off(self):
        self.scene("a3 r3 w2", """
            a MULTI ; GET k1 ; CLIENT TRACKING ON ; GET k2 ; EXEC
            w MSET k1 1 k2 1
            a MULTI ; GET k1 ; CLIENT TRACKING OFF ; SET k1 1 ; GET k2 ; EXEC
            w MSET k1 1 k2 1
            a MULTI ; CLIENT TRACKING ON REDIRECT {r} ; GET k1 ; SET k1 2 ; CLIENT GETREDIR ; EXEC ; PING
            w SET k1 3
            a MULTI ; CLIENT TRACKING ON REDIRECT 12345 ; EXEC
        """)


class ScriptTest(SceneCase):
    def test_reads_and_changes_of_scripts(self):
        self.scene("a3 n3 b3 w2", """
            a CLIENT TRACKING ON
            n CLIENT TRACKING ON NOLOOP
            b CLIENT TRACKING ON BCAST PREFIX k
            a EVAL "return redis.call('get', KEYS[1])" 1 k
            w SET k 1
            w SET k 2
            a EVAL_RO "return redis.call('get', KEYS[1])" 1 k
            w EVAL "redis.call('set', KEYS[1], 1) redis.call('incr', KEYS[1]) return redis.call('incr', KEYS[2])" 2 k k2
            a EVAL "return {redis.call('get', KEYS[1]), redis.call('set', KEYS[1], 1), redis.call('get', KEYS[1])}" 1 k ; PING
            n EVAL "return {redis.call('get', KEYS[1]), redis.call('set', KEYS[1], 2)}" 1 k ; PING
            a EVAL "return 1" 1 k
            w SET k 3
            a MULTI ; EVAL "return redis.call('get', KEYS[1])" 1 k ; SET k 1 ; EXEC ; PING
            a GET k
            w EVAL "redis.call('flushall') redis.call('set', KEYS[1], 1)" 1 k
        """)


class LimitTest(PairCase):
    options = {"tracking-table-max-keys": "20"}

    def total(self, server):
        return int(server.info("stats")["tracking_total_keys"])

    def test_too_many_keys_are_invalidated(self):
        for server in (self.server, self.oracle):
            with server.client(protocol=3) as a:
                a.must("CLIENT", "TRACKING", "ON")
                messages, keys = [], [b"k%d" % i for i in range(200)]
                for key in keys:
                    a.send(encode(["GET", key]))
                    while True:
                        reply = a.receive()
                        if reply is NULL:
                            break
                        messages.append(reply)
                until(lambda: self.total(server) == 20, what="the limit")
                while len(messages) < 180:
                    messages.append(a.receive())
                names = [message[1][0] for message in messages]
                self.assertEqual(len(set(names)), 180)
                self.assertLessEqual(set(names), set(keys))
                a.must("PING")
                a.send(encode(["SET", [key for key in keys if key not in names][0], "1"]))
                self.assertEqual(sorted(map(repr, (a.receive(), a.receive())))[0][:4], "Push")

    def test_the_limit_is_lowered(self):
        for server in (self.server, self.oracle):
            with server.client(protocol=3) as a, server.client() as w:
                w.must("CONFIG", "SET", "tracking-table-max-keys", "0")
                a.must("CLIENT", "TRACKING", "ON")
                a.must("MGET", *["k%d" % i for i in range(5000)])
                self.assertEqual(self.total(server), 5000)
                w.must("CONFIG", "SET", "tracking-table-max-keys", "100")
                until(lambda: w.must("PING") and self.total(server) == 100, what="the limit")
                names = {a.receive()[1][0] for _ in range(4900)}
                self.assertEqual(len(names), 4900)
                w.must("CONFIG", "SET", "tracking-table-max-keys", "20")
                w.must("FLUSHALL")


@unittest.skipIf(is_redis(), "redis-server has no cold keys")
class TierTest(ServerCase):
    def test_a_key_that_moves_has_not_changed(self):
        a = self.client(protocol=3)
        self.c.must("SET", "k", "v")
        a.must("CLIENT", "TRACKING", "ON")
        a.must("GET", "k")
        for _ in range(3):
            self.c.must("TIER", "DEMOTE", "k")
            self.c.must("TIER", "PROMOTE", "k")
        self.assertEqual(a.call("PING"), Status(b"PONG"))
        self.c.must("SET", "k", "w")
        self.assertEqual(a.receive(), Push([b"invalidate", [b"k"]]))

    def test_a_cold_key_is_remembered_and_invalidated(self):
        a, b = self.client(protocol=3), self.client(protocol=3)
        a.must("CLIENT", "TRACKING", "ON")
        b.must("CLIENT", "TRACKING", "ON", "BCAST")
        for change in (["SET", "k", "w"], ["APPEND", "k", "w"], ["DEL", "k"], ["UNLINK", "k"], ["PEXPIRE", "k", "1"], ["RENAME", "k", "other"]):
            self.c.must("SET", "k", "v")
            self.assertEqual(b.receive()[1], [b"k"])
            self.c.must("TIER", "DEMOTE", "k")
            self.assertEqual(a.must("GET", "k"), b"v")
            self.c.must("TIER", "DEMOTE", "k")
            self.c.must(*change)
            self.assertEqual(a.receive(), Push([b"invalidate", [b"k"]]))
            self.assertEqual(b.receive()[1][0], b"k")
            if change[0] == "PEXPIRE":
                self.assertEqual(b.receive()[1], [b"k"])

    def test_a_key_that_expires_while_it_is_cold(self):
        a, b = self.client(protocol=3), self.client(protocol=3)
        a.must("CLIENT", "TRACKING", "ON")
        b.must("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "k")
        self.c.must("SET", "k", "v", "PX", "300")
        self.assertEqual(b.receive()[1], [b"k"])
        self.assertEqual(a.must("GET", "k"), b"v")
        self.c.must("TIER", "DEMOTE", "k")
        self.assertEqual(a.receive(), Push([b"invalidate", [b"k"]]))
        self.assertEqual(b.receive(), Push([b"invalidate", [b"k"]]))
        self.assertEqual(self.c.must("EXISTS", "k"), 0)

    def test_fields_that_expire(self):
        a = self.client(protocol=3)
        a.must("CLIENT", "TRACKING", "ON")
        self.c.must("HSET", "h", "f", "v", "g", "w")
        self.c.must("HPEXPIRE", "h", "100", "FIELDS", "1", "f")
        a.must("HGETALL", "h")
        self.assertEqual(a.receive(), Push([b"invalidate", [b"h"]]))
        self.assertEqual(a.must("HGETALL", "h"), Map([(b"g", b"w")]))


class BlockedReadTest(ServerCase):
    @unittest.skipIf(is_redis(), "redis-server 7.2 sends the message when the key changes next, 7.0 never")
    def test_a_read_that_had_to_wait_is_not_to_be_cached(self):
        a = self.client(protocol=3)
        a.must("CLIENT", "TRACKING", "ON")
        self.c.must("XADD", "x", "1-1", "f", "v")
        a.send(encode(["XREAD", "BLOCK", "0", "STREAMS", "x", "y", "$", "$"]))
        until(lambda: self.server.info("clients")["blocked_clients"] == "1", what="the wait")
        self.c.must("XADD", "x", "2-1", "f", "v")
        replies = [a.receive() for _ in range(4)]
        self.assertIn(Map([(b"x", [[b"2-1", [b"f", b"v"]]])]), replies)
        after = replies[replies.index(Map([(b"x", [[b"2-1", [b"f", b"v"]]])])) + 1:]
        self.assertIn(Push([b"invalidate", [b"x"]]), after)
        self.assertIn(Push([b"invalidate", [b"y"]]), after)


@unittest.skipIf(is_sanitized(), "sanitizers' allocators do not count")
class MemoryTest(ServerCase):
    def test_the_tables_count_as_used_memory(self):
        a = self.client(protocol=3)
        a.must("CLIENT", "TRACKING", "ON")
        used = lambda: int(self.server.info("memory")["used_memory"])
        before = used()
        a.must("MGET", *["key:%d" % i for i in range(50000)])
        self.assertGreater(used() - before, 50000 * 48)
        self.c.must("FLUSHALL")
        until(lambda: used() - before < 50000 * 20, what="the end of the tables")


class EvictionTest(PairCase):
    options = {"maxmemory-policy": "allkeys-random", "save": ""}

    def test_evicted_keys_are_invalidated(self):
        for server in (self.server, self.oracle):
            with server.client(protocol=3) as a, server.client() as w:
                keys = ["k%d" % i for i in range(300)]
                for key in keys:
                    w.must("SET", key, "x" * 3000)
                a.must("CLIENT", "TRACKING", "ON")
                a.must("MGET", *keys)
                w.must("CONFIG", "SET", "maxmemory", server.info("memory")["used_memory"])
                evicted = lambda: int(server.info("stats")["evicted_keys"])
                count = 0
                while evicted() < 20 and count < 4000:
                    w.call("SET", "new%d" % count, "y" * 3000)
                    count += 1
                w.must("CONFIG", "SET", "maxmemory", "0")
                if evicted() < 20:
                    self.assertIs(server, self.server)
                    continue            # demotion made room
                a.send(encode(["PING", MARK]))
                gone = set()
                while True:
                    message = a.receive()
                    if message == MARK:
                        break
                    gone.add(message[1][0].decode())
                self.assertEqual(gone, {key for key in keys if w.must("EXISTS", key) == 0})


if __name__ == "__main__":
    main()

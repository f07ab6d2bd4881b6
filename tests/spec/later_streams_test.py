"""Commands and options of Redis 7.4 to 8.4 for streams: XREAD with +, XDELEX, XACKDEL, XTRIM and XADD with ACKED, XREADGROUP with CLAIM."""
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import main                                                                       # noqa: E402
from support.later import SYNTAX, WRONG_TYPE, Cold, LaterCase, later_only, plain                       # noqa: E402
from support.resp import OK, Error                                                # noqa: E402
from support.server import scaled, seed_new, until                                                  # noqa: E402

NOT_STREAM_ID = Error(b"ERR Invalid stream ID specified as stream command argument")


def number_of(stream_id):
    return int(bytes(stream_id).split(b"-")[0])


class StreamModel:
    """One stream and its groups, by the documentation: what is pending, and what the options about references do."""

    def __init__(self):
        self.entries, self.groups = {}, {}

    def needed(self, entry):
        return any(entry > group["last"] or entry in group["pending"] for group in self.groups.values())

    def drop_refs(self, entries):
        for group in self.groups.values():
            for entry in entries:
                group["pending"].pop(entry, None)

    def delete(self, entry, policy, without_groups):
        if policy == "ACKED" and entry in self.entries and (self.needed(entry) or (without_groups and not self.groups)):
            return 2
        return 1 if self.entries.pop(entry, None) else -1

    def xdelex(self, policy, entries):
        replies = [self.delete(entry, policy, True) for entry in entries]
        if policy == "DELREF":
            self.drop_refs(entries)
        return replies

    def xackdel(self, name, policy, entries):
        replies = []
        for entry in entries:
            if name not in self.groups or self.groups[name]["pending"].pop(entry, None) is None:
                replies.append(-1)
                continue
            replies.append(self.delete(entry, policy, True))
            if policy == "DELREF":
                self.drop_refs([entry])
        return replies

    def trim(self, policy, length=None, least=None):
        room = len(self.entries) if length is None else max(0, len(self.entries) - length)
        doomed = []
        for entry in sorted(self.entries):
            if len(doomed) == room or (least is not None and entry >= least):
                break
            if policy != "ACKED" or not self.needed(entry):
                doomed.append(entry)
        for entry in doomed:
            del self.entries[entry]
        if policy == "DELREF":
            self.drop_refs(doomed)
        return len(doomed)

    def read(self, name, consumer, count, no_ack):
        group = self.groups[name]
        new = [entry for entry in sorted(self.entries) if entry > group["last"]][:count]
        for entry in new:
            group["last"] = entry
            if not no_ack:
                group["pending"][entry] = [consumer, 1]
        return new

    def claim_all(self, name, consumer, count):
        """Everything is idle. Returns which entries may be claimed, and how many of them are, before new ones come."""
        group = self.groups[name]
        for entry in [entry for entry in group["pending"] if entry not in self.entries]:
            del group["pending"][entry]
        return {entry: deliveries for entry, (_, deliveries) in group["pending"].items()}


@later_only
class StreamTest(LaterCase):
    def test_the_last_entry(self):
        self.lines("""
            XADD s 1-0 a b = b"1-0"
            XADD s 2-0 c d = b"2-0"
            XREAD STREAMS s + = [[b"s", [[b"2-0", [b"c", b"d"]]]]]
            XREAD COUNT 5 STREAMS s s + 0 = [[b"s", [[b"2-0", [b"c", b"d"]]]], [b"s", [[b"1-0", [b"a", b"b"]], [b"2-0", [b"c", b"d"]]]]]
            XREAD STREAMS none s + + = [[b"s", [[b"2-0", [b"c", b"d"]]]]]
            XREAD BLOCK 1 STREAMS s + = [[b"s", [[b"2-0", [b"c", b"d"]]]]]
            XDEL s 2-0 = 1
            XREAD STREAMS s + = [[b"s", [[b"1-0", [b"a", b"b"]]]]]
            XDEL s 1-0 = 1
            XREAD STREAMS s + = None
            XREAD BLOCK 1 STREAMS s none + + = None
            XREAD STREAMS none + = None
            XGROUP CREATE s g 0 = OK
        """)
        self.assertEqual(self.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", "+"), Error(
            b"ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, "
            b"or use the > ID to get new messages. The + ID would just return an empty result set."))

    def test_waiting_for_a_last_entry(self):
        """As redis-server 8: of several entries that come at once, the last one is returned."""
        reader = self.client()
        self.call("XADD", "s", "1-0", "a", "b")
        self.call("XDEL", "s", "1-0")
        waiting = threading.Thread(target=lambda: setattr(self, "got", reader.call("XREAD", "COUNT", 9, "BLOCK", 10000, "STREAMS", "none", "s", "+", "+")))
        waiting.start()
        until(lambda: b"blocked_clients:1" in self.c.must("INFO", "clients"))
        self.before_command()
        self.c.pipeline([["MULTI"], ["XADD", "s", "2-0", "a", "b"], ["XADD", "s", "3-0", "c", "d"], ["EXEC"]])
        waiting.join()
        self.assertEqual(self.got, [[b"s", [[b"3-0", [b"c", b"d"]]]]])

    def test_xdelex(self):
        self.lines("""
            XDELEX none IDS 2 1-0 2-0 = [-1, -1]
            XADD s 1-0 a b = b"1-0"
            XADD s 2-0 a b = b"2-0"
            XADD s 3-0 a b = b"3-0"
            XADD s 4-0 a b = b"4-0"
            XADD s 5-0 a b = b"5-0"
            XDELEX s IDS 1 9-0 = [-1]
            XDELEX s ACKED IDS 1 1-0 = [2]
            XGROUP CREATE s g 0 = OK
            XGROUP CREATE s h 0 = OK
            XREADGROUP GROUP g c COUNT 3 STREAMS s > = [[b"s", [[b"1-0", [b"a", b"b"]], [b"2-0", [b"a", b"b"]], [b"3-0", [b"a", b"b"]]]]]
            XDELEX s IDS 1 1-0 KEEPREF = [1]
            XPENDING s g - + 10 c = self.pending("1-0 2-0 3-0")
            XDELEX s DELREF IDS 2 1-0 2-0 = [-1, 1]
            XPENDING s g - + 10 c = self.pending("3-0")
            XDELEX s ACKED IDS 3 3-0 4-0 7-0 = [2, 2, -1]
            XACK s g 3-0 = 1
            XDELEX s ACKED IDS 1 3-0 = [2]
            XREADGROUP GROUP h c COUNT 1 NOACK STREAMS s > = [[b"s", [[b"3-0", [b"a", b"b"]]]]]
            XDELEX s acked ids 2 3-0 3-0 = [1, -1]
            XLEN s = 2
            XDELEX s IDS 2 4-0 5-0 = [1, 1]
            XLEN s = 0
            EXISTS s = 1
        """)
        self.check_log()

    def pending(self, ids):
        """XPENDING's reply with its idle times, as they are now."""
        now = {entry[0]: entry[2] for entry in plain(self.c.call("XPENDING", "s", "g", "-", "+", 10))}
        return [[each.encode(), b"c", Any(), 1] for each in ids.split()] if set(now) == {each.encode() for each in ids.split()} else now

    def test_xackdel(self):
        self.lines("""
            XACKDEL none g IDS 1 1-0 = [-1]
            XADD s 1-0 a b = b"1-0"
            XADD s 2-0 a b = b"2-0"
            XADD s 3-0 a b = b"3-0"
            XADD s 4-0 a b = b"4-0"
            XACKDEL s g IDS 2 1-0 2-0 = [-1, -1]
            XGROUP CREATE s g 0 = OK
            XACKDEL s g IDS 1 1-0 = [-1]
            XLEN s = 4
            XREADGROUP GROUP g c STREAMS s > = [[b"s", [[b"%d-0" % i, [b"a", b"b"]] for i in range(1, 5)]]]
            XGROUP CREATE s h 0 = OK
            XREADGROUP GROUP h c COUNT 3 STREAMS s > = [[b"s", [[b"%d-0" % i, [b"a", b"b"]] for i in range(1, 4)]]]
            XACKDEL s g IDS 2 1-0 9-0 = [1, -1]
            XACKDEL s h ACKED IDS 1 1-0 = [-1]
            XACKDEL s g DELREF IDS 1 2-0 = [1]
            XACKDEL s g ACKED IDS 2 3-0 4-0 = [2, 2]
            XPENDING s g = [0, None, None, None]
            XACKDEL s h ACKED IDS 2 2-0 3-0 = [-1, 1]
            XPENDING s h = [0, None, None, None]
            XRANGE s - + = [[b"4-0", [b"a", b"b"]]]
        """)
        self.check_log()

    def test_trimming_with_an_option_about_references(self):
        def fill(*options):
            self.call("DEL", "s")
            for i in range(1, 7):
                self.call("XADD", "s", "%d-0" % i, "a", "b")
            self.call("XGROUP", "CREATE", "s", "g", 0)
            self.call("XREADGROUP", "GROUP", "g", "c", "COUNT", 4, "STREAMS", "s", ">")
            self.call("XACK", "s", "g", "1-0", "3-0")
            reply = self.call(*options)
            return reply, [entry[0] for entry in self.call("XRANGE", "s", "-", "+")], [entry[0] for entry in self.call("XPENDING", "s", "g", "-", "+", 9)]

        ids = ["%d-0" % i for i in range(7)]
        for options, count, left, pending in (
                ("XTRIM s MAXLEN 1", 5, [6], [2, 4]), ("XTRIM s MAXLEN 1 KEEPREF", 5, [6], [2, 4]), ("XTRIM s MAXLEN 1 DELREF", 5, [6], []),
                ("XTRIM s DELREF MAXLEN 4", 2, [3, 4, 5, 6], [4]), ("XTRIM s MAXLEN 1 ACKED", 2, [2, 4, 5, 6], [2, 4]),
                ("XTRIM s MAXLEN = 5 ACKED", 1, [2, 3, 4, 5, 6], [2, 4]), ("XTRIM s MINID 4 ACKED", 2, [2, 4, 5, 6], [2, 4]),
                ("XTRIM s MINID 4 DELREF", 3, [4, 5, 6], [4]), ("XTRIM s MAXLEN ~ 1 LIMIT 1 ACKED", 1, [2, 3, 4, 5, 6], [2, 4]),
                ("XTRIM s MAXLEN 9 DELREF", 0, [1, 2, 3, 4, 5, 6], [2, 4])):
            self.assertEqual(fill(*options.split()), (count, [ids[i].encode() for i in left], [ids[i].encode() for i in pending]), options)
        for option, left, pending in (("KEEPREF", [6, 7], [2, 4]), ("DELREF", [6, 7], []), ("ACKED", [2, 4, 5, 6, 7], [2, 4])):
            reply = fill("XADD", "s", "NOMKSTREAM", option, "MAXLEN", "=", 2, "7-0", "a", "b")
            self.assertEqual(reply, (b"7-0", [b"%d-0" % i for i in left], [b"%d-0" % i for i in pending]), option)
        self.lines("""
            DEL s = 1
            XADD s DELREF 1-0 a b = b"1-0"
            XADD s 2-0 a b = b"2-0"
            XTRIM s MAXLEN 1 ACKED = 1
            XTRIM s ACKED DELREF MAXLEN 1 = SYNTAX
            XTRIM s ACKED LIMIT 5 = Error(b"ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
            XTRIM s ACKED KEEPREF = SYNTAX
        """)
        self.check_log()

    def test_errors_of_removals(self):
        count, match = Error(b"ERR Number of IDs must be a positive integer"), Error(b"ERR The `numids` parameter must match the number of arguments")
        self.call("LPUSH", "l", "x")
        self.call("XADD", "s", "1-0", "a", "b")
        for words in (["XDELEX", "s"], ["XACKDEL", "s", "g"]):
            for rest, error in (("IDS 0 1-0", count), ("IDS -1 1-0", count), ("IDS x 1-0", count), ("IDS 2 1-0", match), ("KEEPREF IDS 3 1-0", match),
                                ("IDS 1 1-0 2-0", SYNTAX), ("IDS 1 x", NOT_STREAM_ID), ("ACKED DELREF IDS 1 1-0", SYNTAX),
                                ("KEEPREF KEEPREF IDS 1 1-0", SYNTAX), ("IDS 1 1-0 IDS 1 1-0", SYNTAX), ("KEEPREF ACKED DELREF", SYNTAX),
                                ("FOO IDS 1 1-0", SYNTAX), ("1-0 IDS 1", SYNTAX)):
                self.assertEqual(self.call(*words, *rest.split()), error, (words, rest))
            wrong_type = list(words)
            wrong_type[1] = "l"
            self.assertEqual(self.call(*wrong_type, "IDS", "1", "1-0"), WRONG_TYPE)
        self.assertEqual(self.call("XLEN", "s"), 1)

    def test_claiming(self):
        """Idle entries come first, those that were delivered longest ago before others, then new ones; with idle times and deliveries."""
        for i in range(1, 6):
            self.call("XADD", "s", "%d-0" % i, "a", i)
        now = int(time.time() * 1000)
        self.lines("""
            XGROUP CREATE s g 0 = OK
            XGROUP CREATE s h 0 = OK
            XREADGROUP GROUP g one COUNT 4 STREAMS s > = [[b"s", [[b"%d-0" % i, [b"a", b"%d" % i]] for i in range(1, 5)]]]
        """)
        for entry, age, count in ((1, 5000, 1), (2, 60000, 7), (3, 9000, 2), (4, 1, 1)):
            self.call("XCLAIM", "s", "g", "one", 0, "%d-0" % entry, "TIME", now - age, "RETRYCOUNT", count, "JUSTID")
        reply = self.call("XREADGROUP", "GROUP", "g", "two", "COUNT", 3, "CLAIM", 4000, "STREAMS", "s", ">")
        self.assertEqual([(entry[0], entry[1], entry[3]) for entry in reply[0][1]],
                         [(b"2-0", [b"a", b"2"], 7), (b"3-0", [b"a", b"3"], 2), (b"1-0", [b"a", b"1"], 1)])
        for entry, age in zip(reply[0][1], (60000, 9000, 5000)):
            self.assertTrue(age <= entry[2] < age + 20000, reply)
        self.assertEqual(self.call("XREADGROUP", "GROUP", "g", "two", "COUNT", 3, "CLAIM", 40000, "STREAMS", "s", ">"),
                         [[b"s", [[b"5-0", [b"a", b"5"], 0, 0]]]])
        self.assertEqual(self.call("XREADGROUP", "GROUP", "g", "three", "CLAIM", 40000, "STREAMS", "s", ">"), None)
        pending = [(entry[0], entry[1], entry[3]) for entry in self.call("XPENDING", "s", "g", "-", "+", 10)]
        self.assertEqual(pending, [(b"1-0", b"two", 2), (b"2-0", b"two", 8), (b"3-0", b"two", 3), (b"4-0", b"one", 1), (b"5-0", b"two", 1)])
        # The option has no effect on another group's entries, on history, and NOACK none on what is claimed.
        self.assertEqual(self.call("XREADGROUP", "GROUP", "h", "one", "COUNT", 1, "NOACK", "CLAIM", 0, "STREAMS", "s", ">"),
                         [[b"s", [[b"1-0", [b"a", b"1"], 0, 0]]]])
        self.assertEqual(self.call("XPENDING", "s", "h")[0], 0)
        self.assertEqual(self.call("XREADGROUP", "GROUP", "g", "one", "CLAIM", 0, "STREAMS", "s", "0"), [[b"s", [[b"4-0", [b"a", b"4"]]]]])
        self.assertEqual(len(self.call("XREADGROUP", "GROUP", "g", "one", "NOACK", "CLAIM", 0, "STREAMS", "s", ">")[0][1]), 5)
        self.assertEqual(self.call("XPENDING", "s", "g")[0], 5)
        self.check_log()

    def test_claiming_one_after_another(self):
        """A search that ends at COUNT leaves the others to be found, also by shorter and longer idle times."""
        for i in range(1, 7):
            self.call("XADD", "s", "%d-0" % i, "a", "b")
        self.call("XGROUP", "CREATE", "s", "g", 0)
        self.call("XREADGROUP", "GROUP", "g", "one", "STREAMS", "s", ">")
        now = int(time.time() * 1000)
        for i in range(1, 7):
            self.call("XCLAIM", "s", "g", "one", 0, "%d-0" % i, "TIME", now - 100000 * i, "JUSTID")
        for idle, count, wanted in ((700000, 1, []), (300000, 1, [6]), (450000, 9, [5]), (450000, 9, []), (300000, 1, [4]), (50000, 2, [3, 2]),
                                    (150000, 1, []), (50000, 5, [1]), (50000, 5, [])):
            reply = self.call("XREADGROUP", "GROUP", "g", "two", "COUNT", count, "CLAIM", idle, "STREAMS", "s", ">")
            self.assertEqual([number_of(entry[0]) for entry in (reply or [[None, []]])[0][1]], wanted, (idle, count))

    def test_claiming_what_was_deleted(self):
        """Entries that are not in the stream any more are not pending afterwards, and do not count."""
        for i in range(1, 5):
            self.call("XADD", "s", "%d-0" % i, "a", "b")
        self.call("XGROUP", "CREATE", "s", "g", 0)
        self.call("XREADGROUP", "GROUP", "g", "one", "STREAMS", "s", ">")
        self.call("XDEL", "s", "1-0", "2-0")
        reply = self.call("XREADGROUP", "GROUP", "g", "two", "COUNT", 1, "CLAIM", 0, "STREAMS", "s", ">")
        self.assertEqual([entry[0] for entry in reply[0][1]], [b"3-0"])
        self.call("XDEL", "s", "4-0", "3-0")
        self.assertEqual(self.call("XREADGROUP", "GROUP", "g", "two", "CLAIM", 0, "STREAMS", "s", ">"), None)
        self.assertEqual(self.call("XPENDING", "s", "g")[0], 0)
        self.check_log()

    def test_errors_of_claiming(self):
        self.call("XADD", "s", "1-0", "a", "b")
        self.call("XGROUP", "CREATE", "s", "g", 0)
        for value in ("-1", "x", "1.5", ""):
            self.assertEqual(self.call("XREADGROUP", "GROUP", "g", "c", "CLAIM", value, "STREAMS", "s", ">"),
                             Error(b"ERR min-idle-time must be a positive integer"))
        self.assertEqual(self.call("XREAD", "CLAIM", 5, "STREAMS", "s", "0"),
                         Error(b"ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead."))
        self.assertEqual(self.call("XREADGROUP", "GROUP", "g", "c", "CLAIM", "STREAMS", "s", ">"),
                         Error(b"ERR min-idle-time must be a positive integer"))
        self.assertEqual(self.call("XINFO", "CONSUMERS", "s", "g"), [])
        top = str(2 ** 63 - 1)
        self.assertEqual(self.call("XREADGROUP", "GROUP", "g", "c", "CLAIM", top, "STREAMS", "s", ">"), [[b"s", [[b"1-0", [b"a", b"b"], 0, 0]]]])
        self.assertEqual(self.call("XREADGROUP", "GROUP", "g", "c", "CLAIM", top, "BLOCK", 1, "STREAMS", "s", ">"), None)

    def reader(self, *args):
        """A client that waits; returns a function that waits for its reply, and returns it with the time that it took."""
        client, got = self.client(protocol=self.protocol), []
        began = time.monotonic()
        waiting = int(self.server.info("clients")["blocked_clients"])
        thread = threading.Thread(target=lambda: got.append((plain(client.call(*args)), time.monotonic() - began)))
        thread.start()
        until(lambda: got or int(self.server.info("clients")["blocked_clients"]) > waiting)

        def finish():
            thread.join()
            return got[0]
        return finish

    def test_waiting_until_an_entry_is_idle(self):
        self.call("XADD", "s", "1-0", "a", "b")
        self.call("XGROUP", "CREATE", "s", "g", 0)
        self.call("XGROUP", "CREATE", "s", "h", 0)
        self.call("XREADGROUP", "GROUP", "g", "one", "STREAMS", "s", ">")
        began = time.monotonic()
        finish = self.reader("XREADGROUP", "GROUP", "g", "two", "BLOCK", 20000, "CLAIM", 400, "STREAMS", "s", ">")
        self.before_command()
        reply, _ = finish()
        self.assertEqual((reply[0][1][0][0], reply[0][1][0][3]), (b"1-0", 1))
        self.assertTrue(400 <= reply[0][1][0][2] < 5000, reply)
        self.assertGreater(time.monotonic() - began, 0.35)
        # Its time is up before anything is idle.
        reply, took = self.reader("XREADGROUP", "GROUP", "g", "one", "BLOCK", 150, "CLAIM", 60000, "STREAMS", "s", ">")()
        self.assertIsNone(reply)
        self.assertGreater(took, 0.14)
        # A new entry comes first.
        finish = self.reader("XREADGROUP", "GROUP", "g", "one", "BLOCK", 20000, "CLAIM", 60000, "STREAMS", "s", ">")
        self.call("XADD", "s", "2-0", "c", "d")
        self.assertEqual(finish()[0], [[b"s", [[b"2-0", [b"c", b"d"], 0, 0]]]])
        # The other group is not concerned.
        self.assertEqual(self.call("XPENDING", "s", "h")[0], 0)
        self.check_log()

    def test_waiting_for_an_entry_that_another_consumer_gets_meanwhile(self):
        """Nothing is pending when the wait begins."""
        self.call("XGROUP", "CREATE", "s", "g", 0, "MKSTREAM")
        finish = self.reader("XREADGROUP", "GROUP", "g", "two", "BLOCK", 20000, "CLAIM", 300, "STREAMS", "t", "s", ">", ">")
        self.assertEqual(finish()[0], Error(b"NOGROUP No such key 't' or consumer group 'g' in XREADGROUP with GROUP option"))
        self.call("XGROUP", "CREATE", "t", "g", 0, "MKSTREAM")
        finish = self.reader("XREADGROUP", "GROUP", "g", "two", "BLOCK", 20000, "CLAIM", 300, "STREAMS", "t", "s", ">", ">")
        self.before_command()
        # In one step, so that the waiting client does not get the entry as a new one.
        self.c.pipeline([["MULTI"], ["XADD", "s", "1-0", "a", "b"], ["XREADGROUP", "GROUP", "g", "one", "STREAMS", "s", ">"], ["EXEC"]])
        reply, took = finish()
        self.assertEqual((reply[0][0], reply[0][1][0][0], reply[0][1][0][3]), (b"s", b"1-0", 1))
        self.assertGreaterEqual(reply[0][1][0][2], 300)
        # The group is removed.
        finish = self.reader("XREADGROUP", "GROUP", "g", "two", "BLOCK", 20000, "CLAIM", 60000, "STREAMS", "s", ">")
        self.call("XGROUP", "DESTROY", "s", "g")
        self.assertIsInstance(finish()[0], Error)

    def test_an_idle_entry_goes_to_one_of_those_that_wait(self):
        for i in range(1, 4):
            self.call("XADD", "s", "%d-0" % i, "a", "b")
        for group in "gh":
            self.call("XGROUP", "CREATE", "s", group, 0)
            self.call("XREADGROUP", "GROUP", group, "zero", "STREAMS", "s", ">")
        finishers = {(group, consumer): self.reader("XREADGROUP", "GROUP", group, consumer, "COUNT", 1, "BLOCK", 3000, "CLAIM", 500, "STREAMS", "s", ">")
                     for group in "gh" for consumer in ("a", "b", "c")}
        got = {who: finish()[0] for who, finish in finishers.items()}
        for group in "gh":
            ids = sorted(reply[0][1][0][0] for who, reply in got.items() if who[0] == group)
            self.assertEqual(ids, [b"1-0", b"2-0", b"3-0"], got)
            owners = {entry[0]: (entry[1], entry[3]) for entry in self.call("XPENDING", "s", group, "-", "+", 9)}
            for (name, consumer), reply in got.items():
                if name == group:
                    self.assertEqual(owners[reply[0][1][0][0]], (consumer.encode(), 2))

    def test_consumers_that_fail_now_and_then(self):
        """Each entry is acknowledged and deleted exactly once, although consumers forget a third of what they get."""
        seed, count = seed_new(), scaled(600)
        self.call("XGROUP", "CREATE", "s", "g", 0, "MKSTREAM")
        done, problems, lock = [], [], threading.Lock()

        def consume(number):
            rng = random.Random(seed + number)
            with self.server.client(protocol=self.protocol) as client:
                while len(done) < count and not problems:
                    reply = plain(client.call("XREADGROUP", "GROUP", "g", "c%d" % number, "COUNT", 5, "BLOCK", 200, "CLAIM", 30, "STREAMS", "s", ">"))
                    for entry, _, idle, deliveries in (reply or [[None, []]])[0][1]:
                        if (deliveries > 0) != (idle >= 30):
                            problems.append((entry, idle, deliveries))
                        if rng.random() < 0.66:
                            outcome = client.call("XACKDEL", "s", "g", rng.choice(["ACKED", "KEEPREF", "DELREF"]), "IDS", 1, entry)
                            with lock:
                                done.extend([entry] * (outcome == [1]))
                                problems.extend([(entry, outcome)] * (outcome not in ([1], [-1])))

        threads = [threading.Thread(target=consume, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for i in range(count):
            self.call("XADD", "s", "%d-0" % (i + 1), "n", i)
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [], seed)
        self.assertEqual(sorted(map(number_of, done)), list(range(1, count + 1)), seed)
        self.assertEqual((self.call("XLEN", "s"), self.call("XPENDING", "s", "g")[0]), (0, 0), seed)
        self.check_log()

    def test_a_wait_in_a_transaction_ends_at_once(self):
        self.call("XADD", "s", "1-0", "a", "b")
        self.call("XGROUP", "CREATE", "s", "g", "$")
        self.before_command()
        replies = self.c.pipeline([["MULTI"], ["XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "CLAIM", 5, "STREAMS", "s", ">"], ["EXEC"]])
        self.assertEqual(plain(replies[-1]), [None])

    def test_random_commands_agree_with_a_model(self):
        seed = seed_new()
        rng = random.Random(seed)
        model, last = StreamModel(), 0

        def text(entry):
            return "%d-0" % entry

        def numbers(reply):
            return [number_of(entry[0]) for entry in reply or []]

        for step in range(scaled(1200)):
            action = rng.choice(["add", "add", "add", "group", "read", "read", "claim", "ack", "xdelex", "xdelex", "xackdel", "xackdel", "xdel", "trim", "destroy"])
            policy = rng.choice(["KEEPREF", "DELREF", "ACKED", None])
            options = [policy] if policy else []
            name, consumer = rng.choice("gh"), rng.choice("cd")
            ids = [rng.randint(max(1, last - 12), last + 1) for _ in range(rng.randint(1, 4))]
            label = "seed %d, step %d: %s %s %s %s" % (seed, step, action, policy, name, ids)
            if action in ("read", "claim") and name not in model.groups:
                action = "group"
            if action == "add":
                last += 1
                trims = rng.random() < 0.2
                length = rng.randint(0, 12)
                words = ["MAXLEN", "=", length] if trims else []
                reply, wanted = self.call("XADD", "s", *options, *words, text(last), "f", last), text(last).encode()
                model.entries[last] = True
                if trims:
                    model.trim(policy, length)
            elif action == "group":
                start = rng.choice([0, last])
                reply = self.call("XGROUP", "CREATE", "s", name, text(start), "MKSTREAM")
                wanted = OK if name not in model.groups else Error(b"BUSYGROUP Consumer Group name already exists")
                model.groups.setdefault(name, {"last": start, "pending": {}})
            elif action == "destroy":
                if rng.random() < 0.8 or not self.call("EXISTS", "s"):
                    continue
                reply, wanted = self.call("XGROUP", "DESTROY", "s", name), int(model.groups.pop(name, None) is not None)
            elif action == "read":
                count, no_ack = rng.randint(1, 4), rng.random() < 0.3
                reply = numbers((self.call("XREADGROUP", "GROUP", name, consumer, "COUNT", count, *(["NOACK"] if no_ack else []), "STREAMS", "s", ">") or
                                 [[None, []]])[0][1])
                wanted = model.read(name, consumer, count, no_ack)
            elif action == "claim":
                count = rng.randint(1, 6)
                gone = [entry for entry in model.groups[name]["pending"] if entry not in model.entries]
                for entry in gone:          # so that it does not depend on times whether they are found
                    self.call("XACK", "s", name, text(entry))
                claimable = model.claim_all(name, consumer, count)
                found = (self.call("XREADGROUP", "GROUP", name, consumer, "COUNT", count, "CLAIM", 0, "STREAMS", "s", ">") or [[None, []]])[0][1]
                claimed = found[:min(count, len(claimable))]
                for entry in claimed:
                    number = number_of(entry[0])
                    self.assertEqual(entry[3], claimable.pop(number), label)
                    model.groups[name]["pending"][number] = [consumer, entry[3] + 1]
                reply, wanted = numbers(found[len(claimed):]), model.read(name, consumer, count - len(claimed), False)
            elif action == "ack":
                reply = self.call("XACK", "s", name, *map(text, ids))
                wanted = sum(model.groups[name]["pending"].pop(each, None) is not None for each in ids) if name in model.groups else 0
            elif action == "xdel":
                reply, wanted = self.call("XDEL", "s", *map(text, ids)), sum(model.entries.pop(each, None) is not None for each in ids)
            elif action == "xdelex":
                words = options + ["IDS", len(ids), *map(text, ids)] if rng.random() < 0.5 else ["IDS", len(ids), *map(text, ids)] + options
                reply, wanted = self.call("XDELEX", "s", *words), model.xdelex(policy, ids)
            elif action == "xackdel":
                reply, wanted = self.call("XACKDEL", "s", name, *options, "IDS", len(ids), *map(text, ids)), model.xackdel(name, policy, ids)
            elif rng.random() < 0.5:
                length = rng.randint(0, 12)
                reply, wanted = self.call("XTRIM", "s", "MAXLEN", length, *options), model.trim(policy, length)
            else:
                least = rng.randint(max(0, last - 15), last)
                reply, wanted = self.call("XTRIM", "s", "MINID", text(least), *options), model.trim(policy, least=least)
            self.assertEqual(reply, wanted, label)
            if step % 50 == 0:
                self.same_as(model, label)
        self.same_as(model, seed)
        self.check_log()

    def same_as(self, model, label):
        self.assertEqual([number_of(entry[0]) for entry in self.c.must("XRANGE", "s", "-", "+")] if self.c.must("EXISTS", "s") else [],
                         sorted(model.entries), label)
        for name, group in model.groups.items():
            pending = {number_of(entry[0]): [entry[1].decode(), entry[3]] for entry in self.c.must("XPENDING", "s", name, "-", "+", 10000)}
            self.assertEqual(pending, group["pending"], label)


class Any:
    """Equal to everything."""

    def __eq__(self, other):
        return True


class ColdStreamTest(Cold, StreamTest):
    pass


class Resp3StreamTest(StreamTest):
    protocol = 3


if __name__ == "__main__":
    main()

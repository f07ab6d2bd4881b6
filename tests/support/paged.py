"""For tests of values in pages (tier-page-threshold): a type's file has the commands, and what they are checked with is here. A second server, which has all of each value in memory, says what is right."""
import glob
import os
import unittest

from support import check
from support.case import ServerCase
from support.resp import Error
from support.server import Server, StartFailed, scaled, until


def counter(server, name):
    return int(server.info("tiering")[name])


def pages(server):
    return counter(server, "tier_hot_pages"), counter(server, "tier_cold_pages")


def demote(client, *keys):
    """Those that are there are cold afterwards, with all their pages."""
    client.must("TIER", "DEMOTE", *keys)


def checkpoint(server, client):
    client.must("BGREWRITEAOF")
    until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the end of the checkpoint")


def refuses_damaged_dumps(case, server, wrong):
    """The server, which is down, does not start with what `wrong(dump)` gives, pairs of damaged dumps and what is said of them. With the good one it does."""
    path = os.path.join(server.folder, "dump.rdb")
    with open(path, "rb") as file:
        good = file.read()
    for damaged, message in wrong(good):
        case.assertNotEqual(damaged, good)
        os.makedirs(server.folder, exist_ok=True)           # a start that fails removes it
        with open(path, "wb") as file:
            file.write(damaged)
        with case.assertRaisesRegex(StartFailed, message):
            server.start()
    os.makedirs(server.folder, exist_ok=True)
    with open(path, "wb") as file:
        file.write(good)
    server.start()


class PagedCase(ServerCase):
    """`self.c` is a client of the server with pages, `self.other` of the one without."""

    def setUp(self):
        super().setUp()
        self.plain = Server({})
        self.addCleanup(self.plain.stop)
        self.other = self.plain.client()
        self.addCleanup(self.other.close)

    def both(self, *words):
        expected = self.other.call(*words)
        self.assertEqual(self.c.call(*words), expected, words)
        return expected

    def unplanned(self):
        return counter(self.server, "tier_unplanned_reads")

    def check_random_commands(self, commands, keys, looks_in_place, look):
        """`commands.next()` is asked for thousands. No page is read that was not asked for, but by those that look at a value in place; `look` is called now and then."""
        most, before = 0, self.unplanned()
        for i in range(scaled(8000)):
            words = commands.next()
            reply = self.both(*words)
            if looks_in_place(words, reply):
                before = self.unplanned()
            else:
                self.assertEqual(self.unplanned(), before, words)
            if i % 5 == 0:
                demote(self.c, *commands.random.sample(keys, commands.random.choice([1, 3, len(keys)])))
            if i % 50 == 0:
                look()
                most = max(most, sum(pages(self.server)))
        self.assertGreater(most, 10)

    def check_transactions(self, commands, keys):
        for _ in range(scaled(300)):
            batch = [("MULTI",)] + [tuple(commands.next()) for _ in range(5)] + [("EXEC",)]
            self.assertEqual(self.c.pipeline(batch), self.other.pipeline(batch), batch)
            demote(self.c, *keys)

    def check_needs(self, key, calls):
        """Of calls with how many pages each may bring into RAM, at most."""
        before = self.unplanned()
        for words, most in calls:
            with self.subTest(words):
                demote(self.c, key)
                self.assertEqual(pages(self.server)[0], 0)
                self.c.must(*words)
                self.assertLessEqual(pages(self.server)[0], most)
        self.assertEqual(self.unplanned(), before)

    def check_needs_none(self, key, calls):
        demote(self.c, key)
        for words in calls:
            self.c.call(*words)
            self.assertEqual(pages(self.server)[0], 0, words)

    def check_asks(self, keys, calls):
        before = self.unplanned()
        for words in calls:
            demote(self.c, *keys)
            self.c.must(*words)
            self.assertEqual(self.unplanned(), before, words)

    def check_one_hit(self, key, calls):
        for words in calls:
            demote(self.c, key)
            before = int(self.server.info("stats")["keyspace_hits"])
            self.c.must(*words)
            self.assertEqual(int(self.server.info("stats")["keyspace_hits"]), before + 1, words)

    def check_gone(self, fill, key, gone):
        """Each function of `gone` deletes the value that `fill` makes."""
        for name, run in gone.items():
            with self.subTest(name):
                fill(self.c)
                demote(self.c, key)
                self.assertGreater(pages(self.server)[1], 50)
                run()
                until(lambda: pages(self.server) == (0, 0), what="the end of the pages")
                self.c.must("FLUSHALL")


class KeptPagedCase(unittest.TestCase):
    def check_restarts(self, options, commands, keys, assert_same):
        """assert_same(client, other) after each restart, half of which are after a kill -9."""
        with Server({}) as plain, plain.client() as other:
            server = Server(options)
            try:
                for turn in range(scaled(10)):
                    with server.client() as client:
                        for i in range(150):
                            words = commands.next()
                            if words[0] == "DEBUG":
                                continue
                            self.assertEqual(client.call(*words), other.call(*words), words)
                            if i % 10 == 0:
                                demote(client, *keys)
                        if turn % 3 == 1:
                            checkpoint(server, client)
                    server.restart(kill=turn % 2 == 1)
                    with server.client() as client:
                        assert_same(client, other)
                server.terminate()
                status, text = check.verify(server.folder)
                self.assertEqual(status, 0, text)
                server.start()
            finally:
                server.stop()

    def check_dump(self, options, fill, keys):
        with Server(options) as server, server.client() as client:
            fill(client)
            digest = client.must("DEBUG", "DIGEST")
            demote(client, *keys)
            client.must("SAVE")
            for threshold in (256, 0):
                client.must("CONFIG", "SET", "tier-page-threshold", threshold)
                client.must("DEBUG", "RELOAD", "NOSAVE")
                self.assertEqual(client.must("DEBUG", "DIGEST"), digest)
                self.assertEqual(sum(pages(server)) > 0, threshold > 0)

    def check_damage(self, options, fill, key, wrong, damaged_pages, look, bad_max, then):
        """The bytes `wrong[0]` become `wrong[1]` on the disk. `look(client, i)` for each of 1000 elements: True, or an error; then `then(client)`."""
        server = Server(options)
        try:
            with server.client() as client:
                fill(client)
                demote(client, key)
                checkpoint(server, client)
                client.must("SET", "another", "x")
            server.terminate()
            for path in glob.glob(os.path.join(server.folder, "appendonlydir", "*.image", "store", "*.seg")):
                with open(path, "rb") as file:
                    text = file.read()
                with open(path, "wb") as file:
                    file.write(text.replace(*wrong))
            status, text = check.verify(server.folder)
            self.assertEqual(status, 1, text)
            self.assertRegex(text, r'key "%s", database 0: %d of its \d+ pages are damaged or missing' % (key, damaged_pages))
            server.start()
            with server.client() as client:
                replies = [look(client, i) for i in range(1000)]
                bad = sum(isinstance(reply, Error) for reply in replies)
                self.assertEqual(bad + sum(reply is True for reply in replies), 1000)
                self.assertTrue(0 < bad < bad_max, bad)
                then(client)
                self.assertEqual(client.must("DEL", key), 1)
                until(lambda: pages(server) == (0, 0), what="the end of the pages")
        finally:
            server.stop()

    def check_replicas(self, options, fill, run, agree):
        """`run` changes the primary when a replica, which has pages or not, has got what `fill` has made."""
        for threshold in (0, 256):
            with Server(options) as primary, primary.client() as client, Server(dict(options, **{"tier-page-threshold": threshold})) as replica, replica.client() as reader:
                fill(client)
                reader.must("REPLICAOF", "127.0.0.1", primary.port)
                until(lambda: replica.info("replication").get("master_link_status") == "up", what="the link")
                run(client)
                client.must("WAIT", 1, 5000)
                agree(reader, client)

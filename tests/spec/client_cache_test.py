"""Caches in clients, kept right by CLIENT TRACKING: writers change keys, alone and in transactions, keys move between RAM and store, and when
all is quiet no cache has a value that differs from the server's."""
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, main                                                           # noqa: E402
from support.resp import NULL, OK, Push, Status, encode                                             # noqa: E402
from support.server import is_redis, is_sanitized, scaled, seed_new, until                          # noqa: E402

KEYS = [b"key:%02d" % i for i in range(40)]
MARK = b"the end"


class Cache:
    """A connection with a local cache. Replies of a pipeline are put into the cache; a message takes its keys out."""

    def __init__(self, server, options, seed):
        self.client = server.client(protocol=3)
        self.optin, self.writes = "OPTIN" in options, "NOLOOP" in options
        self.random = random.Random(seed)
        self.values, self.messages, self.hits = {}, 0, 0
        self.client.must("CLIENT", "TRACKING", "ON", *options)

    def take(self):
        """The next reply that is not a message."""
        while True:
            reply = self.client.receive()
            if not isinstance(reply, Push):
                return reply
            self.messages += 1
            if reply[1] is NULL:
                self.values.clear()
            else:
                for key in reply[1]:
                    self.values.pop(key, None)

    def work(self):
        asked, data = [], b""
        for key in self.random.choices(KEYS, k=self.random.randrange(1, 12)):
            if key in self.values:
                self.hits += 1
            elif self.writes and self.random.random() < 0.1:
                value = b"own %d" % self.random.getrandbits(40)
                asked.append((key, False))
                data += encode(["SET", key, value])
            else:
                if self.optin:
                    data += encode(["CLIENT", "CACHING", "YES"])
                    asked.append((None, False))
                asked.append((key, True))
                data += encode(["GET", key])
        self.client.send(data)
        for key, is_read in asked:
            reply = self.take()
            if is_read:
                self.values[key] = reply
            else:
                self.values.pop(key, None)      # with NOLOOP no message says that it has changed

    def work_in_transaction(self):
        keys = self.random.choices(KEYS, k=self.random.randrange(1, 5))
        data = encode(["CLIENT", "CACHING", "YES"]) if self.optin else b""
        data += encode(["MULTI"]) + b"".join(encode(["GET", key]) for key in keys)
        if self.random.random() < 0.3:
            data += encode(["SET", self.random.choice(KEYS), b"own %d" % self.random.getrandbits(40)]) if not self.writes else b""
        self.client.send(data + encode(["EXEC"]))
        reply = OK
        while isinstance(reply, Status):
            reply = self.take()
        self.values.update(zip(keys, reply))

    def settle(self):
        """Takes all messages that are on their way."""
        for _ in range(3):
            self.client.send(encode(["PING", MARK]))
            while self.take() != MARK:
                pass
            time.sleep(0.02)


def changes(chance, number):
    """Commands that change something."""
    if chance.random() < 0.15:
        return [["MULTI"], one_change(chance, number), one_change(chance, number), ["EXEC"]]
    return [one_change(chance, number)]


def one_change(chance, number):
    key, other = chance.choice(KEYS), chance.choice(KEYS)
    value = b"%d-%d" % (number, chance.getrandbits(40))
    kind = chance.random()
    if kind < 0.45:
        return ["SET", key, value]
    if kind < 0.55:
        return ["APPEND", key, value[:3]]
    if kind < 0.65:
        return ["MSET", key, value, other, value]
    if kind < 0.70:
        return ["DEL", key, other]
    if kind < 0.76:
        return ["SET", key, value, "PX", "%d" % chance.randrange(1, 60)]
    if kind < 0.80:
        return ["RENAME", key, other]
    if kind < 0.82:
        return ["COPY", key, other, "REPLACE"]
    if kind < 0.823:
        return ["FLUSHDB"]
    return ["PERSIST", key]


class ClientCacheTest(ServerCase):
    options = {} if is_redis() else {"io-threads": "4"}
    modes = [[], [], ["OPTIN"], ["OPTOUT"], ["BCAST"], ["BCAST", "PREFIX", "key:"], ["NOLOOP"]]

    def run_for(self, seconds, chance):
        """Returns the caches, at rest."""
        caches = [Cache(self.server, options, chance.random()) for options in self.modes]
        stop, failures = threading.Event(), []

        def loop(step):
            try:
                while not stop.is_set():
                    step()
            except Exception as error:                  # shown by the test
                failures.append(repr(error))
                stop.set()

        def writer(number):
            mine = random.Random(chance.random())

            def step():
                client.pipeline([words for _ in range(mine.randrange(1, 6)) for words in changes(mine, number)])
                if not is_redis() and mine.random() < 0.3:
                    client.must("TIER", "DEMOTE", *mine.choices(KEYS, k=3))
            with self.server.client() as client:
                loop(step)
        def reader(cache):
            loop(lambda: cache.work_in_transaction() if cache.random.random() < 0.2 else cache.work())
        threads = [threading.Thread(target=reader, args=(cache,)) for cache in caches]
        threads += [threading.Thread(target=writer, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        stop.wait(seconds)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        return caches

    def check(self, caches):
        until(lambda: all(self.c.must("PTTL", key) < 0 for key in KEYS), what="the end of all times to live")
        values = {key: self.c.must("GET", key) for key in KEYS}
        values = {key: NULL if value is None else value for key, value in values.items()}
        for cache, options in zip(caches, self.modes):
            cache.settle()
            stale = {key: (value, values[key]) for key, value in cache.values.items() if value != values[key]}
            self.assertEqual(stale, {}, "cache and server differ in mode %r" % options)

    def test_no_cache_is_stale_at_rest(self):
        seed = seed_new()
        chance = random.Random(seed)
        for _ in range(scaled(10) if not is_sanitized() else 3):
            caches = self.run_for(1.0, chance)
            self.addCleanup(lambda caches=caches: [cache.client.close() for cache in caches])
            self.check(caches)
            self.assertGreater(min(cache.messages for cache in caches), 0)
            self.assertGreater(sum(cache.hits for cache in caches), 0)
            for cache in caches:
                cache.client.close()


if __name__ == "__main__":
    main()

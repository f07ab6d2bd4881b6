"""Keeps the keys of a server cold: demotes all keys of all databases again and again, and fills memory with keys of its own."""
import random
import threading

from support.resp import Error

DATABASES = 16
FILLER_DATABASE = 15
FILLER_KEYS, FILLER_SIZE = 12000, 4000      # more than maxmemory


class Chill(threading.Thread):
    def __init__(self, server, interval=0.01, in_cluster=False):
        """`in_cluster`: there is one database, which is the suite's, so that no key is added."""
        super().__init__(daemon=True)
        self.in_cluster = in_cluster
        self.server, self.interval, self.halt, self.demoted = server, interval, threading.Event(), 0
        self.random = random.Random(1)
        self.turn = threading.Lock()        # held while it works, and while it is paused

    def run(self):
        try:
            with self.server.client(timeout=120) as client:
                client.call("CLIENT", "NO-EVICT", "ON")
                while not self.halt.wait(self.interval):
                    with self.turn:
                        self.work(client)
        except OSError:
            pass        # the server crashed or was shut down: the driver sees that

    def work(self, client):
        for database in range(1 if self.in_cluster else DATABASES - 1):
            if self.halt.is_set():
                return
            self.demote(client, database)
        if not self.in_cluster:
            self.fill(client)

    def pause(self):
        self.turn.acquire()

    def resume(self):
        self.turn.release()

    def demote(self, client, database):
        client.call("SELECT", database)
        cursor = b"0"
        while True:
            reply = client.call("SCAN", cursor, "COUNT", 1000)
            if isinstance(reply, Error):
                return
            cursor, keys = reply
            if keys:
                demoted = client.call("TIER", "DEMOTE", *keys)
                self.demoted += demoted if isinstance(demoted, int) else 0
            if cursor == b"0" or self.halt.is_set():
                return

    def fill(self, client):
        """A suite may have flushed everything, so this goes on."""
        client.call("SELECT", FILLER_DATABASE)
        client.pipeline([[b"SET", b"filler:%d" % self.random.randrange(FILLER_KEYS), b"x" * FILLER_SIZE] for _ in range(50)])

    def stop(self):
        self.halt.set()
        self.join(150)

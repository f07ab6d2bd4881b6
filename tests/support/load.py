"""The load of the crash tests: checked writers on several connections and databases, libraries of functions, and consecutive checkpoints."""
import random
import threading

from .librarian import Librarian
from .writers import Data, Writer, settle

DATABASES = ((0,), (0,), (0,), (3, 4, 5))       # one writer each; no other uses the databases of the last, which flushes and swaps them


class Load:
    """Consecutive lives of a server: `start`, `end`, and `settle` after the restart. `models` is the data that it must have then."""

    def __init__(self, seed, **writing):
        self.seed, self.writing = seed, {"keys": 30, "demote": True, "pause": 0.01, **writing}
        self.librarian = None
        self.models, self.life, self.writers, self.rewriter = [Data() for _ in DATABASES], 0, [], None
        self.acknowledged = self.beyond = self.refused = 0
        self.stop = threading.Event()

    def start(self, server, checkpoints=True):
        self.life += 1
        self.stop.clear()
        self.writers = [Writer(server.address, number, "%s/%d" % (self.seed, self.life), self.models[number], databases=databases,
                               **self.writing) for number, databases in enumerate(DATABASES)]
        self.librarian = Librarian(server.address, "%s/%d" % (self.seed, self.life), self.librarian.state if self.librarian else {},
                                   tolerated=self.writing.get("tolerated", ()))
        self.rewriter = threading.Thread(target=self.rewrite if checkpoints else int, args=(server,) if checkpoints else (), daemon=True)
        for thread in self.writers + [self.librarian, self.rewriter]:
            thread.start()

    def rewrite(self, server):
        chance = random.Random(self.seed)
        try:
            with server.client(timeout=60) as client:
                while not self.stop.wait(chance.uniform(0.01, 0.15)):
                    client.call("BGREWRITEAOF")
        except OSError:
            pass

    def wrong(self):
        return next((writer.wrong for writer in self.writers + [self.librarian] if writer.wrong), None)

    def end(self):
        """Call it when the server was killed, or to stop the writers. Raises if a writer found wrong data."""
        self.stop.set()
        for writer in self.writers + [self.librarian]:
            writer.stop.set()
        for thread in self.writers + [self.librarian, self.rewriter]:
            thread.join(60)
            if thread.is_alive():
                raise AssertionError("a client is still waiting for a reply")
        if self.wrong():
            raise AssertionError(self.wrong())
        self.refused += sum(writer.refused for writer in self.writers)

    def settle(self, server):
        with server.client(timeout=60) as client:
            self.models, acknowledged, beyond = settle(self.writers, client)
            self.librarian.settle(client)
        self.acknowledged += acknowledged
        self.beyond += beyond
        for writer, model in zip(self.writers, self.models):        # a second check requires exactly this state
            writer.model, writer.commands, writer.acknowledged, writer.moments = model, [], 0, []

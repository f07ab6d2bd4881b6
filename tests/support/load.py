"""The load of the crash tests: witnesses on several connections and databases, and checkpoints one after the other."""
import random
import threading

from .witness import Data, Writer, settle

DATABASES = ((0,), (0,), (0,), (3, 4, 5))       # a writer each; the last has its databases for itself, to flush and swap them


class Load:
    """One life of a server after the other: `start`, `end`, and `settle` once it is back. `models` is what it must have then."""

    def __init__(self, seed, **writing):
        self.seed, self.writing = seed, {"keys": 30, "demote": True, "pause": 0.01, **writing}
        self.models, self.life, self.writers, self.rewriter = [Data() for _ in DATABASES], 0, [], None
        self.acknowledged = self.beyond = self.refused = 0
        self.stop = threading.Event()

    def start(self, server, checkpoints=True):
        self.life += 1
        self.stop.clear()
        self.writers = [Writer(server.address, number, "%s/%d" % (self.seed, self.life), self.models[number], databases=databases,
                               **self.writing) for number, databases in enumerate(DATABASES)]
        self.rewriter = threading.Thread(target=self.rewrite if checkpoints else int, args=(server,) if checkpoints else (), daemon=True)
        for thread in self.writers + [self.rewriter]:
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
        return next((writer.wrong for writer in self.writers if writer.wrong), None)

    def end(self):
        """The server is dead, or the writers are to stop. Raises when one saw what it should not."""
        self.stop.set()
        for writer in self.writers:
            writer.stop.set()
        for thread in self.writers + [self.rewriter]:
            thread.join(60)
            if thread.is_alive():
                raise AssertionError("a client waits for an answer that does not come")
        if self.wrong():
            raise AssertionError(self.wrong())
        self.refused += sum(writer.refused for writer in self.writers)

    def settle(self, server):
        with server.client(timeout=60) as client:
            self.models, acknowledged, beyond = settle(self.writers, client)
        self.acknowledged += acknowledged
        self.beyond += beyond
        for writer, model in zip(self.writers, self.models):        # a second look asks for exactly this
            writer.model, writer.commands, writer.acknowledged, writer.moments = model, [], 0, []

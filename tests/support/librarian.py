"""A client that loads, replaces and deletes libraries of functions while a server is killed, and the check of what is there afterwards."""
import random
import threading

from .resp import Client, Closed, Error

LIBRARIES = 6


def code_of(name, serial):
    return "#!lua name=%s\nredis.register_function('%s', function() return %d end)" % (name, name, serial)


class Librarian(threading.Thread):
    """Runs until the connection breaks or `stop` is set. FUNCTION LOAD is without REPLACE where the library does not exist, so that its replay
    fails if the library is there already. `state` is what was acknowledged: code by name; `pending` the state after the command that is under
    way, or None. Errors that begin with one of `tolerated` are refusals."""

    def __init__(self, address, seed, state, tolerated=()):
        super().__init__(daemon=True)
        self.address, self.random, self.state, self.pending = address, random.Random(seed), dict(state), None
        self.tolerated, self.wrong, self.serial, self.stop = tuple(tolerated), None, 0, threading.Event()

    def step(self, client):
        name, after = "l%d" % self.random.randrange(LIBRARIES), dict(self.state)
        self.serial += 1
        if name in after and self.random.random() < 0.5:
            args = ["FUNCTION", "DELETE", name]
            del after[name]
        else:
            args = ["FUNCTION", "LOAD"] + ["REPLACE"] * (name in after) + [code_of(name, self.serial)]
            after[name] = args[-1]
        self.pending = after
        reply = client.call(*args)
        if not isinstance(reply, Error):
            self.state = after
        elif not reply.startswith(self.tolerated or (b"\0",)):
            self.wrong = "%s: %r" % (args[:3], reply)
        self.pending = None

    def run(self):
        try:
            with Client(self.address, timeout=60) as client:
                while not self.stop.wait(self.random.uniform(0, 0.05)) and self.wrong is None:
                    self.step(client)
        except (Closed, OSError):
            pass

    def settle(self, client):
        """After the restart: returns what is there, which must be one of the two."""
        there = {each[1].decode(): each[-1].decode() for each in client.must("FUNCTION", "LIST", "WITHCODE")}
        if there != self.state and there != self.pending:
            raise AssertionError("libraries: there are %r, acknowledged were %r, on the way was %r" % (there, self.state, self.pending))
        self.state, self.pending = there, None
        return there

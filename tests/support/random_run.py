"""What all programs of tests/random have in common: a seed that is printed and repeats the run, and a length.

KELVIN_SEED   the seed; without it SEED or KELVIN_SEEDS decide, or a new one is drawn
SECONDS       the length; without it the program runs in its short form
"""
import os
import random
import subprocess
import time

from .server import seed_new

SHORT_S = 4


class Run:
    def __init__(self, name):
        self.seed = int(os.environ.get("KELVIN_SEED") or seed_new())
        self.seconds = float(os.environ.get("SECONDS") or SHORT_S)
        self.is_short = self.seconds < 30
        self.random = random.Random("%s/%d" % (name, self.seed))
        self.name = name
        print("%s: KELVIN_SEED=%d SECONDS=%g" % (name, self.seed, self.seconds), flush=True)
        self.restart()

    def restart(self, share=1.0):
        """The time begins now, after what had to be prepared; only this share of it."""
        self.end = time.monotonic() + self.seconds * share

    def goes_on(self):
        return time.monotonic() < self.end

    def report(self, text):
        print("%s: %s" % (self.name, text), flush=True)


def state_of(server, patience_s=5):
    """For the message of a failure: whether the server has ended, and what its log has. The report of a sanitizer takes a while."""
    try:
        code = server.process.wait(patience_s)
    except subprocess.TimeoutExpired:
        return "the server runs; its log ends with\n" + server.log_tail(1500)
    return "the server ended with %s:\n%s" % (code, server.alarm() or server.log_tail())

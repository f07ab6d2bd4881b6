"""Requests of which a chosen share is for keys in RAM, for Kelvin with more data than memory and for redis-server with all data in memory."""
import time

from . import machine
from .report import count, mb

RECORD_OVERHEAD = 40                # bytes in the store in addition to key and value, approximately
CALIBRATIONS = 4
NEAR = 0.7                          # percentage points of deviation from the target that are accepted


class Shares:
    """Parts derive from it. `redis` and `kelvin` are servers with the same keys; `hot_keys` is the size of the hot set."""

    def __init__(self, bench, part):
        self.bench, self.options, self.report, self.part = bench, bench.options, bench.report, part
        self.keys, self.size = self.options.tier_keys, self.options.value_size
        self.seed = 1000
        self.redis = self.kelvin = self.hot_keys = None
        self.data = {"keys": self.keys, "value_size": self.size, "clients": self.options.clients,
                     "pipeline": self.options.tier_pipeline, "duration_s": self.options.duration}
        self.report.data["parts"][part] = self.data

    def load_redis(self, head):
        """Loads redis-server; a third of its memory is Kelvin's maxmemory, unless the options say another."""
        self.report.progress("%s: loading redis" % self.part)
        self.bench.load(self.redis, self.keys, self.size)
        self.bench.settle(self.redis)
        info = self.bench.info(self.redis)
        self.data["redis"] = {"used_memory": info["used_memory"], "rss": machine.rss(self.redis.process.pid),
                              "version": info["redis_version"]}
        self.maxmemory = self.options.maxmemory or info["used_memory"] // 3
        self.data["maxmemory"] = self.maxmemory
        self.report.note(head)
        self.report.note("%s keys of 16 bytes, values of %d: redis-server %s needs %s MB (used_memory; RSS %s MB). Kelvin gets "
                         "`maxmemory` %s MB.\n" % (count(self.keys), self.size, info["redis_version"], mb(info["used_memory"]),
                                                   mb(self.data["redis"]["rss"]), mb(self.maxmemory)))

    def request(self, test, *arguments, server=None, timeout=None):
        return self.bench.run(server or self.kelvin, "-t", test, "-r", self.keys, "-d", self.size, *arguments, timeout=timeout)

    def tiering(self):
        info = self.bench.info(self.kelvin)
        return {name: info[name] for name in info
                if name.startswith("tier_") or name in ("used_memory", "used_memory_rss", "evicted_keys")}

    def asked(self, server, test, percent, seconds, seed=None):
        """Returns (report of the test, percentage of its requests whose key was in RAM). A SET of a key that is not in RAM counts as a
        blind write. Repeated requests would all be hits, so each run has a different seed."""
        self.seed += 1
        before = self.tiering() if server is self.kelvin else None
        found = self.request(test, "--hot-percent", "%.3f" % percent, "--hot-keys", self.hot_keys, "--duration", seconds, "-P",
                             self.options.tier_pipeline, "--seed", seed or self.seed, server=server)
        if before is None:
            return found, 100.0
        after = self.tiering()
        hot, cold, blind = (after[name] - before[name] for name in ("tier_hot_hits", "tier_cold_hits", "tier_blind_writes"))
        return found, 100.0 * hot / max(1, hot + cold + blind)

    def warm(self):
        """Reads until the hot keys are in RAM: a key that is requested only once while it is there is demoted first."""
        deadline = time.monotonic() + max(10, 20 * self.options.duration)
        share = 0.0
        while share < 99.95 and time.monotonic() < deadline:
            _, share = self.asked(self.kelvin, "get", 100, self.options.duration / 2)
        self.report.check("a hot set of a quarter of the keys that fit is in RAM within %g s" % max(
            10, 20 * self.options.duration), share >= 99.5, "%.2f %% of it" % share, judged=not self.options.quick)

    def calibrate(self, test, aim):
        """Returns the --hot-percent for which the keys of `aim` percent of requests are in RAM. Some keys outside the hot set are in RAM
        as well: share = asked + (100 - asked) * by_chance, where by_chance is computed from each try."""
        if self.options.ask:
            self.asked(self.kelvin, test, aim, self.options.duration / 2)
            return aim
        asked, by_chance = aim, None
        for _ in range(CALIBRATIONS):
            if by_chance is not None:
                asked = max(0.0, min(100.0, 100 * (aim / 100 - by_chance) / (1 - by_chance)))
            _, share = self.asked(self.kelvin, test, asked, self.options.duration / 2)
            if abs(share - aim) < NEAR or asked >= 100:
                break
            by_chance = max(0.0, min(0.99, (share - asked) / (100 - asked)))
        return asked

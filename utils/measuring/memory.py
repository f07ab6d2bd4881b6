"""The memory of a key when it is hot and when it is cold, and the memory that a swap-out returns to the system."""
import time

from . import machine
from .bench import KEY_SIZE, Failed
from .report import count, mb

SIZES = (16, 200)
COLD_RECORD_OVERHEAD = 40


class Memory:
    def __init__(self, bench):
        self.bench, self.options, self.report = bench, bench.options, bench.report
        self.data = {}

    def measure(self):
        self.report.data["parts"]["memory"] = self.data
        self.report.note("## Memory\n")
        self.hot()
        self.cold()
        self.swap_out()

    def look(self, server, settle=True):
        """Returns RSS and INFO after the background work is done."""
        if settle and self.bench.settle(server) is None:
            raise Failed("%s still has background work" % server.name)
        info = self.bench.info(server)
        return {"rss": machine.rss(server.process.pid), "used": info["used_memory"],
                **{name: value for name, value in info.items() if name.startswith("tier_")}}

    def begin(self, server):
        """An idle server that has had its connections before, so that their memory is not attributed to the keys."""
        self.bench.run(server, "-t", "ping", "-P", 32, "-n", 100000)
        return self.look(server)

    # Hot

    def hot(self):
        keys = self.options.memory_keys
        machine.memory_check(keys * (max(SIZES) + 200))
        rows, self.data["hot"] = [], []
        for size in SIZES:
            for name in ("kelvin", "redis"):
                self.report.progress("memory: hot keys, %d byte values, %s" % (size, name))
                with self.bench.server(name) as server:
                    before = self.begin(server)
                    self.bench.load(server, keys, size)
                    after = self.look(server)
                rss, used = ((after[what] - before[what]) / keys for what in ("rss", "used"))
                self.data["hot"].append({"server": name, "keys": keys, "value_size": size, "rss_per_key": rss, "used_per_key": used,
                                         "before": before, "after": after})
                rows.append(["16 + %d" % size, name, "%.1f" % rss, "%.1f" % (rss - KEY_SIZE - size), "%.1f" % used,
                             "%.1f" % (used - KEY_SIZE - size)])
        self.report.note("A hot key: growth by loading %s keys into an empty server, divided by their number; *over* is the part "
                         "in addition to key and value.\n" % count(keys))
        self.report.table(["key + value", "server", "RSS B/key", "over", "used_memory B/key", "over"], rows)

    # Cold

    def cold(self):
        keys = self.options.cold_keys // 2 * 2
        rows, self.data["cold"] = [], []
        for size in SIZES:
            machine.disk_check(self.options.dir, 3 * keys * (size + KEY_SIZE + COLD_RECORD_OVERHEAD) + (256 << 20))
            rows += self.cold_of(keys, size)
        self.report.note("A cold key: %s keys are loaded in two halves under a small maxmemory; after each, maxmemory is lowered "
                         "until nearly all are cold and no key is moved. *rest* = RSS - RSS of the empty server with the same options - "
                         "memory of the hot keys (INFO tier_held_bytes: entries and tables). *B/key* = rest / cold keys; *B/key "
                         "more* = growth of the rest / growth of the cold keys from the first half to the second, without memory "
                         "that does not depend on their number (the store's write buffer). In redis-server each of them takes the same "
                         "memory as a hot key, above.\n" % count(keys))
        self.report.table(["key + value", "cold keys", "hot keys", "RSS MB", "rest MB", "B/key", "B/key more", "record map B/key",
                           "store MB in RAM"], rows)

    def cold_of(self, keys, size):
        # The record map, the store's buffers, and some space for entries that are being moved.
        maxmemory = (64 << 20) + 16 * keys
        points, rows = [], []
        with self.bench.server("kelvin", {"maxmemory": maxmemory}) as server:
            empty = self.begin(server)
            for half in (0, 1):
                self.report.progress("memory: cold keys, %d byte values, half %d" % (size, half + 1))
                self.set_maxmemory(server, maxmemory)
                self.bench.load(server, keys // 2, size, "--key-prefix", "kc%d:" % half)
                points.append(self.squeeze(server, empty))
            with server.client(timeout=120) as client:
                found = client.must("DBSIZE")
            self.report.check("DBSIZE is exact with %s keys of 16 + %d bytes, nearly all cold" % (count(keys), size), found == keys,
                              count(found))
        slope = (points[1]["rest"] - points[0]["rest"]) / max(1, points[1]["tier_cold_keys"] - points[0]["tier_cold_keys"])
        self.data["cold"].append({"value_size": size, "maxmemory": maxmemory, "empty": empty, "points": points,
                                  "rest_per_key_more": slope})
        for number, point in enumerate(points):
            cold = max(1, point["tier_cold_keys"])
            rows.append(["16 + %d" % size, count(cold), count(point["tier_hot_keys"]), mb(point["rss"]), mb(point["rest"]),
                         "%.1f" % (point["rest"] / cold), "%.1f" % slope if number else "",
                         "%.1f" % (point["tier_recordmap_bytes"] / cold), mb(point["tier_store_memory"])])
        return rows

    def set_maxmemory(self, server, size):
        with server.client() as client:
            client.must("CONFIG", "SET", "maxmemory", int(size))

    def squeeze(self, server, empty):
        """Lowers maxmemory in steps until at most one key in a hundred is hot, or a further step moves no key."""
        now = self.look(server)
        for _ in range(12):
            keys = now["tier_hot_keys"] + now["tier_cold_keys"]
            if now["tier_hot_keys"] * 100 <= keys:
                break
            self.set_maxmemory(server, (now["used"] - 0.9 * now["tier_held_bytes"]) / 0.92)
            hot = now["tier_hot_keys"]
            now = self.look(server)
            if now["tier_hot_keys"] > 0.98 * hot:
                break
        now["rest"] = now["rss"] - empty["rss"] - now["tier_held_bytes"]
        return now

    # Swap-out

    def swap_out(self):
        keys, size = self.options.memory_keys, self.options.value_size
        machine.memory_check(keys * (size + 200))
        machine.disk_check(self.options.dir, 3 * keys * (size + KEY_SIZE + COLD_RECORD_OVERHEAD) + (256 << 20))
        self.report.progress("memory: swap-out")
        with self.bench.server("kelvin") as server:
            self.bench.load(server, keys, size)
            full = self.look(server)
            limit = full["used"] // 3
            started = time.monotonic()
            self.set_maxmemory(server, limit)
            below_s = self.wait_below(server, limit)
            at_once = self.look(server, settle=False)
            settle_s = self.bench.settle(server)
            settled = self.look(server)
            time.sleep(min(10, self.options.duration * 2))
            later = self.look(server)
            with server.client(timeout=120) as client:
                found = client.must("DBSIZE")
        moments = [("before", full), ("used_memory below it", at_once), ("at rest", settled), ("a little later", later)]
        self.data["swap_out"] = {"keys": keys, "value_size": size, "maxmemory": limit, "below_s": below_s, "settle_s": settle_s,
                                 "moments": dict(moments)}
        self.report.note("A swap-out: %s keys with values of %d bytes are loaded without a limit, then `CONFIG SET maxmemory` to a "
                         "third of used_memory (%s MB). used_memory was below it after %.1f s; the background work was done after %.1f s.\n" % (
                             count(keys), size, mb(limit), below_s - started, time.monotonic() - started))
        self.report.table(["moment", "RSS MB", "used_memory MB", "RSS / used_memory", "RSS / maxmemory", "hot keys", "cold keys"], [
            [name, mb(at["rss"]), mb(at["used"]), "%.2f" % (at["rss"] / at["used"]), "%.2f" % (at["rss"] / limit),
             count(at["tier_hot_keys"]), count(at["tier_cold_keys"])] for name, at in moments])
        self.report.check("DBSIZE is exact after the swap-out", found == keys, count(found))

    def wait_below(self, server, limit):
        for _ in range(3000):
            if self.bench.info(server)["used_memory"] <= limit:
                return time.monotonic()
            time.sleep(0.1)
        raise Failed("used_memory is not below maxmemory 300 s after CONFIG SET")


def measure(bench):
    Memory(bench).measure()

"""What a server uses while something runs."""
from . import machine

LOOKUPS = {"hot": "tier_hot_hits", "cold": "tier_cold_hits", "blind": "tier_blind_writes", "ring_reads": "tier_ring_reads",
           "ring_batches": "tier_ring_batches"}


class Account:
    """What a server used from its creation to `end`: bytes of /proc/PID/io, reads of the disk, CPU time of all threads; from INFO
    lookups of keys that were hot, cold, or overwritten blindly, and batches of reads by io_uring."""

    def __init__(self, bench, server):
        self.bench, self.server, self.pid = bench, server, server.process.pid
        self.tier = self.lookups()
        self.io, self.device, self.cpu = self.now()

    def now(self):
        return machine.io_counters(self.pid), machine.device_reads(self.server.folder), machine.cpu_seconds(self.pid)

    def lookups(self):
        if self.server.name != "kelvin":
            return dict.fromkeys(LOOKUPS, 0)
        info = self.bench.info(self.server)
        return {short: info.get(name, 0) for short, name in LOOKUPS.items()}

    def end(self):
        """Returns the differences. `reads` are those of the disk that this server caused: other programs' are taken out by their share of
        the bytes. None: unknown."""
        io, device, cpu = self.now()
        read = io["read_bytes"] - self.io["read_bytes"]
        found = {"read_bytes": read, "write_bytes": io["write_bytes"] - self.io["write_bytes"], "cpu_s": cpu - self.cpu, "reads": None}
        if device and self.device and device[1] > self.device[1]:
            ours = min(1.0, read / (device[1] - self.device[1]))
            found["reads"] = (device[0] - self.device[0]) * ours
        found.update({short: value - self.tier[short] for short, value in self.lookups().items()})
        return found


def per(value, number, form="%.2f"):
    return form % (value / number) if value is not None and number else "-"

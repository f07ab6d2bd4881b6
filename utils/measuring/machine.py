"""The description of the machine, and statistics of a process from /proc: memory, CPU time, bytes read and written; the page cache."""
import glob
import os
import platform
import re
import subprocess
import threading
import time

MB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")


class Unavailable(Exception):
    """This machine lacks the resources or permissions for a part."""


def read_text(path):
    with open(path) as file:
        return file.read()


def describe(root):
    """Returns a description of the machine for the report."""
    def line_of(command):
        try:
            return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=10).stdout.strip().split("\n")[0]
        except (OSError, subprocess.TimeoutExpired):
            return ""
    model = re.search(r"model name\s*:\s*(.*)", read_text("/proc/cpuinfo"))
    total = re.search(r"MemTotal:\s*(\d+)", read_text("/proc/meminfo"))
    return {"cpu": model.group(1) if model else platform.machine(), "cores": os.cpu_count(), "kernel": platform.release(),
            "memory_mb": int(total.group(1)) // 1024, "load_before": os.getloadavg()[0],
            "commit": line_of(["git", "rev-parse", "--short", "HEAD"]),
            "changed_files": bool(line_of(["git", "status", "--porcelain", "--untracked-files=no"]))}


def rss(pid):
    return int(read_text("/proc/%d/statm" % pid).split()[1]) * PAGE


def rss_peak(pid):
    """Returns the maximum RSS that the kernel recorded, so that short peaks are included."""
    return int(re.search(r"VmHWM:\s*(\d+)", read_text("/proc/%d/status" % pid)).group(1)) * 1024


def rss_peak_reset(pid):
    """Resets VmHWM to the current RSS. False if the kernel does not permit it."""
    try:
        with open("/proc/%d/clear_refs" % pid, "w") as file:
            file.write("5")
        return True
    except OSError:
        return False


def real_time(pid, names=None):
    """Gives the process, or its threads with these names, a real-time priority, so that other work on a busy machine has no influence."""
    for path in glob.glob("/proc/%d/task/*/comm" % pid):
        if names is None or names.fullmatch(read_text(path).strip()):
            os.sched_setscheduler(int(path.split("/")[-2]), os.SCHED_FIFO, os.sched_param(1))


def cpu_seconds(pid):
    """Returns the CPU time of all existing threads, in ns resolution; threads that have ended are not included."""
    total = 0
    for path in glob.glob("/proc/%d/task/*/schedstat" % pid):
        try:
            total += int(read_text(path).split()[0])
        except (OSError, IndexError):
            pass
    return total / 1e9


def cpu_seconds_ever(pid):
    """The same including threads that have ended, in ticks of 10 ms."""
    return sum(int(word) for word in read_text("/proc/%d/stat" % pid).rsplit(")", 1)[1].split()[11:13]) / os.sysconf("SC_CLK_TCK")


def io_counters(pid):
    """Returns the fields of /proc/PID/io: a process with all threads and the children that it has waited for. `write_bytes` are
    counted when a page becomes dirty, so a page that is changed twice before it is written to the disk counts once."""
    return {name: int(value) for name, value in re.findall(r"^(\w+): (\d+)", read_text("/proc/%d/io" % pid), re.M)}


def bytes_written(pid):
    return io_counters(pid)["write_bytes"]


def device_reads(folder):
    """Returns (reads, bytes read) of the block device that has the folder, by all programs; None if it is not on one."""
    device = os.stat(folder).st_dev
    try:
        fields = read_text("/sys/dev/block/%d:%d/stat" % (os.major(device), os.minor(device))).split()
    except OSError:
        return None
    return int(fields[0]), 512 * int(fields[2])


def disk_used(folder):
    """Returns the bytes that the files of a folder use on the disk; a file with several names counts once."""
    found = {}
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                stat = os.lstat(os.path.join(base, name))
            except OSError:
                continue
            found[stat.st_ino] = 512 * stat.st_blocks
    return sum(found.values())


def disk_free(folder):
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_frsize


def disk_check(folder, needed):
    if disk_free(folder) < needed:
        raise Unavailable("%s has %d MB free, about %d MB are needed: use another folder (--dir) or fewer keys" % (
            folder, disk_free(folder) // MB, needed // MB))


def memory_check(needed):
    available = int(re.search(r"MemAvailable:\s*(\d+)", read_text("/proc/meminfo")).group(1)) * 1024
    if available < needed:
        raise Unavailable("%d MB of memory are available, about %d MB are needed: use fewer keys" % (
            available // MB, needed // MB))


class Ticker:
    """Calls a function every `period` seconds in a separate thread, for the duration of the `with` block."""

    def __init__(self, period, function):
        self.period, self.function = period, function
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.ended.wait(self.period):
            try:
                self.function()
            except (OSError, IndexError):
                pass                            # the process or the file no longer exists

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


class Watch:
    """Samples a server's RSS every 0.2 s and keeps the maximum of each phase."""

    def __init__(self, pid):
        self.pid = pid
        self.phases = {}
        self.phase_now = None
        self.ticker = Ticker(0.2, self.sample)

    def sample(self):
        if self.phase_now is not None:
            phase = self.phases[self.phase_now]
            phase["rss_max"] = max(phase["rss_max"], rss(self.pid))
            phase["samples"] += 1

    def phase(self, name):
        """Begins a phase (None: ends one). The maximum that the kernel recorded includes peaks between two samples."""
        if self.phase_now is not None:
            self.sample()
            if self.phases[self.phase_now].pop("kernel_knows"):
                self.phases[self.phase_now]["rss_peak"] = rss_peak(self.pid)
        if name is not None:
            self.phases[name] = {"rss_max": 0, "samples": 0, "kernel_knows": rss_peak_reset(self.pid)}
        self.phase_now = name
        if name is not None:
            self.sample()

    def __enter__(self):
        self.ticker.__enter__()
        return self

    def __exit__(self, *_):
        self.ticker.__exit__()


def page_cache_drop(folder):
    """Drops the files of a folder from the page cache; pages that have not been written to the disk yet stay."""
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                fd = os.open(os.path.join(base, name), os.O_RDONLY)
            except OSError:
                continue
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)

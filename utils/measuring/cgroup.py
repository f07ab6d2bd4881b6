"""Memory cgroups, version 1 or 2: limit a server's memory including its page cache, so that reads of cold keys go to the disk."""
import os
import re
import tempfile
import time

from .machine import Unavailable, read_text

AUTO = "auto"
LIMITS = ((2, "memory.max"), (1, "memory.limit_in_bytes"))


def unescaped(path):
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), path)


def mounts_of(mountinfo):
    """Returns (version, mount point, root of the mount) of each hierarchy that can have memory cgroups, from /proc/self/mountinfo."""
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup" and "memory" in kind[2].split(","):
            found.append((1, unescaped(fields[4]), unescaped(fields[3])))
        elif kind[0] == "cgroup2":
            found.append((2, unescaped(fields[4]), unescaped(fields[3])))
    return found


def own_path(version, cgroups):
    """Returns the path of this process' cgroup in its hierarchy, from /proc/self/cgroup; None if it has none."""
    for line in cgroups.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" if version == 2 else "memory" in controllers.split(","):
            return path
    return None


def parents_of(mountinfo, cgroups):
    """Returns the folders in which a memory cgroup may be created, the best first: the root of the hierarchy, where no limit of the user's
    session disturbs, which needs root; then the cgroup of this process."""
    found = []
    for version, point, root in sorted(mounts_of(mountinfo)):
        found.append(point)
        own = own_path(version, cgroups)
        if own and own.startswith(root) and own != root:
            found.append(os.path.join(point, own[len(root):].strip("/")))
    return found


class Cgroup:
    """A memory cgroup that is created below `parent`, or with AUTO where this machine allows it. Raises Unavailable with the reasons.

    A program that is started with the words of `prefix` before its own is in the cgroup from its first page on."""

    def __init__(self, parent, limit):
        self.limit, self.enabled = limit, None
        parents = [parent] if parent != AUTO else parents_of(read_text("/proc/self/mountinfo"), read_text("/proc/self/cgroup"))
        refused = []
        for self.parent in parents:
            try:
                self.create()
                return
            except Unavailable as error:
                refused.append(str(error))
        raise Unavailable("; ".join(refused) or "no cgroup hierarchy is mounted")

    def create(self):
        self.enable()
        try:
            self.folder = tempfile.mkdtemp(prefix="kelvin-measure-", dir=self.parent)
        except OSError as error:
            self.disable()
            raise Unavailable("can't create a cgroup in %s: %s" % (self.parent, error.strerror))
        for self.version, name in LIMITS:
            if os.path.exists(os.path.join(self.folder, name)):
                break
        else:
            self.remove()
            raise Unavailable("%s has no memory controller" % self.parent)
        try:
            self.write(name, self.limit)
        except OSError as error:
            self.remove()
            raise Unavailable("can't set %s in %s: %s" % (name, self.parent, error.strerror))
        self.prefix = ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', os.path.join(self.folder, "cgroup.procs")]

    def enable(self):
        """Version 2 has the memory controller only in children of a cgroup that gives it to them. It is taken back at the end."""
        control = os.path.join(self.parent, "cgroup.subtree_control")
        try:
            if "memory" in read_text(control).split() or "memory" not in read_text(
                    os.path.join(self.parent, "cgroup.controllers")).split():
                return
            with open(control, "w") as file:
                file.write("+memory")
            self.enabled = control
        except OSError:
            pass                                # version 1, or not permitted: then the new cgroup has no controller

    def disable(self):
        if self.enabled:
            try:
                with open(self.enabled, "w") as file:
                    file.write("-memory")
            except OSError:
                pass                            # others use it by now
            self.enabled = None

    def write(self, name, value):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(str(value))

    def describe(self):
        return "memory cgroup (version %d, below %s) of %.1f MB" % (self.version, self.parent, self.limit / (1 << 20))

    def results(self):
        """Returns the maximum usage (including page cache and kernel memory), and the number of processes killed at the limit."""
        peak, events = (("memory.peak", "memory.events") if self.version == 2 else
                        ("memory.max_usage_in_bytes", "memory.oom_control"))
        found = {"version": self.version, "parent": self.parent, "limit": self.limit}
        try:
            found["peak"] = int(read_text(os.path.join(self.folder, peak)))
        except OSError:
            pass                                # memory.peak exists since Linux 5.19
        killed = re.search(r"^oom_kill (\d+)", read_text(os.path.join(self.folder, events)), re.M)
        found["killed"] = int(killed.group(1)) if killed else 0
        return found

    def remove(self):
        """Removes the cgroup. Its processes have ended, but the kernel may need some time to remove them from it."""
        for _ in range(50):
            try:
                os.rmdir(self.folder)
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise Unavailable("the cgroup %s could not be removed" % self.folder)
        self.disable()

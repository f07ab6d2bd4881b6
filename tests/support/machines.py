"""Several machines in one: network namespaces, each on a network of its own, and a router between them, in which the test runs.

    network = Network(["old", "new"])
    network.start()                     # the calling thread is in the router from now on, and so is what it starts
    Server(..., prefix=network.inside("old"))

It takes root's rights and iproute2: `why_not` says what is missing. The router can drop what goes from one machine to another, without an error for either.
"""
import ctypes
import os
import shutil
import subprocess
import threading

NEW_NETWORK = 0x40000000                # CLONE_NEWNET


def ip(*words):
    subprocess.run(["ip"] + list(words), check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)


def enter(path):
    """The calling thread, and what it starts, are in this network namespace from now on."""
    with open(path) as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), NEW_NETWORK) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def why_not():
    """Returns why there can be no namespaces here, or None."""
    if shutil.which("ip") is None:
        return "there is no ip (Debian: iproute2)"
    made = subprocess.run(["ip", "netns", "add", "kelvin-%d-try" % os.getpid()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
    if made.returncode != 0:
        return "network namespaces can't be made: " + made.stdout.decode().strip()
    ip("netns", "delete", "kelvin-%d-try" % os.getpid())
    return None


class Network:
    def __init__(self, roles):
        self.addresses = {role: "10.77.%d.2" % number for number, role in enumerate(roles, 1)}
        self.names = {role: "kelvin-%d-%s" % (os.getpid(), role) for role in ["router", *roles]}
        self.home_fd = os.open("/proc/self/task/%d/ns/net" % threading.get_native_id(), os.O_RDONLY)
        self.dropped = set()

    def start(self):
        for name in self.names.values():
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for role, address in self.addresses.items():
            router, link = address[:-1] + "1", "to-" + role
            ip("-n", self.names["router"], "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", self.names[role])
            ip("-n", self.names["router"], "address", "add", router + "/24", "dev", link)
            ip("-n", self.names["router"], "link", "set", link, "up")
            ip("-n", self.names[role], "address", "add", address + "/24", "dev", "eth0")
            ip("-n", self.names[role], "link", "set", "eth0", "up")
            ip("-n", self.names[role], "route", "add", "default", "via", router)
        enter("/run/netns/" + self.names["router"])
        with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
            file.write("1\n")

    def stop(self):
        enter("/proc/self/fd/%d" % self.home_fd)
        os.close(self.home_fd)
        for name in self.names.values():
            subprocess.run(["ip", "netns", "delete", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)

    def inside(self, role):
        """The words before a command that runs on this machine."""
        return ["ip", "netns", "exec", self.names[role]]

    def drop(self, *ways):
        """What the sources of each (sources, targets) send to the targets is lost; not the other direction. All at once."""
        pairs = {(source, target) for sources, targets in ways for source in sources for target in targets if source != target} - self.dropped
        self.change("add", pairs)
        self.dropped |= pairs

    def part(self, *groups):
        """Each group of machines reaches only itself."""
        self.drop(*((some, others) for some in groups for others in groups if some is not others))

    def heal(self):
        self.change("del", self.dropped)
        self.dropped = set()

    def change(self, what, pairs):
        lines = ["rule %s from %s to %s blackhole\n" % (what, self.addresses[source], self.addresses[target]) for source, target in sorted(pairs)]
        subprocess.run(["ip", "-n", self.names["router"], "-batch", "-"], input="".join(lines), text=True, check=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=20)


__all__ = ["Network", "why_not"]

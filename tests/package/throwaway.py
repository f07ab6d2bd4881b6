"""Throwaway root folders of this machine's Debian, for tests that install packages. They need root and debootstrap."""
import fcntl
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BASES = os.path.join(ROOT, "build", "package")
# Sends one line to the server and prints the first line of its reply; waits for the server's start.
SAY = r"""say() {
    for i in $(seq 300); do
        if (exec 3<>/dev/tcp/127.0.0.1/6379) 2>/dev/null; then break; fi
        sleep 0.1
    done
    exec 3<>/dev/tcp/127.0.0.1/6379
    printf '%s\r\n' "$*" >&3
    IFS= read -r -t 60 line <&3 || line=
    exec 3>&-
    printf '%s\n' "${line%$'\r'}"
}
"""

needs_root = unittest.skipUnless(os.geteuid() == 0 and shutil.which("debootstrap") and shutil.which("unshare"), "needs root, debootstrap and unshare")


def run(*command, folder=ROOT, environment=None):
    outcome = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                             env=dict(os.environ, MAKEFLAGS="", MAKELEVEL="0", LC_ALL="C", **(environment or {})))
    output = outcome.stdout.decode("utf-8", "replace")
    if outcome.returncode != 0:
        raise AssertionError("%s: status %d\n%s" % (" ".join(command), outcome.returncode, output))
    return output


def base(suite):
    """A minimal system that stays in build/package for the next run. The tests run side by side: the first one makes it, the others wait."""
    path = os.path.join(BASES, suite)
    os.makedirs(BASES, exist_ok=True)
    with open(path + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(path):
            shutil.rmtree(path + ".new", ignore_errors=True)
            run("debootstrap", "--variant=minbase", suite, path + ".new")
            os.rename(path + ".new", path)
    return path


def suite_of_this_machine():
    return run("sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME").strip()


class Root:
    """A copy of a minimal system. Commands run in it with a /proc of their own, and end with their last process."""
    def __init__(self, suite):
        self.path = tempfile.mkdtemp(prefix="kelvin-root-")
        run("cp", "-a", base(suite) + "/.", self.path)

    def run(self, script, is_alone=True, user=None, folder="/"):
        """With is_alone there is no network but a loopback device of its own; else the network of this machine."""
        enter = "%smount -t proc proc %s/proc && exec chroot %s%s %s bash -c \"$1\"" % (
            "ip link set lo up && " if is_alone else "", self.path, "--userspec=%s:%s " % (user, user) if user else "", self.path,
            "env --chdir=%s DEBIAN_FRONTEND=noninteractive PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" % folder)
        return run("unshare", "--mount", "--pid", "--fork", "--kill-child", *(["--net"] if is_alone else []), "sh", "-c", enter, "sh", "set -e\n" + script)

    def file(self, path):
        return self.path + path

    def remove(self):
        shutil.rmtree(self.path)

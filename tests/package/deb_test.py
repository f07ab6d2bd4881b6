#!/usr/bin/python3
"""The Debian package is installed, started by hand, upgraded over data, removed and purged in a throwaway root.

Not covered: systemd as process 1 (the service's start, stop and restart by the package's scripts).
"""
import os
import re
import shutil
import stat
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import throwaway

ROOT = throwaway.ROOT
SERVE = throwaway.SAY + """
setpriv --reuid=kelvin --regid=kelvin --clear-groups kelvin-server /etc/kelvin/kelvin.conf >/tmp/log 2>&1 &
server=$!
stop() { say SHUTDOWN >/dev/null; wait $server; }
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@throwaway.needs_root
class TestPackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        mode = os.path.basename(os.path.dirname(os.environ.get("KELVIN_SERVER") or "release/kelvin-server"))
        throwaway.run("make", "--no-print-directory", "MODE=" + mode, "deb")
        cls.package = os.path.join(ROOT, "build/kelvin.deb")
        cls.root = throwaway.Root(throwaway.suite_of_this_machine())
        cls.addClassCleanup(cls.root.remove)
        shutil.copy(cls.package, cls.root.file("/tmp/kelvin.deb"))
        cls.newer()

    @classmethod
    def newer(cls):
        """The same package as the next version, whose configuration has one more line."""
        folder = cls.root.file("/tmp/newer")
        throwaway.run("dpkg-deb", "-R", cls.package, folder)
        control = read(folder + "/DEBIAN/control")
        with open(folder + "/DEBIAN/control", "w", encoding="utf-8") as file:
            file.write(re.sub(r"(?m)^Version: .*$", "Version: 99.0", control))
        with open(folder + "/usr/share/kelvin/kelvin.conf", "a", encoding="utf-8") as file:
            file.write("# of 99.0\n")
        throwaway.run("dpkg-deb", "--root-owner-group", "-b", folder, cls.root.file("/tmp/newer.deb"))
        shutil.rmtree(folder)

    def owner_and_mode(self, path):
        status = os.stat(self.root.file(path))
        user = next(line.split(":")[0] for line in read(self.root.file("/etc/passwd")).split("\n") if line.split(":")[2:3] == [str(status.st_uid)])
        return user, stat.S_IMODE(status.st_mode)

    def test_from_installation_to_purge(self):
        root = self.root
        root.run("apt-get update -qq && apt-get install -y -qq --no-install-recommends /tmp/kelvin.deb", is_alone=False)
        for path, mode in [("/etc/kelvin", 0o750), ("/etc/kelvin/kelvin.conf", 0o640), ("/var/lib/kelvin", 0o750), ("/var/log/kelvin", 0o750)]:
            self.assertEqual(self.owner_and_mode(path), ("kelvin", mode), path)
        self.assertTrue(os.path.islink(root.file("/etc/systemd/system/multi-user.target.wants/kelvin.service")))
        self.assertEqual(os.listdir(root.file("/var/lib/kelvin")), [])

        said = root.run(SERVE + "say CONFIG SET appendonly yes; say SET greeting hello; say CONFIG SET maxmemory 200mb; say CONFIG REWRITE; stop")
        self.assertEqual(said.split(), ["+OK"] * 4)
        config = read(root.file("/etc/kelvin/kelvin.conf"))
        self.assertRegex(config, r"(?m)^appendonly yes$")
        self.assertRegex(config, r"(?m)^maxmemory 209715200$|^maxmemory 200mb$")

        root.run("dpkg -i /tmp/newer.deb")
        self.assertEqual(root.run("dpkg-query -W -f '${Version}' kelvin"), "99.0")
        self.assertEqual(read(root.file("/etc/kelvin/kelvin.conf")), config)
        self.assertIn("# of 99.0\n", read(root.file("/usr/share/kelvin/kelvin.conf")))
        self.assertEqual(root.run(SERVE + "say STRLEN greeting; stop").split(), [":5"])

        root.run("dpkg -r kelvin")
        self.assertFalse(os.path.exists(root.file("/usr/bin/kelvin-server")))
        self.assertEqual(read(root.file("/etc/kelvin/kelvin.conf")), config)
        said = root.run("dpkg -P kelvin")
        self.assertIn("the data in /var/lib/kelvin is kept", said)
        for path in ["/etc/kelvin", "/var/log/kelvin", "/etc/logrotate.d/kelvin", "/etc/systemd/system/multi-user.target.wants/kelvin.service",
                     "/usr/share/doc/kelvin"]:
            self.assertFalse(os.path.lexists(root.file(path)), path)

        root.run("dpkg -i /tmp/kelvin.deb")
        said = root.run("sed -i 's/^appendonly no$/appendonly yes/' /etc/kelvin/kelvin.conf\n" + SERVE + "say STRLEN greeting; stop")
        self.assertEqual(said.split(), [":5"])

    def test_the_same_build_gives_the_same_package(self):
        with open(self.package, "rb") as file:
            first = file.read()
        before = os.umask(0o077)
        self.addCleanup(os.umask, before)
        throwaway.run("make", "--no-print-directory", "deb", environment={"TZ": "Asia/Tokyo"})
        with open(self.package, "rb") as file:
            self.assertEqual(first, file.read())


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))

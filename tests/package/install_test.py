#!/usr/bin/python3
"""make install, uninstall and tarball into temporary folders; the unit, the manual pages and the completions that they install.

Parts whose tool is not there (systemd-analyze, systemd-tmpfiles, man, logrotate), or that need root, are skipped.
"""
import glob
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.dirname(os.environ.get("KELVIN_SERVER") or os.path.join(ROOT, "build/release/kelvin-server"))
PROGRAMS = ["kelvin-server", "kelvin-check", "kelvin-benchmark", "kelvin-simulate", "kelvin-top"]
# Tenths of what systemd-analyze calls exposure; 10 is "safe", 100 "unsafe".
EXPOSURE_MAX = 15


def run(*command, environment=None, folder=ROOT):
    outcome = subprocess.run(command, cwd=folder, env=dict(os.environ, **(environment or {})), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, check=False)
    return outcome.returncode, outcome.stdout.decode("utf-8", "replace")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(path, name), folder) for path, _, names in os.walk(folder) for name in names)


def needs(tool):
    return unittest.skipUnless(shutil.which(tool), "no " + tool)


class TestInstalled(unittest.TestCase):
    """One installation below a folder, with PREFIX=/usr."""
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="kelvin-install-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.environment = {"BUILD": BUILD, "DESTDIR": cls.folder, "PREFIX": "/usr", "SYSCONFDIR": "/etc"}
        code, output = run("utils/package/install", environment=cls.environment)
        if code != 0:
            raise RuntimeError(output)

    def path(self, path):
        return self.folder + path

    def test_programs_run_and_have_manuals_and_completions(self):
        for program in PROGRAMS:
            code, output = run(self.path("/usr/bin/" + program), "--help")
            self.assertEqual(code, 0, output)
            manual = read(self.path("/usr/share/man/man1/%s.1" % program)).replace("\\-", "-")
            completion = read(self.path("/usr/share/bash-completion/completions/" + program))
            for option in re.findall(r"(?m)^ +(?:-\w, )?(--[a-z][a-z-]+)", output):
                self.assertIn(option, manual)
                self.assertRegex(completion, r"\W%s\W" % option)

    def directives(self):
        """The names in the installed configuration, which tests/spec/config_test.py compares with CONFIG GET."""
        return set(re.findall(r"(?m)^#?([a-z][a-z0-9_-]+)(?= |$)", read(self.path("/usr/share/kelvin/kelvin.conf"))))

    def test_the_manual_has_every_directive(self):
        manual = re.findall(r"(?m)^\.B (.*)$", read(self.path("/usr/share/man/man5/kelvin.conf.5")).replace("\\-", "-"))
        self.assertEqual(set(manual), self.directives())
        self.assertEqual(len(manual), len(set(manual)))
        self.assertGreater(len(manual), 150)

    @needs("man")
    def test_manuals_are_without_mistakes(self):
        for page in glob.glob(self.path("/usr/share/man/*/*")):
            code, output = run("man", "--warnings=w", "-l", page, environment={"MANPAGER": "cat", "LC_ALL": "C.UTF-8"})
            self.assertEqual(code, 0, output)
            self.assertNotIn("warning:", output)

    def complete(self, *words):
        script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_${1//-/_}"; printf "%s\\n" "${COMPREPLY[@]}"'
        code, output = run("bash", "-c", script, "bash", self.path("/usr/share/bash-completion/completions/" + words[0]), *words)
        self.assertEqual(code, 0, output)
        return output.split()

    def test_completion_of_directives_and_their_values(self):
        self.assertEqual(self.complete("kelvin-server", "--maxmemory-p"), ["--maxmemory-policy"])
        self.assertEqual(self.complete("kelvin-server", "--appendfsync", "e"), ["everysec"])
        self.assertEqual(self.complete("kelvin-server", "--appendonly", ""), ["yes", "no"])
        self.assertEqual(self.complete("kelvin-server", "kel"), [])             # files, by bash itself
        self.assertEqual(self.complete("kelvin-check", "--repair", "--rev"), ["--revive-deleted"])

    def test_the_configuration_is_accepted_and_keeps_data_where_the_service_may_write(self):
        text = read(self.path("/usr/share/kelvin/kelvin.conf"))
        config = os.path.join(self.folder, "kelvin.conf")
        self.assertRegex(text, r"(?m)^dir /var/lib/kelvin$")
        with open(config, "w", encoding="utf-8") as file:
            file.write(text.replace("/var/lib/kelvin", self.folder))
        self.addCleanup(os.unlink, config)
        code, output = run(self.path("/usr/bin/kelvin-server"), "--check", config)
        self.assertEqual(code, 0, output)

    def unit(self):
        """The installed unit, with the path of the installed server."""
        text = read(self.path("/usr/lib/systemd/system/kelvin.service"))
        self.assertIn("ExecStart=/usr/bin/kelvin-server /etc/kelvin/kelvin.conf ", text)
        path = os.path.join(self.folder, "kelvin.service")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("ExecStart=/usr/bin/", "ExecStart=%s/usr/bin/" % self.folder))
        self.addCleanup(os.unlink, path)
        return path

    @needs("systemd-analyze")
    def test_the_unit_is_valid(self):
        code, output = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", self.unit())
        self.assertEqual((code, output), (0, ""))

    @needs("systemd-analyze")
    def test_the_unit_is_restricted(self):
        code, output = run("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=%d" % EXPOSURE_MAX, self.unit())
        self.assertEqual(code, 0, output)

    @needs("systemd-sysusers")
    @needs("systemd-tmpfiles")
    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_user_and_folders_are_created_and_a_configuration_is_kept(self):
        with tempfile.TemporaryDirectory(prefix="kelvin-root-") as root:
            shutil.copytree(self.folder, root, dirs_exist_ok=True)
            for command in ["systemd-sysusers", "systemd-tmpfiles --create"]:
                code, output = run(*command.split(), "--root=" + root, "kelvin.conf")
                self.assertEqual(code, 0, output)
            user = next(line.split(":") for line in read(root + "/etc/passwd").split("\n") if line.startswith("kelvin:"))
            self.assertRegex(user[6], "nologin$")
            for path, mode in [("/etc/kelvin", 0o750), ("/etc/kelvin/kelvin.conf", 0o640), ("/var/lib/kelvin", 0o750), ("/var/log/kelvin", 0o750)]:
                status = os.stat(root + path)
                self.assertEqual((status.st_uid, stat.S_IMODE(status.st_mode)), (int(user[2]), mode), path)
            self.assertEqual(read(root + "/etc/kelvin/kelvin.conf"), read(root + "/usr/share/kelvin/kelvin.conf"))
            with open(root + "/etc/kelvin/kelvin.conf", "w", encoding="utf-8") as file:
                file.write("port 7000\n")
            code, output = run("systemd-tmpfiles", "--create", "--root=" + root, "kelvin.conf")
            self.assertEqual((code, read(root + "/etc/kelvin/kelvin.conf")), (0, "port 7000\n"), output)

    @needs("logrotate")
    def test_the_log_is_rotated(self):
        config = os.path.join(self.folder, "logrotate.conf")
        log = os.path.join(self.folder, "kelvin.log")
        user = pwd.getpwuid(os.geteuid()).pw_name
        text = read(self.path("/etc/logrotate.d/kelvin")).replace("/var/log/kelvin/*.log", log)
        with open(config, "w", encoding="utf-8") as file:
            file.write(re.sub(r"kelvin kelvin$", "%s %s" % (user, user), text, flags=re.M))
        with open(log, "w", encoding="utf-8") as file:
            file.write("a line\n")
        os.chmod(self.folder, 0o755)
        code, output = run("logrotate", "--force", "--state", os.path.join(self.folder, "state"), config)
        self.assertEqual(code, 0, output)
        self.assertEqual(read(log + ".1"), "a line\n")
        for name in ["logrotate.conf", "kelvin.log", "kelvin.log.1", "state"]:
            os.unlink(os.path.join(self.folder, name))

    def test_uninstall_removes_all_that_install_has_put(self):
        with tempfile.TemporaryDirectory(prefix="kelvin-uninstall-") as root:
            shutil.copytree(self.folder, root, dirs_exist_ok=True)
            os.makedirs(root + "/etc/kelvin")
            for path in ["/etc/kelvin/kelvin.conf", "/usr/bin/another", "/usr/share/doc/another"]:
                with open(root + path, "w", encoding="utf-8") as file:
                    file.write("kept\n")
            code, output = run("utils/package/install", "--remove", environment=dict(self.environment, DESTDIR=root))
            self.assertEqual(code, 0, output)
            self.assertEqual(files_below(root), ["etc/kelvin/kelvin.conf", "usr/bin/another", "usr/share/doc/another"])
            self.assertFalse(os.path.exists(root + "/usr/share/kelvin") or os.path.exists(root + "/usr/share/doc/kelvin"))


class TestMake(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kelvin-make-")
        self.addCleanup(shutil.rmtree, self.folder)

    def make(self, *arguments, environment=None, folder=ROOT):
        clean = {"MAKEFLAGS": "", "MAKELEVEL": "0"}
        return run("make", "--no-print-directory", *arguments, environment=dict(clean, **(environment or {})), folder=folder)

    def tool(self, name, text):
        path = os.path.join(self.folder, "bin", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)

    def test_what_is_missing_is_named_and_not_installed(self):
        """Debian without a library, and another system without any header."""
        system = os.path.join(self.folder, "os-release")
        self.tool("apt-get", "echo apt-get was called; exit 1\n")
        self.tool("dpkg-query", '/usr/bin/dpkg-query "$@" | grep -v ^libuv1-dev\n')
        self.tool("cc", "exit 1\n")
        self.tool("c++", "exit 1\n")
        for name, said in [("ID=debian\nVERSION_ID=12\n", "not installed: libuv1-dev\n"),
                           ("ID=debian\nVERSION_ID=13\n", "not installed: libuv1-dev\n"),
                           ("ID=ubuntu\nVERSION_ID=24.04\n", "not installed: libuv1-dev\n"),
                           ("ID=fedora\nVERSION_ID=40\n", "This system is fedora-40; install what is missing:\n    libuv  (header uv.h;")]:
            with open(system, "w", encoding="utf-8") as file:
                file.write(name)
            environment = {"PATH": os.path.join(self.folder, "bin") + ":" + os.environ["PATH"], "KELVIN_OS_RELEASE": system}
            for targets in [["install", "DESTDIR=" + os.path.join(self.folder, "root")], ["deb"]]:
                code, output = self.make(*targets, environment=environment)
                self.assertNotEqual(code, 0)
                self.assertIn(said, output)
                self.assertNotIn("apt-get was called", output)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "root")))

    @needs("git")
    @unittest.skipUnless(os.path.exists(os.path.join(ROOT, ".git")), "no git repository")
    def test_the_tarball_has_the_same_bytes_wherever_it_is_made(self):
        made = []
        for name, mask, zone in [("one", 0o022, "UTC"), ("another", 0o077, "Asia/Tokyo")]:
            folder = os.path.join(self.folder, name)
            before = os.umask(mask)
            self.addCleanup(os.umask, before)
            code, output = run("git", "clone", "-q", "--no-hardlinks", "--shared", ROOT, folder)
            self.assertEqual(code, 0, output)
            code, output = self.make("tarball", environment={"TZ": zone}, folder=folder)
            self.assertEqual(code, 0, output)
            with open(glob.glob(folder + "/build/kelvin-*.tar.gz")[0], "rb") as file:
                made.append(file.read())
        self.assertEqual(made[0], made[1])
        _, listed = run("git", "ls-files")
        _, packed = run("tar", "tzf", glob.glob(self.folder + "/one/build/*.tar.gz")[0])
        names = sorted(re.sub(r"^kelvin-[^/]*/", "", name) for name in packed.split("\n") if name and not name.endswith("/"))
        self.assertEqual(names, sorted(listed.split()))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))

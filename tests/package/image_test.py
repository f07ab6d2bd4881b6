#!/usr/bin/python3
"""utils/docker/Dockerfile without Docker: each of its instructions is carried out in throwaway roots, as docker build would. Then the server runs
as its entry point and user say, and the health check is asked.

Not covered: Docker itself (layers, volumes, published ports), and the image debian:12-slim, in whose place is a minimal Debian 12.
"""
import json
import os
import re
import shlex
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import throwaway

ROOT = throwaway.ROOT
SUITES = {"debian:12-slim": "bookworm", "debian:13-slim": "trixie"}


class Stage:
    def __init__(self, image):
        self.root = throwaway.Root(SUITES[image])
        self.folder, self.user, self.entry, self.health, self.volumes, self.ports = "/", None, None, None, [], []


def carry_out(text):
    """Returns the stages of a Dockerfile by name, and the last one."""
    stages, stage = {}, None
    for line in re.sub(r"\\\n", " ", text).split("\n"):
        word, _, rest = line.strip().partition(" ")
        if word in ("", "#"):
            continue
        if word == "FROM":
            image, *name = rest.split()
            stage = Stage(image)
            stages[name[1] if name else ""] = stage
        elif word == "COPY":
            paths = rest.split()
            source = ROOT
            if paths[0].startswith("--from="):
                source = stages[paths.pop(0)[len("--from="):]].root.path
            copy(os.path.join(source, paths[0].lstrip("/")), stage.root.file(paths[1]))
        elif word == "RUN":
            stage.root.run(rest, is_alone=False, folder=stage.folder)
        elif word == "WORKDIR":
            stage.folder = rest
        elif word == "USER":
            stage.user = rest
        elif word == "VOLUME":
            stage.volumes.append(rest)
        elif word == "EXPOSE":
            stage.ports.append(int(rest))
        elif word == "ENTRYPOINT":
            stage.entry = json.loads(rest)
        elif word == "HEALTHCHECK":
            stage.health = json.loads(rest.split(" CMD ")[1])
        else:
            raise AssertionError("an instruction that this test does not know: " + line)
    return stages, stage


def copy(source, target):
    if os.path.samefile(source, ROOT):      # what git has, as Dockerfile.dockerignore says; files that are not committed yet, too
        os.makedirs(target)
        throwaway.run("bash", "-c", 'git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar -x -C "$1"', "bash", target)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(source, target)


@throwaway.needs_root
class TestImage(unittest.TestCase):
    def test_the_image_is_built_and_serves_as_its_user(self):
        with open(os.path.join(ROOT, "utils/docker/Dockerfile"), encoding="utf-8") as file:
            stages, image = carry_out(file.read())
        for stage in stages.values():
            self.addCleanup(stage.root.remove)
        root = image.root
        self.assertEqual((image.user, image.volumes, image.ports), ("kelvin", ["/var/lib/kelvin"], [6379]))
        self.assertFalse(os.path.exists(root.file("/tmp/kelvin.deb")) or os.path.exists(root.file("/usr/bin/gcc")))
        script = "%s\n! %s 2>/dev/null\n%s --maxmemory 100mb >/dev/null &\nsay SET greeting hello\n%s\nid -un\nsay SHUTDOWN\nwait $!\n" % (
            throwaway.SAY, shlex.join(image.health), shlex.join(image.entry), shlex.join(image.health))
        self.assertEqual(root.run(script, user=image.user, folder=image.folder).split(), ["+OK", "kelvin"])
        # Another container on the same volume.
        script = "%s\n%s >/dev/null &\nsay STRLEN greeting\nsay CONFIG SET requirepass secret\n%s\nsay AUTH secret\nkill $!\nwait $!" % (
            throwaway.SAY, shlex.join(image.entry), shlex.join(image.health))
        self.assertEqual(root.run(script, user=image.user, folder=image.folder).split(), [":5", "+OK", "+OK"])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))

"""kelvin-check of the build under test, or of the release build."""
import os
import subprocess

from .server import ROOT, under_test


def tool_path():
    path = os.path.join(os.path.dirname(under_test()), "kelvin-check")
    return path if os.path.exists(path) else os.path.join(ROOT, "build", "release", "kelvin-check")


def verify(path, *options):
    """Returns the exit status (0: no fault found) and the output."""
    done = subprocess.run([tool_path(), *options, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    return done.returncode, done.stdout.decode("utf-8", "replace")

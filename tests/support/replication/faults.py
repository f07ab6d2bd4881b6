"""Servers of a ReplicationCase whose disk fails, or whose clock jumps, when the test says so."""
import tempfile

from ..clock import WallClock
from ..disk import Disk


def folder_new():
    return tempfile.mkdtemp(prefix="kelvin-test-")


def with_shim(case, role, options, make, **more):
    folder = folder_new()
    shim = make(folder)
    case.addCleanup(shim.remove)            # cleanups run in reverse order: after the server has ended
    server = case.start(role, options, folder=folder, environment=shim.environment, **more)
    server.folder_is_ours = True
    return server, shim


def with_disk(case, role, options=None, **more):
    """(server, Disk)"""
    return with_shim(case, role, options, Disk, **more)


def with_clock(case, role, options=None):
    """(server, WallClock)"""
    return with_shim(case, role, options, WallClock)

"""The counterpart of clock_shim.c: a wall clock of a server that a test sets.

    clock = WallClock(folder)
    server = Server(options, folder=folder, environment=clock.environment)
    clock.jump(-3600 * 1000)
"""
import mmap
import os
import struct

from .disk import shim_path


class WallClock:
    """The file that controls the shim is next to `folder`, not in it."""

    def __init__(self, folder):
        self.path = folder + ".clock"
        with open(self.path, "wb") as file:
            file.write(bytes(16))
        with open(self.path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), 16)
        self.ahead_ms = 0
        self.environment = {"LD_PRELOAD": shim_path("clock_shim.so"), "KELVIN_CLOCK_OFFSET": self.path}

    def jump(self, ms):
        self.ahead_ms += ms
        struct.pack_into("<q", self.page, 0, self.ahead_ms)

    def stop_at(self, ms):
        """From now on the clock stands still, and only jump() moves it."""
        struct.pack_into("<q", self.page, 8, ms)

    def remove(self):
        self.page.close()
        os.remove(self.path)

"""utils/measure: where it makes a memory cgroup, and what it draws. The parts themselves are run by `make bench`."""
import os
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "utils")]

from measuring import cgroup, machine, timeline                                                     # noqa: E402

V1 = """24 1 0:22 / /proc rw - proc proc rw
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V2 = "31 23 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


class ParentTest(unittest.TestCase):
    def test_version_1_is_the_hierarchy_with_the_memory_controller(self):
        self.assertEqual(cgroup.parents_of(V1, "4:memory:/user/me\n7:blkio:/\n0::/x\n")[:2],
                         ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/user/me"])

    def test_version_2_is_the_root_and_then_the_own_cgroup(self):
        self.assertEqual(cgroup.parents_of(V2, "0::/user.slice/user-1000.slice\n"),
                         ["/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/user-1000.slice"])

    def test_a_process_in_the_root_has_no_other(self):
        self.assertEqual(cgroup.parents_of(V2, "0::/\n"), ["/sys/fs/cgroup"])

    def test_a_container_that_sees_a_part_of_the_hierarchy(self):
        part = "31 23 0:27 /box/7 /sys/fs/my\\040cgroup ro - cgroup cgroup rw,memory\n"
        self.assertEqual(cgroup.parents_of(part, "3:memory:/box/7/in\n"), ["/sys/fs/my cgroup", "/sys/fs/my cgroup/in"])

    def test_no_hierarchy(self):
        self.assertEqual(cgroup.parents_of("24 1 0:22 / /proc rw - proc proc rw\n", "0::/\n"), [])


class CgroupTest(unittest.TestCase):
    def test_a_folder_that_is_no_hierarchy_is_refused_and_left_as_it_was(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(machine.Unavailable, "has no memory controller"):
                cgroup.Cgroup(folder, 64 << 20)
            self.assertEqual(os.listdir(folder), [])

    def test_a_folder_that_does_not_exist(self):
        with self.assertRaisesRegex(machine.Unavailable, "can't create a cgroup in /nowhere"):
            cgroup.Cgroup("/nowhere", 64 << 20)

    def test_a_program_is_in_it_and_it_is_removed(self):
        try:
            made = cgroup.Cgroup(cgroup.AUTO, 64 << 20)
        except machine.Unavailable as error:
            self.skipTest(str(error))
        try:
            shown = subprocess.run(made.prefix + ["cat", "/proc/self/cgroup"], capture_output=True, text=True).stdout
            self.assertIn("/" + os.path.basename(made.folder), shown)
            self.assertEqual((made.results()["limit"], made.results()["killed"]), (64 << 20, 0))
        finally:
            made.remove()
        self.assertFalse(os.path.exists(made.folder))


class PlotTest(unittest.TestCase):
    def draw(self, rows):
        data = {"keys": 10, "value_size": 5, "clients": 50, "pipeline": 1, "maxmemory": 1 << 20, "rows": rows}
        return xml.dom.minidom.parseString(timeline.draw(data))

    def test_each_second_is_a_point_of_each_curve(self):
        rows = [{"sets": 1000 * n, "worst_ms": 10 ** n, "disk_bytes": n << 20} for n in range(4)]
        curves = self.draw(rows).getElementsByTagName("polyline")
        self.assertEqual([len(curve.getAttribute("points").split()) for curve in curves], [4, 4, 4])

    def test_nothing_was_written(self):
        self.assertEqual(len(self.draw([{"sets": 0, "worst_ms": 0, "disk_bytes": 0}]).getElementsByTagName("polyline")), 3)


if __name__ == "__main__":
    unittest.main()

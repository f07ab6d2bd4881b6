"""kelvin-simulate: policies on requests whose results can be counted by hand, and traces in both forms."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "build", "release", "kelvin-simulate")
sys.path.insert(0, os.path.join(ROOT, "tests"))
from support.case import main                                                                        # noqa: E402


def simulate(*options, status=0):
    done = subprocess.run([PROGRAM, *map(str, options)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def table(text):
    """The rows by the names of the columns."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n") if line.startswith("|")]
    return [dict(zip(lines[0], cells)) for cells in lines[2:]]


class SimulateTest(unittest.TestCase):
    def trace(self, lines):
        file = tempfile.NamedTemporaryFile("w", suffix=".txt")
        self.addCleanup(file.close)
        file.write("\n".join(lines) + "\n")
        file.flush()
        return file.name

    def test_a_loop_over_more_keys_than_fit(self):
        path = self.trace("key%d" % (i % 1000) for i in range(10000))
        row = table(simulate("--trace", path, "--hot", 500, "--windows", 1))[0]
        self.assertEqual(float(row["LRU"]), 0)
        self.assertAlmostEqual(float(row["Belady"]), 45, delta=1)      # 9 of 10 rounds, half of the keys
        self.assertEqual(row["static"], "-")
        for name in ("Redis LFU", "S3-FIFO", "SIEVE", "W-TinyLFU", "kelvin"):
            self.assertLessEqual(float(row[name]), float(row["Belady"]), name)

    def test_what_fits_is_hit_from_the_second_request_on(self):
        path = self.trace("k%d" % (i % 100) for i in range(1000))
        row = table(simulate("--trace", path, "--hot", 200, "--windows", 1))[0]
        for name in ("Belady", "LRU", "LFU", "Redis LFU", "S3-FIFO", "SIEVE", "W-TinyLFU", "kelvin"):
            self.assertAlmostEqual(float(row[name]), 90, delta=0.01, msg=name)

    def test_traces_with_sizes(self):
        """Small keys and large ones take turns; those of the mean size fit, so twice as many small ones do."""
        lines = ["time,id,size,next"] + ["%d, o%d ,%d,-1" % (i, i % 100, 10 if i % 100 < 50 else 1000) for i in range(2000)]
        text = simulate("--trace", self.trace(lines), "--hot", 101, "--windows", 1)
        self.assertIn("2000 requests of 100 keys", text)
        self.assertAlmostEqual(float(table(text)[0]["LRU"]), 95, delta=0.01)
        columns = ["o%d;x,%d" % (i % 100, 5) for i in range(2000)]
        self.assertIn("2000 requests of 100 keys", simulate("--trace", self.trace(columns), "--columns", "1,2", "--windows", 1))

    def test_predictions(self):
        rows = table(simulate("--keys", 100000, "--hot", 20000, "--window", 200000, "--windows", 2, "--workload", "zipf-0.99", "--predict"))
        self.assertEqual([row["size"] for row in rows], ["0.25", "0.5", "1", "2", "4"])
        for row in rows:
            self.assertLess(abs(float(row["difference"])), 6, row)

    def test_errors(self):
        self.assertIn("No such file", simulate("--trace", "/nowhere/at/all", status=1))
        self.assertIn("Invalid argument", simulate("--trace", self.trace([""]), status=1))
        for options in (["--workload", "nosuch"], ["--columns", "x"], ["--columns", "0"], ["--keys", 10], ["more"]):
            self.assertIn("Usage", simulate(*options, status=2))


if __name__ == "__main__":
    main()

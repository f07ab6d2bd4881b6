"""What the documents for users say, compared with the server: directives with their defaults, ranges and marks, fields of INFO, commands."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.resp import OK, Error                                                                  # noqa: E402
from support.server import ROOT, Server, port_free, read_text, under_test, until                                                  # noqa: E402

DOCUMENTS = ["README.md", "docs/operating.md", "docs/tuning.md", "docs/migrating.md", "docs/differences.md"]
UNITS = {"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
# Words in backticks with a hyphen or an underscore that are neither directives nor fields of INFO.
OTHER_WORDS = {
    # values of directives
    "allkeys-coldest", "volatile-coldest", "volatile-ttl",
    # programs, files, things of other programs
    "kelvin-check", "kelvin-server", "kelvin-benchmark", "kelvin-simulate", "kelvin-top", "redis-server", "redis-cli", "redis-check-rdb", "redis-check-aof",
    "redis-benchmark", "kelvin-id", "kelvin-stage", "failover-timeout",
    # events of LATENCY and classes of waits
    "cold-wait", "memory-wait", "owner-wait", "pause-wait", "job-wait", "fast-command",
    # fields of other replies: TIER BACKUP, CLIENT LIST, XINFO, HOTKEYS; values of fields
    "copied_bytes", "tot-mem", "argv-mem", "active-time", "total-net-bytes", "io_uring",
    # TIER ADVISE
    "measured_hit_ratio", "uses_per_second", "sampled_keys", "hit_ratio", "reads_per_second", "mean_usec", "p99_usec",
    # a directive of files only, one of Redis before 7, fields of INFO while a link is down or a full synchronization runs
    "rename-command", "lua-replicate-commands", "master_sync_read_bytes", "master_link_down_since_seconds",
    # states of CLUSTER MIGRATION
    "accumulate-buffer", "wait-stream-eof", "send-bulk-and-stream",
    # DEBUG; a value of repl-diskless-load
    "expiry_is_suspended", "on-empty-db",
}


def words_of(text):
    """Yields the texts in backticks, blocks left out, each with its line."""
    text = re.sub(r"(?ms)^```.*?^```$", lambda block: "\n" * block.group().count("\n"), text)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("    "):
            for found in re.finditer(r"`([^`]+)`", line):
                yield number, found.group(1)


def number_of(text):
    found = re.fullmatch(r"(\d+)(kb|mb|gb)?", text)
    return str(int(found.group(1)) * UNITS.get(found.group(2), 1)) if found else text


def table_of(text, heading):
    """The rows of the first table after a heading, without the two lines of its own heading; each a list of cells."""
    section = text[text.index("\n" + heading + "\n"):]
    lines = [line for line in section[:section.index("\n## ", 5) if "\n## " in section[5:] else None].split("\n") if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@kelvin_only
class DocumentsTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server({"save": None, "appendonly": None})
        cls.client = cls.server.client()
        reply = cls.client.must("CONFIG", "GET", "*")
        cls.config = {name.decode(): value.decode() for name, value in zip(reply[::2], reply[1::2])}
        cls.info = cls.server.info()
        with Server({"appendonly": "yes"}) as other, Server({"replicaof": ["127.0.0.1", other.port]}) as replica:
            until(lambda: "slave0" in other.info("replication") and replica.info("replication")["master_link_status"] == "up", 60, "a replica")
            cls.info.update(other.info())
            cls.info.update(replica.info())
        cls.operating = read_text(os.path.join(ROOT, "docs", "operating.md"))

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()

    def rows(self, heading, least):
        rows = table_of(self.operating, heading)
        self.assertGreater(len(rows), least, heading)
        return rows

    def test_the_fields_of_info_tiering(self):
        named = [name for row in self.rows("## INFO tiering", 40) for name in re.findall(r"`(\w+)`", row[0])]
        self.assertEqual(sorted(named), sorted(self.server.info("tiering")))

    def test_the_tables_of_options(self):
        rows = {row[0].strip("`"): row for row in self.rows("## Every tier option", 15) + self.rows("## Other options of Kelvin's own", 5)}
        for name, row in rows.items():
            with self.subTest(name=name):
                self.assertIn(name, self.config)
                default = "" if row[1] == "(empty)" else row[1].strip("`")
                self.assertEqual(self.config[name], number_of(default))
                reply = self.client.call("CONFIG", "SET", name, self.config[name])
                self.assertEqual("*at start*" in row[2], isinstance(reply, Error), reply)
                self.check_range(name, row[2])
        self.assertEqual([name for name in self.config if name.startswith(("tier-", "checkpoint-")) and name not in rows], [])

    def check_range(self, name, values):
        """`1 to 100`, `0 and up`, words in backticks."""
        reach = re.match(r"(\d+(?:kb|gb)?) (?:to (\d+(?:kb|gb)?)|and up)", values)
        accepted, refused = [], []
        if reach and "*at start*" not in values:
            low, high = int(number_of(reach.group(1))), reach.group(2) and int(number_of(reach.group(2)))
            accepted, refused = ([low, high], [low - 1, high + 1]) if high else ([low], [low - 1])
        elif values.startswith("`"):
            accepted, refused = re.findall(r"`(\w+)`", values), ["nosuch"]
        if name.endswith("-watermark"):
            accepted = []           # one must not be above the other
        for value in accepted:
            self.assertEqual(self.client.call("CONFIG", "SET", name, value), OK, value)
        for value in refused:
            self.assertIsInstance(self.client.call("CONFIG", "SET", name, value), Error, value)
        if accepted:
            self.assertEqual(self.client.call("CONFIG", "SET", name, self.config[name]), OK)

    def test_what_to_watch_is_there(self):
        for row in self.rows("## What to watch", 10) + self.rows("## Running replicas", 3):
            for name in re.findall(r"`([a-z0-9_]+)`", row[0]):
                self.assertTrue(name in self.info or name in self.config or name in OTHER_WORDS, name)

    def test_every_directive_and_field_that_is_named(self):
        """A word with a hyphen is a directive, one with an underscore is a field of INFO, unless OTHER_WORDS has it."""
        wrong = []
        for document in DOCUMENTS:
            for line, text in words_of(read_text(os.path.join(ROOT, document))):
                name, first = text.split(":")[0], text.split(" ")[0]
                if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", first) and first not in OTHER_WORDS and first not in self.config:
                    wrong.append("%s:%d: `%s`: no directive" % (document, line, text))
                elif re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+(:\w+)?", text) and name not in OTHER_WORDS and name not in self.info and name not in self.config:
                    wrong.append("%s:%d: `%s`: no field of INFO" % (document, line, text))
        self.assertEqual(wrong, [])

    def test_every_command_that_is_named(self):
        for document in DOCUMENTS:
            for line, text in words_of(read_text(os.path.join(ROOT, document))):
                words = text.split(" ")
                if not re.fullmatch(r"[A-Z]{3,}", words[0]):
                    continue
                info = self.client.must("COMMAND", "INFO", words[0])[0]
                if not info or len(words) == 1 or not re.fullmatch(r"[A-Z-]+", words[1]) or not info[9]:
                    continue
                known = [entry[0].decode().split("|")[1] for entry in info[9]]
                self.assertIn(words[1].lower(), known, "%s:%d: `%s`" % (document, line, text))

    def test_the_figures_of_the_readme_are_measured(self):
        """Each number of README's table is in docs/benchmarks.md, perhaps with more digits."""
        number = re.compile(r"\d[\d,]*\.?\d*")
        readme = read_text(os.path.join(ROOT, "README.md"))
        measured = [float(found.replace(",", "")) for found in number.findall(read_text(os.path.join(ROOT, "docs", "benchmarks.md")))]
        section = readme[readme.index("\n## Measured\n"):]
        rows = [line for line in section[:section.index("\n## ", 5)].split("\n") if line.startswith("|")][2:]
        self.assertGreater(len(rows), 5)
        for row in rows:
            for found in number.findall("|".join(row.strip("|").split("|")[1:])):
                digits = len(found.partition(".")[2])
                self.assertTrue(any("%.*f" % (digits, value) == found.replace(",", "") for value in measured), "%s of %s" % (found, row))

    def test_the_claim_of_the_readme(self):
        """The lines of README, with a hundredth of the keys: they run, all keys are found and verified, and most of them are cold."""
        benchmark = os.path.join(os.path.dirname(under_test()), "kelvin-benchmark")
        if not os.path.exists(benchmark):
            self.skipTest("there is no kelvin-benchmark in this build")
        readme = read_text(os.path.join(ROOT, "README.md"))
        lines = re.search(r"(?m)^1 GB in 100 MB, every byte verified.*:\n\n((?:    .*\n){5})", readme).group(1)
        with tempfile.TemporaryDirectory(prefix="kelvin-test-") as folder:
            for old, new in (("6400", str(port_free())), ("2000000", "20000"), ("100mb", "8mb"), ("$(mktemp -d)", folder),
                             ("kelvin.log", os.path.join(folder, "kelvin.log")), ("build/release/kelvin-server", under_test()),
                             ("build/release/kelvin-benchmark", benchmark),
                             ("'' --logfile", "'' --unixsocket %s/ready --logfile" % folder),
                             (" & sleep 1\n", " &\nuntil [ -e %s/ready ]; do sleep 0.01; done\n" % folder)):
                self.assertIn(old, lines)
                lines = lines.replace(old, new)
            done = subprocess.run(["bash", "-e", "-c", lines + "wait $!"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("20000 found, 0 missing", done.stdout)
        self.assertEqual(re.findall(r"verified +(\d+) wrong", done.stdout), ["0", "0"])
        self.assertGreater(int(re.search(r"tier_cold_keys:(\d+)", done.stdout).group(1)), 10000)
        self.assertRegex(done.stdout, r"VmHWM:\s+\d+ kB")


if __name__ == "__main__":
    main()

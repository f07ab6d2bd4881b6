"""The status page of metrics-port in a real browser: an idle, a loaded and a failing server, on a telephone and a desk, dark and light. The pictures are in
build/browser: look at them after a change of src/metrics/page.html."""
import errno
import json
import os
import random
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.browser import Browser, browser_path                                                   # noqa: E402
from support.case import main                                                                       # noqa: E402
from support.disk import FAIL, Disk                                                                 # noqa: E402
from support.openmetrics import get                                                                 # noqa: E402
from support.server import ROOT, Server, port_free, until                                           # noqa: E402

PICTURES = os.path.join(ROOT, "build", "browser")
SCREENS = [("desk-light", 1280, False), ("desk-dark", 1280, True), ("phone-light", 390, False), ("phone-dark", 390, True)]
HOSTILE = b"</td><script>document.title='taken'</script>\xff\n\xe2\x80\xae"


@unittest.skipUnless(browser_path(), "no Chromium: deps/install browser")
class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.makedirs(PICTURES, exist_ok=True)
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def serve(self, folder=None, environment=None, **options):
        server = Server({"metrics-port": port_free(), **{name.replace("_", "-"): value for name, value in options.items()}}, folder=folder, environment=environment)
        self.addCleanup(server.stop)
        return server, server.options["metrics-port"]

    def open(self, port, **options):
        page = self.browser.open("http://127.0.0.1:%d/" % port, **options)
        self.addCleanup(page.close)
        until(lambda: page.text("#tiles"), 20, "the page's numbers")
        return page

    def picture(self, port, name, also=""):
        """Takes pictures for all screens. The page is as wide as the screen on each of them, and `also`, a text, is on it."""
        for screen, width, dark in SCREENS:
            page = self.open(port, width=width, dark=dark)
            self.assertEqual(page.picture(os.path.join(PICTURES, "%s-%s.png" % (name, screen))), width, screen)
            self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), width, screen)
            background = [int(part) for part in re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))]
            self.assertEqual(max(background[:3]) < 128, dark, screen)
            self.assertIn(also, page.text())
            self.assertEqual(page.problems, [], screen)

    def test_an_idle_server(self):
        server, port = self.serve()
        page = self.open(port)
        self.assertEqual(page.text("#state"), "All is well: reads and writes are served.")
        self.assertIn("There is no limit (maxmemory 0): all keys are in RAM.", page.text("#memory"))
        self.assertIn("CONFIG SET maxmemory", page.text("#problems"))
        self.assertIn("No samples yet", page.text("#charts"))
        self.assertIn("redis-cli HOTKEYS START", page.text("#cards"))
        self.assertNotRegex(page.text(), r"NaN|undefined|null|Infinity|\[object")
        self.picture(port, "idle", "all keys are in RAM")
        # It asks again by itself.
        with server.client() as client:
            client.must("CONFIG", "SET", "maxmemory", "100mb")
            client.must("SET", "k", "v")
        until(lambda: "of 100 MB" in page.text("#tiles") and "0 of them on the disk" in page.text("#tiles"), 20)
        self.assertIn("is not known yet", page.text("#memory"))
        self.assertEqual(page.problems, [])

    def test_an_error_of_the_page_itself_is_reported_as_such(self):
        _, port = self.serve()
        page = self.open(port)
        page.evaluate("{ const good = showTiles; showTiles = () => { showTiles = good; throw new Error('broken'); }; }")
        until(lambda: page.text("#state") and page.problems, 20, "the error")
        self.assertIn("broken", page.problems[0])
        self.assertEqual(page.text("#state"), "All is well: reads and writes are served.")
        # It goes on asking.
        asked = page.evaluate("latest.server.time_ms")
        until(lambda: page.evaluate("latest.server.time_ms") > asked, 20, "the next numbers")

    def test_a_loaded_server_says_what_twice_the_memory_would_bring(self):
        """With three times its memory."""
        server, port = self.serve(maxmemory="20mb", appendonly="yes")
        chance, count = random.Random(1), 120000
        with server.client() as client:
            for start in range(0, count, 1000):
                client.pipeline([("SET", "key:%06d" % i, "v" * 450) for i in range(start, start + 1000)])
            client.must("HOTKEYS", "START", "METRICS", 1, "NET")
            client.must("SET", HOSTILE, "v" * 1000000)
            page = self.open(port)

            def has_advice():
                client.pipeline([("GET", "key:%06d" % int(count * chance.random() ** 3)) for _ in range(1000)])
                return page.evaluate("!!document.getElementById('advice') && document.querySelectorAll('#charts path').length >= 6")
            until(has_advice, 90, "advice and samples")
        # What is on the page is what TIER ADVISE says at that moment.
        words, status = page.evaluate("[document.getElementById('advice').innerText, latest]")
        half, today, double = [size for size in status["advice"]["sizes"] if size["factor"] in (0.5, 1, 2)]
        self.assertEqual((today["maxmemory"], double["maxmemory"]), (20 << 20, 40 << 20))
        self.assertGreater(double["hit_ratio"], today["hit_ratio"])
        found = re.fullmatch(r"With twice the memory \(40 MB\) ([\d.]+) % of the reads would be from RAM, today ([\d.]+) %\.", words.replace("\u202f", " "))
        self.assertIsNotNone(found, words)
        self.assertAlmostEqual(float(found.group(1)), double["hit_ratio"], delta=0.06)
        self.assertAlmostEqual(float(found.group(2)), today["hit_ratio"], delta=0.06)
        self.assertIn("With half of it (10 MB)", page.text("#memory"))
        rows = page.evaluate("[...document.querySelectorAll('#memory tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))")
        self.assertEqual([row[0].replace("\u202f", " ") for row in rows], ["5 MB (quarter)", "10 MB (half)", "20 MB (today)", "40 MB (double)", "80 MB (4 times)"])
        self.assertEqual(page.evaluate("document.querySelectorAll('#memory circle').length"), 5)
        # A name is text, whatever is in it.
        self.assertIn("</td><script>document.title='taken'</script>\\xff\\x0a", page.text("#cards"))
        self.assertNotIn("taken", page.evaluate("document.title"))
        self.assertEqual(page.evaluate("document.scripts.length"), 1)
        self.assertNotRegex(page.text(), r"NaN|undefined|null|Infinity|\[object")
        self.assertEqual(page.text("#state"), "All is well: reads and writes are served.")
        self.picture(port, "loaded", "With twice the memory")
        self.assertEqual(page.problems, [])

    def test_a_failing_server_says_what_to_do(self):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        disk = Disk(folder)
        server, port = self.serve(folder=folder, environment=disk.environment, maxmemory="50mb", appendonly="yes")
        server.folder_is_ours = True
        server.expect_crash = True                      # its log can't be written at the end
        with server.client() as client, server.client() as writer:
            client.pipeline([("SET", "k%d" % i, "v" * 100) for i in range(100)])
            client.must("TIER", "DEMOTE", *["k%d" % i for i in range(100)])
            page = self.open(port)
            disk.rule(0, "read", "store/*.seg", FAIL, error=errno.EIO)
            disk.rule(1, "write sync", "appendonlydir/*.incr.aof", FAIL, error=errno.EIO)
            writer.send(b"SET new 1\r\n")              # its reply waits for the log
            until(lambda: client.call("GET", "k1") is not None and "The log can't be written" in page.text("#problems") and "of the store have failed" in page.text("#problems"), 60,
                  "the problems")
            self.assertRegex(page.text("#state"), r"^(One problem|\d+ problems): not all requests are served\.$")
            self.assertIn("Look at the disk", page.text("#problems"))
            self.assertGreaterEqual(page.evaluate("document.querySelectorAll('.problem.error').length"), 1)
            self.assertRegex(page.evaluate("document.title"), r"^\(\d+\) Kelvin :%d$" % server.port)
            self.picture(port, "failing", "The log can't be written")
            self.assertEqual(page.problems, [])
            disk.rule(0, "read", "nowhere", FAIL)
            disk.rule(1, "write", "nowhere", FAIL)
            until(lambda: "The log can't be written" not in page.text("#problems"), 60, "the end of the problems")
        # A server that is gone.
        server.kill9()
        until(lambda: "The server does not reply" in page.text("#state"), 30)
        self.assertRegex(page.text("#state"), r"What follows is \d+ s old\.")
        self.assertIn("Keys by heat", page.text())
        page.picture(os.path.join(PICTURES, "gone-desk-light.png"))

    def test_users(self):
        server, port = self.serve()
        with server.client() as client:
            client.must("HOTKEYS", "START", "METRICS", 1, "CPU")
            client.must("SET", "secret-name", "v")
            client.must("ACL", "SETUSER", "watcher", "on", ">w", "+info")
            page = self.open(port, user=("watcher", "w"))
            self.assertIn("Names of keys are not shown here", page.text("#cards"))
            self.assertNotIn("secret-name", page.text())
            client.must("ACL", "SETUSER", "watcher", "+hotkeys|get", "~*")
            until(lambda: "secret-name" in page.text("#cards"), 20)
            client.must("ACL", "DELUSER", "watcher")
            self.assertEqual(get(port, "/", Host="evil.example")[0], 403)

    def test_a_server_that_loads(self):
        server, port = self.serve(appendonly="yes", appendfsync="no")
        with server.client() as client:
            client.pipeline([("SET", "k%d" % i, "v" * 100) for i in range(5000)])
        server.relaunch_slowly(3000, lambda: json.loads(get(port, "/status.json")[2])["progress"])
        page = self.open(port)
        until(lambda: re.search(r"Loading the data: [\d.]+ [KM]B of [\d.]+ KB, about \d+ s left", page.text("#progress")), 20, "the time left")
        self.assertIn("The data is being loaded.", page.text("#problems"))
        self.assertEqual(page.text("#state"), "The server loads its data, and serves requests after that.")
        page.picture(os.path.join(PICTURES, "loading-desk-light.png"))
        server.load_quickly()
        until(lambda: page.text("#progress") == "" and "All is well" in page.text("#state"), 20)
        self.assertEqual(page.problems, [])


if __name__ == "__main__":
    main()

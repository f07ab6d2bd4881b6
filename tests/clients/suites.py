"""The suites: what each takes from a package registry, how it is run, and how its results are read.

Versions are fixed: they are those of the time of Redis 7.2, whose clients test what that has. The registries are those that pip, npm, go
and mvn are set up for.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON_PACKAGES = ["redis==5.0.8", "rq==1.16.2", "celery==5.4.0", "kombu==5.4.0", "billiard==4.2.0", "vine==5.1.0", "huey==2.5.2", "pytest==8.3.3", "pytest-asyncio==0.23.8", "pytest-timeout==2.3.1", "mock", "psutil", "setuptools<80"]


TLS_PORT = 6380
CLUSTER_PORTS = range(16379, 16385)     # the usual ones of tests


def execute(command, cwd=None, limit_s=900, env=None, log=None, check=True):
    """Runs a command; its output goes to the file `log`, or into the error."""
    full = dict(os.environ, **(env or {}))
    done = subprocess.run(command, cwd=cwd, env=full, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit_s, check=False)
    if log:
        with open(log, "ab") as file:
            file.write(done.stdout)
    if check and done.returncode != 0:
        raise OSError("%s: %s" % (" ".join(command)[:100], done.stdout.decode("utf-8", "replace")[-400:]))
    return done


def once(path, make):
    """Calls make(path) unless that was done before."""
    mark = path + ".done"
    if not os.path.exists(mark):
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        make(path)
        with open(mark, "w"):
            pass
    return path


def python_of(work):
    def make(path):
        execute([sys.executable, "-m", "venv", path])
        execute([os.path.join(path, "bin", "pip"), "install", "-q"] + PYTHON_PACKAGES)
    return os.path.join(once(os.path.join(work, "venv"), make), "bin", "python")


def source_of(work, package, version):
    """Unpacks the source distribution of a Python package."""
    def make(path):
        execute([python_of(work), "-m", "pip", "download", "-q", "--no-deps", "--no-binary", package, "-d", path, "%s==%s" % (package, version)])
        archive, = glob.glob(os.path.join(path, "*.tar.gz"))
        with tarfile.open(archive) as file:
            file.extractall(path)
    path = once(os.path.join(work, package + "-source"), make)
    return next(each for each in glob.glob(os.path.join(path, "*")) if os.path.isdir(each))


def read_junit(path):
    found = {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = "%s::%s" % (case.get("classname", ""), case.get("name", ""))
        bad = [each for each in case if each.tag in ("failure", "error")]
        skipped = [each for each in case if each.tag == "skipped"]
        found[name] = ["failed", (bad[0].get("message") or bad[0].text or "")[:2000]] if bad else ["skipped" if skipped else "passed", ""]
    return found


class Pytest:
    """The tests in the source distribution of a Python package."""

    def __init__(self, name, package, version, arguments, limit_s=900, servers="one", folders=()):
        """`servers`: "cluster" for the six nodes of one, "mixed" for one of which every second node is a redis-server. `folders` that tests look for and the package lacks."""
        self.name, self.package, self.version, self.arguments, self.limit_s, self.options = name, package, version, arguments, limit_s, {}
        self.servers, self.folders = servers, folders

    def prepare(self, work):
        python_of(work)
        folder = source_of(work, self.package, self.version)
        for each in self.folders:
            os.makedirs(os.path.join(folder, each), exist_ok=True)
        return folder

    def run(self, folder, chill):
        bin_ = os.path.join(os.path.dirname(os.path.dirname(folder)), "venv", "bin")
        results = os.path.join(folder, "results.xml")
        if os.path.exists(results):
            os.unlink(results)
        done = execute([os.path.join(bin_, "python"), "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=native", "--timeout", "60", "--disable-warnings", "--junitxml", results] + self.arguments,
                       cwd=folder, limit_s=self.limit_s, env={"PATH": bin_ + os.pathsep + os.environ["PATH"]}, check=False)
        print(done.stdout.decode("utf-8", "replace"))
        return read_junit(results)


class Mocha:
    """The tests in an npm package, from when packages still had them."""

    def __init__(self, name, package, version, tools, files, limit_s=900, skip="", quiet=(), omit=()):
        """`quiet`: files whose tests use MONITOR, which would show the commands that keep keys cold. `omit`: files that test servers of their own."""
        self.name, self.package, self.version, self.tools, self.files, self.limit_s, self.skip, self.options = name, package, version, tools, files, limit_s, skip, {}
        self.quiet, self.omit = quiet, omit

    def prepare(self, work):
        def make(path):
            execute(["npm", "pack", "--silent", "%s@%s" % (self.package, self.version)], cwd=path)
            archive, = glob.glob(os.path.join(path, "*.tgz"))
            with tarfile.open(archive) as file:
                file.extractall(path)
            execute(["npm", "install", "--silent", "--ignore-scripts"] + self.tools, cwd=os.path.join(path, "package"))
        return os.path.join(once(os.path.join(work, self.name), make), "package")

    def run(self, folder, chill):
        found = {}
        with open(os.path.join(folder, "mocha.none"), "w") as file:
            file.write("--timeout 20000\n")
        for pattern in self.files:
            for path in sorted(glob.glob(os.path.join(folder, pattern))):
                if os.path.basename(path) in self.omit:
                    continue
                is_quiet = chill and os.path.basename(path) in self.quiet
                if is_quiet:
                    chill.pause()
                found.update(self.run_file(folder, path))
                if is_quiet:
                    chill.resume()
        return found

    def run_file(self, folder, path):
        """One process for each file, as some leave timers that never end."""
        name = os.path.relpath(path, folder)
        command = ["node", "node_modules/mocha/bin/_mocha", "--opts", "mocha.none", "--reporter", "json-stream"] + (["--grep", self.skip, "--invert"] if self.skip else []) + \
            [each for each in ("test/helpers/global.js",) if os.path.exists(os.path.join(folder, each))] + [path]
        try:
            text = execute(command, cwd=folder, limit_s=180, env={"NODE_ENV": "test"}, check=False).stdout.decode("utf-8", "replace")
        except subprocess.TimeoutExpired as error:
            text = (error.stdout or b"").decode("utf-8", "replace")
        print(name, text)
        found = {}
        for line in text.splitlines():
            match = re.match(r'^\["(pass|fail)",(\{.*\})\]$', line)
            if match:
                test = json.loads(match.group(2))
                found["%s: %s" % (name, test["fullTitle"])] = ["passed" if match.group(1) == "pass" else "failed", str(test.get("err", ""))]
        return found


class Go:
    """The tests in a Go module."""

    def __init__(self, name, module, version, packages, arguments=(), limit_s=900, run=None):
        self.name, self.module, self.version, self.packages, self.arguments, self.limit_s, self.only, self.options = name, module, version, packages, list(arguments), limit_s, run, {}

    def prepare(self, work):
        def make(path):
            execute(["go", "mod", "init", "kelvin/clients"], cwd=path)
            found = json.loads(execute(["go", "mod", "download", "-json", "%s@%s" % (self.module, self.version)], cwd=path).stdout)
            shutil.copytree(found["Dir"], os.path.join(path, "module"))
            execute(["chmod", "-R", "u+w", path])
            module = os.path.join(path, "module")
            execute(["go", "mod", "download"], cwd=module)
            for package in self.packages:       # the compiler needs no network later
                execute(["go", "test", "-mod=mod", "-count=1", "-run", "^$", package], cwd=module, check=False)
        return os.path.join(once(os.path.join(work, self.name), make), "module")

    def run(self, folder, chill):
        command = ["go", "test", "-mod=mod", "-count=1", "-p", "1", "-json", "-timeout", "%ds" % self.limit_s] + (["-run", self.only] if self.only else []) + self.packages + self.arguments
        text = execute(command, cwd=folder, limit_s=self.limit_s + 60, check=False, env={"GOFLAGS": "-mod=mod", "GOPROXY": "off"}).stdout.decode("utf-8", "replace")
        print(text)
        found, output = {}, {}
        for line in text.splitlines():
            if not line.startswith("{"):
                continue
            event = json.loads(line)
            name = "%s.%s" % (event.get("Package", "").rsplit("/", 1)[-1], event.get("Test"))
            if event.get("Test") and event["Action"] == "output":
                output[name] = output.get(name, "") + event["Output"]
            elif event.get("Test") and event["Action"] in ("pass", "fail", "skip"):
                found[name] = [{"pass": "passed", "fail": "failed", "skip": "skipped"}[event["Action"]], output.get(name, "")[:2000]]
        return found


class GoServers(Go):
    """The tests in a Go module that start clusters themselves. What starts as Sentinel is redis-server."""

    servers = "own"

    def run(self, folder, chill):
        program = os.path.join(folder, "testdata", "redis", "src", "redis-server")
        report = os.path.join(folder, "report.xml")
        for each in (program, report):
            if os.path.lexists(each):
                os.unlink(each)
        os.makedirs(os.path.dirname(program), exist_ok=True)
        with open(os.path.join(folder, "testdata", "redis", "redis.conf"), "w") as file:
            file.write("maxmemory 256mb\n")
        with open(program, "w") as file:
            file.write('#!/bin/sh\ncase "$*" in *--sentinel*) exec %s "$@" ;; esac\nexec %s "$@"\n' % (shutil.which("redis-server"), os.environ["KELVIN_SERVER"]))
        os.chmod(program, 0o755)
        os.environ["PATH"] = os.path.dirname(program) + os.pathsep + os.environ["PATH"]
        found = super().run(folder, chill)
        if os.path.exists(report):              # of Ginkgo, which is one test for Go
            found.update(read_junit(report))
        return found


class Workload:
    """A program in this folder that uses an application's library and prints `ok NAME` or `FAIL NAME: reason` for each check."""

    def __init__(self, name, prepare, command, limit_s=300, options=None, tls=False, servers="one"):
        """`tls`: the server listens on TLS_PORT, too, and the program finds the certificates in the folder KELVIN_TLS. `servers`: as for Pytest."""
        self.servers = servers
        self.name, self.prepare, self.command, self.limit_s, self.options, self.tls = name, prepare, command, limit_s, options or {}, tls

    def run(self, folder, chill):
        command, env, cwd = self.command(folder)
        try:
            text = execute(command, cwd=cwd, limit_s=self.limit_s, env=env, check=False).stdout.decode("utf-8", "replace")
        except subprocess.TimeoutExpired as error:
            text = (error.stdout or b"").decode("utf-8", "replace") + "\nFAIL (end): it did not end within %d s" % self.limit_s
        print(text)
        found = {}
        for line in text.splitlines():
            match = re.match(r"^(ok|FAIL) ([^:]+)(?:: (.*))?$", line)
            if match:
                found[match.group(2)] = ["passed" if match.group(1) == "ok" else "failed", match.group(3) or ""]
        if "ok (end)" not in text:
            found.setdefault("(end)", ["failed", text.strip()[-500:]])
        return found


def python_prepare(work):
    python_of(work)
    return work


def python_workload(name):
    return lambda folder: ([os.path.join(folder, "venv", "bin", "python"), os.path.join(HERE, name)],
                           {"PATH": os.path.join(folder, "venv", "bin") + os.pathsep + os.environ["PATH"], "PYTHONPATH": HERE}, folder)


def node_prepare(work):
    def make(path):
        for each in glob.glob(os.path.join(HERE, "node", "*")):
            shutil.copy(each, path)
        execute(["npm", "install", "--silent", "--ignore-scripts"], cwd=path)
    return once(os.path.join(work, "node"), make)


def node_workload(name):
    def command(folder):
        shutil.copy(os.path.join(HERE, "node", name), folder)
        return ["node", name], {}, folder
    return command


def java_prepare(work):
    def make(path):
        shutil.copytree(os.path.join(HERE, "java"), os.path.join(path, "project"))
        execute(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=target/libraries"], cwd=os.path.join(path, "project"))
    return os.path.join(once(os.path.join(work, "java"), make), "project")


def java_workload(name):
    return lambda folder: (["java", "-cp", "target/libraries/*", os.path.join(HERE, "java", "src", "main", "java", name + ".java")], {}, folder)


ALL = [
    Pytest("redis-py", "redis", "5.0.8", ["-o", "asyncio_mode=auto", "-m", "not redismod and not onlycluster and not ssl and not replica", "tests"] +
           [word for name in ("test_asyncio/test_cluster.py", "test_cluster.py", "test_ssl.py", "test_search.py", "test_asyncio/test_search.py") for word in ("--ignore", "tests/" + name)]),
    Pytest("redis-py-resp3", "redis", "5.0.8", ["-o", "asyncio_mode=auto", "-m", "not redismod and not onlycluster and not ssl and not replica", "--protocol", "3", "tests"] +
           [word for name in ("test_asyncio/test_cluster.py", "test_cluster.py", "test_ssl.py", "test_search.py", "test_asyncio/test_search.py") for word in ("--ignore", "tests/" + name)]),
    Pytest("redis-py-cluster", "redis", "5.0.8", ["-o", "asyncio_mode=auto", "-m", "not onlynoncluster and not redismod and not ssl", "--redis-url",
           "redis://127.0.0.1:%d/0" % CLUSTER_PORTS[0], "tests"] +
           [word for name in ("test_ssl.py", "test_search.py", "test_asyncio/test_search.py") for word in ("--ignore", "tests/" + name)],
           limit_s=1500, servers="cluster", folders=("dockers/stunnel/keys",)),
    Pytest("rq", "rq", "1.16.2", ["tests", "--deselect", "tests/test_sentry.py"]),
    Mocha("ioredis", "ioredis", "2.0.0", ["mocha@2.5.3"], ["test/functional/*.js"], skip="should close the connection when timeout", quiet=("monitor.js", "scripting.js"),
          omit=("cluster.js", "sentinel.js")),
    Mocha("bull", "bull", "3.0.0", ["mocha@3.5.3"], ["test/test_job.js", "test/test_queue.js", "test/test_repeat.js", "test/test_worker.js", "test/test_connection.js"], skip="connstring|should (create|define).*custom"),
    Go("asynq", "github.com/hibiken/asynq", "v0.24.1", [".", "./internal/rdb", "./internal/base"]),
    Go("redigo", "github.com/gomodule/redigo", "v1.8.9", ["./redis"]),
    GoServers("go-redis-cluster", "github.com/redis/go-redis/v9", "v9.5.3", ["."], ["-ginkgo.focus", "Cluster", "-ginkgo.junit-report", "report.xml"],
              run="^TestGinkgoSuite$"),
    GoServers("redisc", "github.com/mna/redisc", "v1.3.2", ["."], run="^Test(ClusterRedis|StandaloneRedis|Commands|RetryConn.*)$"),
    Workload("celery", python_prepare, python_workload("celery_work.py")),
    Workload("redis-py-secure", python_prepare, python_workload("secure_work.py"), tls=True),
    Workload("node-secure", node_prepare, node_workload("secure_work.js"), tls=True),
    Workload("bullmq", node_prepare, node_workload("bullmq_work.js")),
    Workload("node-redis", node_prepare, node_workload("node_redis_work.js")),
    Workload("node-cluster", node_prepare, node_workload("cluster_work.js"), servers="cluster"),
    Workload("jedis", java_prepare, java_workload("JedisWork")),
    Workload("java-cluster", java_prepare, java_workload("ClusterWork"), servers="cluster"),
    Workload("java-cluster-mixed", java_prepare, java_workload("ClusterWork"), servers="mixed"),
]


def named(name):
    return next(suite for suite in ALL if suite.name == name)

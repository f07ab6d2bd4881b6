"""Chromium without a window, by its own protocol over two pipes: no driver and no port.

    with Browser() as browser:
        page = browser.open("http://127.0.0.1:9121/", width=390, height=800, dark=True)
        page.text("#state"), page.problems          errors of scripts and requests so far
        page.picture("page.png")
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ["chromium", "chromium-browser", "google-chrome"]


def browser_path():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class BrowserError(Exception):
    pass


class Browser:
    def __init__(self, timeout=60):
        self.timeout, self.next_id, self.buffer, self.pages = timeout, 0, b"", {}
        self.folder = tempfile.mkdtemp(prefix="kelvin-browser-")
        from_us, self.to_browser = os.pipe()
        self.from_browser, to_us = os.pipe()
        # As root there is no sandbox. The protocol is read from descriptor 3 and written to 4.
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--disable-background-networking",
                   "--hide-scrollbars", "--user-data-dir=" + self.folder, "--remote-debugging-pipe", "about:blank"]
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(["/bin/bash", "-c", 'exec "$@" 3<&%d 4>&%d' % (from_us, to_us), "browser", browser_path()] + options, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, pass_fds=(from_us, to_us), start_new_session=True)
        os.close(from_us)
        os.close(to_us)

    def receive(self):
        deadline = time.monotonic() + self.timeout
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.from_browser], [], [], max(0, deadline - time.monotonic()))
            more = os.read(self.from_browser, 1 << 20) if ready else b""
            if not more:
                with open(os.path.join(self.folder, "log"), errors="replace") as log:
                    raise BrowserError("the browser does not reply:\n" + log.read()[-3000:])
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(message)
        if "method" in message and message.get("sessionId") in self.pages:
            self.pages[message["sessionId"]].note(message["method"], message["params"])
        return message

    def call(self, method, session=None, **params):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to_browser, data):]
        while True:
            reply = self.receive()
            if reply.get("id") == message["id"]:
                if "error" in reply:
                    raise BrowserError("%s: %s" % (method, reply["error"]))
                return reply["result"]

    def open(self, url, **options):
        return Page(self, url, **options)

    def close(self):
        os.close(self.to_browser)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.from_browser)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Page:
    def __init__(self, browser, url, width=1280, height=900, dark=False, user=None):
        self.browser, self.problems, self.user = browser, [], user
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        browser.pages[self.session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        if user is not None:
            self.call("Fetch.enable", handleAuthRequests=True)
        self.call("Page.navigate", url=url)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def send(self, method, **params):
        """Without waiting: from `note`, within a call."""
        browser = self.browser
        browser.next_id += 1
        os.write(browser.to_browser, json.dumps({"id": browser.next_id, "method": method, "params": params, "sessionId": self.session}).encode() + b"\0")

    def note(self, method, params):
        if method == "Runtime.exceptionThrown":
            self.problems.append(params["exceptionDetails"].get("exception", {}).get("description") or params["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(str([argument.get("value") for argument in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append("%s %s" % (params["entry"]["text"], params["entry"].get("url", "")))
        elif method == "Fetch.requestPaused":
            self.send("Fetch.continueRequest", requestId=params["requestId"])
        elif method == "Fetch.authRequired":
            self.send("Fetch.continueWithAuth", requestId=params["requestId"],
                      authChallengeResponse={"response": "ProvideCredentials", "username": self.user[0], "password": self.user[1]})

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError("%s: %s" % (expression, result["exceptionDetails"]))
        return result["result"].get("value")

    def text(self, selector="body"):
        """The text that is shown; None: there is no such element. Narrow and no-break spaces are plain ones."""
        found = self.evaluate("(document.querySelector(%s) || {}).innerText" % json.dumps(selector))
        return found.replace("\u202f", " ").replace("\u00a0", " ") if found is not None else None

    def picture(self, path):
        """Of the whole page, however long it is."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1})["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
        return size["width"]

    def close(self):
        self.browser.pages.pop(self.session, None)
        self.browser.call("Target.closeTarget", targetId=self.target)

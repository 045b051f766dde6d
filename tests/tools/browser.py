"""A headless Chromium, driven by its DevTools protocol over a pipe. No package is needed but Debian's chromium."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
         "--no-default-browser-check", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio", "--force-color-profile=srgb")
LIMIT_S = 300


def program():
    """The browser's path; None where there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with one page. `requests`, `failures` and `console` have what the page has asked for, what went wrong
    with that, and its errors and warnings, since the last `forget`."""

    def __init__(self, width=1280, height=900):
        self.folder = tempfile.mkdtemp(prefix="godwit-browser-")
        self.last, self.answers = 0, {}
        self.requests, self.failures, self.console, self.left = [], [], [], b""
        to_browser, from_us = os.pipe()
        from_browser, to_us = os.pipe()

        # The browser reads from descriptor 3 and writes to 4. The shell moves them there.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (to_browser, to_us)]
        move = f'exec "$@" 3<&{ends[0]} 4>&{ends[1]}'
        self.process = subprocess.Popen(
            ["bash", "-c", move, "bash", program(), *FLAGS, f"--user-data-dir={self.folder}",
             f"--window-size={width},{height}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=ends,
            start_new_session=True)
        for end in (to_browser, to_us, *ends):
            os.close(end)
        self.output, self.input = from_us, from_browser
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Performance"):
            self.call(domain + ".enable")
        self.resize(width, height)

    def close(self):
        os.close(self.output)
        os.close(self.input)
        os.killpg(self.process.pid, 9)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def forget(self):
        self.requests, self.failures, self.console = [], [], []

    # The protocol.

    def take(self, message):
        if "id" in message:
            self.answers[message["id"]] = message
            return
        method, values = message["method"], message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Network.loadingFailed" and not values.get("canceled"):
            self.failures.append(values["errorText"])
        elif method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.console.append(" ".join(str(one.get("value", one.get("description"))) for one in values["args"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.console.append(values["entry"]["text"])

    def read(self, end):
        """Reads messages until one has come."""
        while b"\0" not in self.left:
            ready = select.select([self.input], [], [], max(0, end - time.monotonic()))[0]
            if not ready:
                raise TimeoutError("the browser does not answer")
            got = os.read(self.input, 1 << 20)
            if not got:
                raise EOFError("the browser has ended")
            self.left += got
        *messages, self.left = self.left.split(b"\0")
        for message in messages:
            self.take(json.loads(message))

    def call(self, method, **values):
        self.last += 1
        message = {"id": self.last, "method": method, "params": values}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.output, data):]
        end = time.monotonic() + LIMIT_S
        while self.last not in self.answers:
            self.read(end)
        answer = self.answers.pop(self.last)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    # A page.

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.until(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    def run(self, script):
        """The value of an expression of JavaScript, or of the promise that it is."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", script))
        return answer["result"].get("value")

    def until(self, script, seconds=LIMIT_S):
        """Waits until an expression is true, also over a reload of the page; returns its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                value = self.run(f"(() => {{ try {{ return {script}; }} catch (error) {{ return null; }} }})()")
            except RuntimeError:  # the page is being left
                value = None
            if value:
                return value
            time.sleep(0.05)
        raise TimeoutError(f"it did not become true: {script}")

    def resize(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def key(self, name, code=0, text=None):
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code, **extra)

    def drag(self, begin, end):
        for kind, (x, y) in (("mousePressed", begin), ("mouseMoved", end), ("mouseReleased", end)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def picture(self, path, whole=True):
        """Writes a picture of the page, as PNG."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(answer["data"]))

    def use(self):
        """What the page holds: {"Nodes", "JSHeapUsedSize", "JSEventListeners", ...}, after what is unused was freed."""
        self.call("HeapProfiler.collectGarbage")
        return {one["name"]: one["value"] for one in self.call("Performance.getMetrics")["metrics"]}

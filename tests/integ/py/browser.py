"""A real browser, driven over the W3C WebDriver protocol: Debian's chromium without a screen.

Only the standard library is used. A test that finds no browser says so and skips.
"""
import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

from harness import WAIT_S, check, skip

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name of a reference
KEYS = {"tab": "\ue004", "enter": "\ue007", "left": "\ue012", "up": "\ue013",
        "right": "\ue014", "down": "\ue015", "home": "\ue011", "end": "\ue010",
        "space": " "}


def find_browser():
    driver = shutil.which("chromedriver")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if driver is None or browser is None:
        skip("no browser: packages chromium and chromium-driver")
    return driver, browser


class Browser:
    """One window. Used as a context: the driver and its browser end with it."""

    def __init__(self, width=1280, height=900):
        driver, browser = find_browser()
        self.home = tempfile.mkdtemp(prefix="hydra-browser-")
        self.session = None
        self.process = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, env=dict(os.environ, HOME=self.home, no_proxy="127.0.0.1"))
        self.base = "http://127.0.0.1:%d" % self._port()
        threading.Thread(target=self._drain, daemon=True).start()
        options = {"binary": browser, "args": [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
            "--disable-component-update", "--disable-sync", "--no-default-browser-check",
            "--force-device-scale-factor=1",
            "--user-data-dir=" + os.path.join(self.home, "profile"),
            "--window-size=%d,%d" % (width, height)]}
        try:
            answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
        except WebDriverError as error:
            self.quit()
            skip("the browser does not start here: %s" % str(error).split("\n")[0])
        self.session = "/session/" + answer["sessionId"]
        self.version = answer["capabilities"]["browserVersion"]
        self.console = []
        self.urls = []

    def _port(self):
        timer = threading.Timer(WAIT_S, self.process.kill)
        timer.start()
        for line in self.process.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                timer.cancel()
                return int(found.group(1))
        skip("chromedriver does not start here")

    def _drain(self):
        for _ in self.process.stdout:
            pass

    def _ask(self, method, path, body=None):
        request = urllib.request.Request(
            self.base + path, method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=3 * WAIT_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise WebDriverError(json.load(error)["value"]["message"]) from None

    def ask(self, method, path, body=None):
        return self._ask(method, self.session + path, body)

    def cdp(self, command, **params):
        return self.ask("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def go(self, url):
        self.ask("POST", "/url", {"url": url})

    def js(self, script, *args):
        """The value of a function body run in the page."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(args)})

    def wait(self, what, script, *args, limit_s=WAIT_S):
        """Until the function body gives something true; returns that."""
        end = time.monotonic() + limit_s
        while True:
            value = self.js(script, *args)
            if value:
                return value
            check("the page shows " + what, time.monotonic() < end,
                  "\n" + self.js("return document.body.innerText"))
            time.sleep(0.02)

    def find(self, css):
        return self.ask("POST", "/element", {"using": "css selector", "value": css})

    def on(self, css, method, what, body=None):
        return self.ask(method, "/element/%s/%s" % (self.find(css)[ELEMENT], what), body)

    def click(self, css):
        self.on(css, "POST", "click", {})

    def type(self, css, text):
        self.on(css, "POST", "clear", {})
        self.on(css, "POST", "value", {"text": text})

    def text(self, css):
        return self.js("return document.querySelector(arguments[0]).innerText", css)

    def press(self, *names):
        """Keys to whatever has the focus."""
        actions = [{"type": kind, "value": KEYS.get(name, name)}
                   for name in names for kind in ("keyDown", "keyUp")]
        self.ask("POST", "/actions",
                 {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def size(self, width, height):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=False)

    def dark(self, yes):
        self.cdp("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if yes else "light"}])

    def picture(self, path):
        """The whole page as a PNG."""
        shot = self.cdp("Page.captureScreenshot", format="png",
                        captureBeyondViewport=True)
        with open(path, "wb") as out:
            out.write(base64.b64decode(shot["data"]))

    def collect(self):
        """Console messages and the addresses that were asked for, so far."""
        self.console += self.ask("POST", "/se/log", {"type": "browser"})
        for entry in self.ask("POST", "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.urls.append(message["params"]["request"]["url"])

    def quit(self):
        try:
            if self.session is not None:
                self.ask("DELETE", "")
        except (OSError, WebDriverError):
            pass
        self.process.terminate()
        try:
            self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.quit()


class WebDriverError(Exception):
    pass

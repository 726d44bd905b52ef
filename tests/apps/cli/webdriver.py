"""A browser without a window, steered by the WebDriver protocol: just what the tests of pages need.

https://www.w3.org/TR/webdriver2/ over HTTP to Debian's chromedriver; no package of Python. With LONGFORMER_BROWSER=firefox
the same commands go to Debian's Firefox itself, which needs no driver (Marionette).
"""

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
START_SECONDS = 60


FIREFOX = os.environ.get("LONGFORMER_BROWSER") == "firefox"


def available():
    return all(shutil.which(name) for name in (["firefox-esr"] if FIREFOX else ["chromium", "chromedriver"]))


class Browser:
    """One tab of a headless chromium."""

    def __init__(self, port, profile, size, dark, telephone):
        self._root = f"http://127.0.0.1:{port}"
        arguments = ["--headless=new", f"--window-size={size[0]},{size[1]}", f"--user-data-dir={profile}",
                     "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        options = {"args": arguments, "binary": shutil.which("chromium")}
        if telephone:
            metrics = {"width": size[0], "height": size[1], "pixelRatio": 2, "touch": True, "mobile": True}
            options["mobileEmulation"] = {"deviceMetrics": metrics}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{session['sessionId']}"

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._root + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from error

    def _post(self, path, body):
        return self._call("POST", self._session + path, body)

    def open(self, page):
        """Opens a file, or an address."""
        self._post("/url", {"url": page if isinstance(page, str) else page.resolve().as_uri()})

    def run(self, script, *arguments):
        """The value of a function body of JavaScript."""
        return self._post("/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector):
        return self._post("/element", {"using": "css selector", "value": selector})[ELEMENT]

    def point_at(self, selector):
        """Moves the pointer over an element, as a hand would."""
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0,
                "origin": {ELEMENT: self.find(selector)}}
        self._post("/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def click(self, selector):
        self._post(f"/element/{self.find(selector)}/click", {})

    def keys(self, selector, text):
        self._post(f"/element/{self.find(selector)}/value", {"text": text})

    def wait(self, condition, *arguments, seconds=60):
        """Waits until an expression of JavaScript is true, and returns its value."""
        end = time.monotonic() + seconds
        while not (value := self.run(f"return {condition}", *arguments)):
            assert time.monotonic() < end, f"waited {seconds} s for {condition}"
            time.sleep(0.05)
        return value

    def press(self, text):
        """Keys for the element that has the focus."""
        actions = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def press_with_control(self, key):
        """A key while Control is held."""
        events = [("keyDown", "\ue009"), ("keyDown", key), ("keyUp", key), ("keyUp", "\ue009")]
        actions = [{"type": kind, "value": value} for kind, value in events]
        self._post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def screenshot(self, path):
        data = self._call("GET", self._session + "/screenshot")
        path.write_bytes(base64.b64decode(data))

    def errors(self):
        """Complaints of the page on its console."""
        entries = self._post("/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def close(self):
        self._call("DELETE", self._session)


class Firefox(Browser):
    """One tab of a headless Firefox. Its protocol has the commands by name: [0, number, name, parameters]."""

    #: Names by the last part of an address.
    COMMANDS = {"url": "Navigate", "sync": "ExecuteScript", "element": "FindElement", "actions": "PerformActions",
                "click": "ElementClick", "value": "ElementSendKeys", "screenshot": "TakeScreenshot", "session": "NewSession"}

    def __init__(self, port, size):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self._number = 0
        self._receive()
        self._session = "/session/firefox"
        self._call("POST", "/session", {"capabilities": {"alwaysMatch": {}}})
        inner = self.run("return [window.outerWidth - window.innerWidth, window.outerHeight - window.innerHeight]")
        self._command("WebDriver:SetWindowRect", {"width": size[0] + inner[0], "height": size[1] + inner[1]})
        self.errors()

    def _part(self, most):
        part = self._socket.recv(most)
        assert part, "the browser ended"
        return part

    def _receive(self):
        length = b""
        while not length.endswith(b":"):
            length += self._part(1)
        data = b""
        while len(data) < int(length[:-1]):
            data += self._part(int(length[:-1]) - len(data))
        return json.loads(data)

    def _command(self, name, parameters):
        self._number += 1
        data = json.dumps([0, self._number, name, parameters]).encode()
        self._socket.sendall(f"{len(data)}:".encode() + data)
        _, _, error, value = self._receive()
        assert error is None, error["message"]
        return value["value"] if isinstance(value, dict) and "value" in value else value

    def _call(self, method, path, body=None):
        parts = path.split("/")
        parameters = dict(body or {})
        if "element" in parts[:-1]:
            parameters["id"] = parts[-2]
        if parts[-1] == "screenshot":
            parameters["full"] = False
        return self._command("WebDriver:" + self.COMMANDS[parts[-1]], parameters)

    def errors(self):
        """Complaints of pages on the console of the browser."""
        self._command("Marionette:SetContext", {"value": "chrome"})
        messages = self.run("""const all = Services.console.getMessageArray().filter(m => m instanceof Ci.nsIScriptError)
            .filter(m => !(m.flags & m.warningFlag) && /^(http|file):/.test(m.sourceName)).map(m => m.errorMessage);
            Services.console.reset(); return all""")
        self._command("Marionette:SetContext", {"value": "content"})
        return messages

    def close(self):
        with contextlib.suppress(AssertionError, OSError):
            self._command("Marionette:Quit", {"flags": ["eForceQuit"]})


def preferences(port, dark):
    values = {"marionette.port": port, "layout.css.prefers-color-scheme.content-override": 0 if dark else 1,
              "browser.shell.checkDefaultBrowser": False, "datareporting.policy.dataSubmissionEnabled": False,
              "app.update.enabled": False, "browser.startup.page": 0}
    return "".join(f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in values.items())


@contextlib.contextmanager
def browser(folder, size=(1280, 900), dark=False, telephone=False):
    """A browser whose files are in a folder; the browser and its driver end with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "TZ": "UTC"}
    profile = folder / "profile"
    if FIREFOX:
        profile.mkdir(exist_ok=True)
        (profile / "user.js").write_text(preferences(port, dark))
        command = ["firefox-esr", "--headless", "--marionette", "--remote-allow-system-access", "--profile", profile]
    else:
        command = ["chromedriver", f"--port={port}"]
    driver = subprocess.Popen(
        [shutil.which(command[0]), *command[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        wait_for(port, driver)
        page = Firefox(port, size) if FIREFOX else Browser(port, profile, size, dark, telephone)
        try:
            yield page
        finally:
            page.close()
    finally:
        driver.terminate()
        driver.wait(timeout=30)


def wait_for(port, driver):
    for _ in range(START_SECONDS * 10):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert driver.poll() is None, "the browser ended"
        time.sleep(0.1)
    raise AssertionError("the browser does not listen")

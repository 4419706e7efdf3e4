#!/usr/bin/env python3
"""Drives a headless Chromium over its own protocol, through a pair of pipes.

    browser.py CHROMIUM FOLDER <steps.json

Steps are a list of {"do": …}:
    open    url, width, height, dark      a page in a window of that size
    wait    js, seconds                   until the expression is true
    eval    js                            the value of an expression
    type    selector, text                as from the keyboard
    click   selector
    key     key                           Tab, Enter
    signal  pid, signal                   STOP, CONT, KILL to a process outside the browser
    shot    file                          the whole page as FOLDER/file
Prints one JSON object: "values" of the steps, "errors" of the page's script and policy, "dialogs"
that were opened, and "requests" by address. Ends with 1 at the first step that fails.
"""
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time


class Browser:
    def __init__(self, program, folder):
        self.folder = folder
        self.profile = tempfile.TemporaryDirectory(prefix="tollway-browser-",
                                                   ignore_cleanup_errors=True)
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()

        def pipes():
            # The browser reads descriptor 3 and writes descriptor 4.
            first, second = os.dup(to_read), os.dup(to_write)
            os.dup2(first, 3)
            os.dup2(second, 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update",
             "--user-data-dir=" + self.profile.name, "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.errors, self.dialogs, self.requests = [], [], []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(one for one in targets if one["type"] == "page")
        self.session = self.call("Target.attachToTarget",
                                 targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def message(self, seconds):
        until = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.from_browser], [], [], left)[0]:
                return None
            more = os.read(self.from_browser, 1 << 20)
            if not more:
                raise RuntimeError("the browser ended")
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, **parameters):
        self.number += 1
        number = self.number
        order = {"id": number, "method": method, "params": parameters}
        if self.session:
            order["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(order).encode() + b"\0")
        while True:
            message = self.message(60)
            if message is None:
                raise RuntimeError(method + " has no answer")
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(method + ": " + message["error"]["message"])
                return message["result"]
            self.event(message)

    def event(self, message):
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", "")
            self.errors.append(details["text"] + " " + thrown)
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] == "error":
            self.errors.append(str(parameters["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(parameters["message"])
            self.call("Page.handleJavaScriptDialog", accept=True)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(expression + ": " + str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait(self, expression, seconds):
        until = time.monotonic() + seconds
        while not self.evaluate("Boolean(" + expression + ")"):
            if time.monotonic() > until:
                text = self.evaluate("document.body.innerText")
                raise RuntimeError("never true: " + expression + "\n" + text[:4000])
            self.message_or_none(0.05)

    def message_or_none(self, seconds):
        message = self.message(seconds)
        if message:
            self.event(message)

    def press(self, key):
        codes = {"Tab": 9, "Enter": 13}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode=codes[key],
                      **({"text": "\r"} if key == "Enter" and kind == "keyDown" else {}))

    def do(self, step):
        what = step["do"]
        if what == "open":
            width, height = step.get("width", 1280), step.get("height", 800)
            self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                      deviceScaleFactor=1, mobile=False)
            self.call("Emulation.setEmulatedMedia", features=[{
                "name": "prefers-color-scheme",
                "value": "dark" if step.get("dark") else "light"}])
            self.call("Page.navigate", url=step["url"])
            self.wait("document.readyState === 'complete'", 20)
        elif what == "wait":
            self.wait(step["js"], step.get("seconds", 60))
        elif what == "eval":
            return self.evaluate(step["js"])
        elif what == "type":
            self.evaluate("(() => { const field = document.querySelector(%s); field.focus();"
                          " field.select && field.select(); })()" % json.dumps(step["selector"]))
            self.call("Input.insertText", text=step["text"])
        elif what == "click":
            self.evaluate("document.querySelector(%s).click()" % json.dumps(step["selector"]))
        elif what == "key":
            self.press(step["key"])
        elif what == "signal":
            os.kill(step["pid"], getattr(signal, "SIG" + step["signal"]))
        elif what == "shot":
            import base64
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={
                "x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000),
                "scale": 1})
            with open(os.path.join(self.folder, step["file"]), "wb") as file:
                file.write(base64.b64decode(shot["data"]))
        else:
            raise RuntimeError("there is no step " + what)
        return None

    def close(self):
        self.process.kill()
        self.process.wait()
        self.profile.cleanup()


def main():
    browser = Browser(sys.argv[1], sys.argv[2])
    values, fault = [], None
    try:
        for index, step in enumerate(json.load(sys.stdin)):
            try:
                values.append(browser.do(step))
            except RuntimeError as error:
                fault = "step %d %s: %s" % (index, json.dumps(step), error)
                break
        browser.message_or_none(0.2)
    finally:
        browser.close()
    print(json.dumps({"values": values, "fault": fault, "errors": browser.errors,
                      "dialogs": browser.dialogs, "requests": browser.requests}))
    sys.exit(1 if fault else 0)


main()

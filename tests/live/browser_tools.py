"""A real Chromium, driven by its own driver over the WebDriver protocol, of which a few calls are enough."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

MISSING = "no browser: install Debian's packages chromium and chromium-driver to test the page of pravega-spark ui"
_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
]
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {
    "Tab": "\ue004",
    "Enter": "\ue007",
    "Escape": "\ue00c",
    "ArrowDown": "\ue015",
    "ArrowRight": "\ue014",
    "End": "\ue010",
}
PATIENCE_S = 60.0


def browser_is_there() -> bool:
    """Whether this machine has a Chromium with its driver."""
    return shutil.which("chromedriver") is not None and _chromium() is not None


class Browser:
    """A browser's one window."""

    def __init__(self, http: httpx.Client, session: str) -> None:
        self._http, self._session = http, session

    def open(self, url: str) -> None:
        self._post("url", url=url)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function's body returns in the page."""
        return self._post("execute/sync", script=script, args=list(arguments))

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector))

    def wait(self, what: str, script: str, *arguments: Any) -> Any:
        """Wait until a function's body returns something true in the page.

        Args:
            what: what is waited for, for the error.
            script: the body.
            arguments: its arguments.

        Returns:
            What it has returned.
        """
        end = time.monotonic() + PATIENCE_S
        while not (answer := self.run(script, *arguments)):
            assert time.monotonic() < end, f"{what}; the page says: {self.run('return document.body.innerText')[:2000]}"
            time.sleep(0.1)
        return answer

    def press(self, *keys: str) -> None:
        """Press keys, one after another, wherever the focus is."""
        actions = []
        for key in keys:
            value = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self._post("actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def click(self, selector: str) -> None:
        element = self._post("element", using="css selector", value=selector)[_ELEMENT]
        self._post(f"element/{element}/click")

    def size(self, width: int, height: int) -> None:
        self._post("window/rect", width=width, height=height)

    def emulate(self, **features: str) -> None:
        """Set media features, such as `prefers_color_scheme="dark"`."""
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self._post("goog/cdp/execute", cmd="Emulation.setEmulatedMedia", params={"features": named})

    def viewport(self, width: int, height: int) -> None:
        """Show the page as on a screen of this size, in pixels, however small."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._post("goog/cdp/execute", cmd="Emulation.setDeviceMetricsOverride", params=metrics)

    def picture(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self._get("screenshot")))

    def log(self) -> list[str]:
        """What the browser has complained of since the last call, refused resources among it."""
        return [str(entry["message"]) for entry in self._post("se/log", type="browser")]

    def _post(self, call: str, **content: Any) -> Any:
        answer = self._http.post(f"/session/{self._session}/{call}", json=content).json()["value"]
        assert not (isinstance(answer, dict) and "stacktrace" in answer), f"{call}: {answer}"
        return answer

    def _get(self, call: str) -> Any:
        return self._http.get(f"/session/{self._session}/{call}").json()["value"]


@contextmanager
def browser(folder: Path, *, width: int = 1400, height: int = 900, offline: bool = False) -> Iterator[Browser]:
    """A browser with an empty profile.

    Args:
        folder: for its profile.
        width: of the window, in pixels.
        height: likewise.
        offline: whether it finds no other machine.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120, trust_env=False) as http:
            _until(lambda: http.get("/status").json()["value"]["ready"])
            arguments = [*_FLAGS, f"--user-data-dir={folder}", f"--window-size={width},{height}"]
            if offline:
                arguments.append("--host-resolver-rules=MAP * ~NOTFOUND")
            capabilities = {
                "browserName": "chrome",
                "goog:chromeOptions": {"args": arguments, "binary": _chromium()},
                "goog:loggingPrefs": {"browser": "ALL"},
            }
            new_session = http.post("/session", json={"capabilities": {"alwaysMatch": capabilities}}).json()["value"]
            assert "sessionId" in new_session, new_session
            try:
                yield Browser(http, new_session["sessionId"])
            finally:
                http.delete(f"/session/{new_session['sessionId']}")
    finally:
        driver.terminate()
        driver.wait()


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            if is_so():
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < end, "chromedriver doesn't answer"
        time.sleep(0.05)

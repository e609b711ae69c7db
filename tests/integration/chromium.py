"""Chromium: a real browser without a window, driven over its debugging protocol.

    chromium --headless ──"DevTools listening on ws://…"──▶ a page ──navigate, evaluate──▶ facts

Authority: https://chromedevtools.github.io/devtools-protocol/
"""

import asyncio
import json
import os
import re
import signal
import subprocess
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any, Final
from urllib.request import Request, urlopen

from tornado.websocket import WebSocketClientConnection, websocket_connect

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
MISSING: Final = "no browser: apt-get install chromium"
LISTENING: Final = re.compile(r"DevTools listening on ws://([^/]+)/")
ANSWER_S: Final = 60.0  # of a busy machine
DARK, LIGHT = "dark", "light"
FRAME_BYTES_MAX: Final = 64 << 20  # of a screenshot, in base 64
CLICK: Final = """(() => {
  const links = [...document.querySelectorAll('a')], wanted = %s;
  const found = links.find(one => one.innerText.trim() === wanted);
  if (!found) throw new Error(`no link ${wanted}: ${links.map(one => one.innerText)}`);
  found.click();
})()"""
LAYOUT: Final = """(() => ({
  title: document.title,
  text: document.body.innerText,
  widest: document.documentElement.scrollWidth,
  cut: [...document.querySelectorAll('.wide')].some(one => one.scrollWidth > one.clientWidth),
  scripts: document.scripts.length,
  back: getComputedStyle(document.querySelector('header')).backgroundColor,
  links: [...document.querySelectorAll('nav a')].map(one => one.href),
}))()"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A page as the browser shows it.

    ``widest``: how wide the document is, in pixels. ``cut``: a table is wider than its place.
    ``scripts``: how many it has. ``back``: the colour behind its head. ``links``: of its
    navigation. ``errors``: what the console shows.
    """

    title: str
    text: str
    widest: int
    cut: bool
    scripts: int
    back: str
    links: list[str]
    errors: list[str]


class Browser:
    """A browser that was started; each look has a page of its own."""

    def __init__(self, address: str) -> None:
        """``address``: host and port of its debugging protocol."""
        self._address = address

    def see(self, url: str, *, width: int, scheme: str = LIGHT, authorization: str = "") -> Seen:
        """Return how the browser shows ``url`` in a window of ``width`` pixels."""
        found, errors, _ = self._look(
            url, width=width, height=900, scheme=scheme, authorization=authorization
        )
        return Seen(**found, errors=errors)

    def walk(self, url: str, *, clicks: Sequence[str], width: int, authorization: str) -> Seen:
        """Return what is shown after a click on each link of ``clicks``, from ``url`` on.

        Of links with the same text, the first is clicked; a link that is not there fails.
        """
        found, errors, _ = self._look(
            url, width=width, height=900, clicks=clicks, authorization=authorization
        )
        return Seen(**found, errors=errors)

    def picture(
        self, url: str, *, width: int, height: int, authorization: str = "", scheme: str = LIGHT
    ) -> bytes:
        """Return the upper ``height`` pixels of a page as PNG."""
        *_, picture = self._look(
            url, width=width, height=height, scheme=scheme, authorization=authorization
        )
        return picture

    def _look(
        self,
        url: str,
        *,
        width: int,
        height: int,
        authorization: str,
        scheme: str = LIGHT,
        clicks: Sequence[str] = (),
    ) -> tuple[dict[str, Any], list[str], bytes]:
        new = Request(f"http://{self._address}/json/new?about:blank", method="PUT")
        with urlopen(new, timeout=ANSWER_S) as answer:
            page = json.load(answer)
        try:
            return asyncio.run(
                _look(
                    page["webSocketDebuggerUrl"],
                    url,
                    screen={"width": width, "height": height},
                    scheme=scheme,
                    headers={"Authorization": authorization} if authorization else {},
                    clicks=clicks,
                )
            )
        finally:
            with urlopen(f"http://{self._address}/json/close/{page['id']}", timeout=ANSWER_S):
                pass


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Run a browser that keeps what it has to keep in ``folder``; it fails where there is none."""
    found = next(filter(None, map(which, NAMES)), None)
    assert found, MISSING
    words = (
        *(found, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"),
    )
    with subprocess.Popen(
        words,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "HOME": str(folder)},
        start_new_session=True,
    ) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            listening = next(filter(None, map(LISTENING.search, lines)), None)
            assert listening, "the browser ended before it listened"
            yield Browser(listening[1])
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # its children, too


async def _look(
    socket: str,
    url: str,
    *,
    screen: dict[str, int],
    scheme: str,
    headers: dict[str, str],
    clicks: Sequence[str],
) -> tuple[dict[str, Any], list[str], bytes]:
    page = _Page(await websocket_connect(socket, max_message_size=FRAME_BYTES_MAX))
    try:
        for domain in ("Page", "Runtime", "Log", "Network"):
            await page.call(f"{domain}.enable")
        await page.call("Network.setExtraHTTPHeaders", headers=headers)
        await page.call(
            "Emulation.setDeviceMetricsOverride", **screen, deviceScaleFactor=1, mobile=True
        )
        dark = [{"name": "prefers-color-scheme", "value": scheme}]
        await page.call("Emulation.setEmulatedMedia", features=dark)
        await page.loaded("Page.navigate", url=url)
        for text in clicks:
            await page.loaded("Runtime.evaluate", expression=CLICK % json.dumps(text))
        found = await page.call("Runtime.evaluate", expression=LAYOUT, returnByValue=True)
        picture = await page.call("Page.captureScreenshot")
        return found["result"]["value"], page.errors, b64decode(picture["data"])
    finally:
        await page.close()


class _Page:
    """One page, and what its console has shown."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self.errors: list[str] = []
        self._socket = socket
        self._id = 0
        self._events: list[str] = []

    async def close(self) -> None:
        """Return when the connection is closed."""
        self._socket.close()
        while await self._socket.read_message() is not None:
            pass

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; return its result."""
        self._id += 1
        await self._socket.write_message(
            json.dumps({"id": self._id, "method": method, "params": parameters})
        )
        while (message := await self._next()).get("id") != self._id:
            pass
        assert "error" not in message, message
        return message["result"]  # type: ignore[no-any-return]

    async def loaded(self, method: str, **parameters: Any) -> None:
        """Call a method by which another page is loaded; return once that is there."""
        self._events.clear()
        done = await self.call(method, **parameters)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        while "Page.loadEventFired" not in self._events:
            await self._next()

    async def _next(self) -> dict[str, Any]:
        text = await asyncio.wait_for(self._socket.read_message(), ANSWER_S)
        assert text is not None, "the browser has closed the page"
        message: dict[str, Any] = json.loads(text)
        method, given = message.get("method", ""), message.get("params", {})
        self._events.append(method)
        if method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{given['entry']['text']} {given['entry'].get('url', '')}")
        if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.errors.append(json.dumps(given))
        return message

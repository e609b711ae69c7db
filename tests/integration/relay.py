"""Relay: one port that leads to a metastore, or to what stands in its place and fails."""

import select
import socket
import sys
import threading
from contextlib import suppress

from topicast.topics.backports import Self
from topicast.topics.settings import Address

CHUNK_BYTES = 1 << 16


class Relay:
    """Passes bytes on between the clients of ``uri`` and the server it leads to."""

    def __init__(self, to: str, *, host: str = "127.0.0.1") -> None:
        """``host``: where to listen, of IPv6 too."""
        self._to = to
        self._host = host
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, 0), family=family)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def uri(self) -> str:
        return str(Address("thrift", self._host, self._listening.getsockname()[1]))

    def lead_to(self, uri: str) -> None:
        """Lead to the server at ``uri`` from now on; connections are cut, as by a restart."""
        with self._lock:
            self._to = uri
            cut, self._open = self._open, []
        for connection in cut:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()
        self.lead_to("")

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(near,), daemon=True).start()

    def _pass_on(self, near: socket.socket) -> None:
        with near, suppress(OSError):
            with self._lock:
                host, _, port = self._to.removeprefix("thrift://").partition(":")
                far = socket.create_connection((host, int(port)))
                self._open += [near, far]
            with far:
                while _passed_on(near, far):
                    pass


def _passed_on(near: socket.socket, far: socket.socket) -> bool:
    """Pass on what came next on either side; False at the end of a side."""
    for source in select.select([near, far], [], [])[0]:
        chunk = source.recv(CHUNK_BYTES)
        if not chunk:
            return False
        (far if source is near else near).sendall(chunk)
    return True


if __name__ == "__main__":  # a process of its own, until its input ends
    with Relay(sys.argv[1]) as relay:
        print(relay.uri, flush=True)
        sys.stdin.read()

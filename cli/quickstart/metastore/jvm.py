"""Jvm: a Java virtual machine as a child process, called through Py4J; it ends with its parent."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import GatewayParameters, JavaGateway

from ....topics.errors import SourceError
from .java import Java

STOP_TIMEOUT_S: Final = 10.0


class Jvm:
    """A JVM of ours, reached through a Py4J gateway that demands a token."""

    def __init__(self, java: Java, *, classpath: str, options: Sequence[str], log: Path) -> None:
        command = [str(java.executable), *options, "-classpath", classpath, "py4j.GatewayServer"]
        command += ["--die-on-broken-pipe", "--enable-auth", "0"]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C reaches only us, and we stop the JVM last
            )
        try:
            port, token = self._greeting()
        except BaseException:  # nobody can close it yet, and it has no data yet
            self._process.kill()
            self._end()
            raise
        if not port.isdigit():
            self._end()
            raise SourceError(f"{java.executable} did not start the metastore: see {log}")
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                port=int(port), auth_token=token, enable_memory_management=False
            )
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def view(self) -> Any:
        """The JVM's packages and classes."""
        return self._gateway.jvm

    def chars(self, text: str) -> Any:
        """Return ``text`` as Java's char[], into which Py4J converts no str."""
        array = self._gateway.new_array(self.view.char, len(text))
        for position, char in enumerate(text):
            array[position] = char
        return array

    def close(self, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End the JVM; kill it after ``timeout_s``."""
        self._gateway.close()
        self._end(timeout_s)

    def _greeting(self) -> tuple[bytes, str]:
        """Return the gateway's port and token, which the JVM prints first; empty: it has ended."""
        assert self._process.stdout is not None
        with self._process.stdout as output:
            return output.readline().strip(), output.readline().strip().decode()

    def _end(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

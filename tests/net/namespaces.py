"""Namespaces: hosts of a test on one machine, each with its own network and its own /etc/hosts.

    test ──pipe──▶ switch (user, network, mounts): a bridge
                      └── nsenter, unshare ──▶ host (network, mounts), joined by a pair of veth

Nobody need be root: the user namespace makes the caller root of the others alone. Each namespace
lives as long as the process that holds it, and that ends with the pipe to its standard input.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

from topicast.topics.backports import Self

TOOLS: Final = ("unshare", "nsenter", "ip", "mount")
BRIDGE: Final = "bridge"
OURS: Final = ("unshare", "--user", "--map-root-user", "--net", "--mount")
TRIED: Final = (
    "ip link add name tried type veth peer name other && ip link add name tried2 type bridge"
)
HOLD: Final = "mount --make-rprivate / && {more} && echo $$ && exec cat"
LOOPBACK: Final = "ip link set lo up"
START_S: Final = 120.0


def missing() -> str:
    """Return why there can be no hosts here; empty if there can."""
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    if lacking:
        return f"no {', '.join(lacking)}: install util-linux and iproute2"
    tried = subprocess.run([*OURS, "sh", "-c", TRIED], capture_output=True, text=True, check=False)
    return f"no network namespaces: {tried.stderr.strip()}" if tried.returncode else ""


class Held:
    """Namespaces that one process of ours holds."""

    def __init__(self, command: list[str], more: str) -> None:
        self._holder = subprocess.Popen(
            [*command, "sh", "-c", HOLD.format(more=more)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        line = self._holder.stdout.readline()
        assert line, f"not made: {command}"
        self.pid = int(line)

    def inside(self, *command: str) -> list[str]:
        """Return the command line that runs ``command`` in the namespaces."""
        which = ("--user", "--preserve-credentials", "--net", "--mount")
        return ["nsenter", "--target", str(self.pid), *which, *command]

    def ip(self, words: str) -> None:
        """Run ``ip`` in the namespaces."""
        done = subprocess.run(
            self.inside("ip", *words.split()), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"ip {words}: {done.stderr}"

    def close(self) -> None:
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.stdout.close()
        self._holder.wait()


class Host(Held):
    """One host: its folder is its home; what it takes names for is in its own /etc/hosts."""

    def __init__(self, switch: Held, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._names = folder / "etc-hosts"
        self.know({})
        self._running = ExitStack()
        enter = ("nsenter", "--target", str(switch.pid), "--user", "--preserve-credentials")
        more = f"mount --bind '{self._names}' /etc/hosts && {LOOPBACK}"
        super().__init__([*enter, "--net", "--mount", "unshare", "--net", "--mount"], more)

    def know(self, addresses: Mapping[str, str]) -> None:
        """Let these names stand for these addresses here, and no others."""
        lines = [f"{address} {name}\n" for name, address in addresses.items()]
        own = f"127.0.0.1 localhost {socket.gethostname()}\n"
        self._names.write_text("".join((own, *lines)))

    def start(self, *command: str, **environment: str) -> "Process":
        """Start a process here, and return it once it has printed a line."""
        return self._running.enter_context(Process(self, command, environment))

    def run(self, *command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a process here to its end."""
        return subprocess.run(
            self.inside(*command),
            capture_output=True,
            text=True,
            check=False,
            timeout=START_S,
            env=self.environment(environment),
        )

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of this test's process, with a home of the host's own."""
        return {**os.environ, "XDG_STATE_HOME": str(self.folder), **more}

    def close(self) -> None:
        self._running.close()
        super().close()


class Process:
    """A process in a host, from ``with`` to its end; it ends early by ``end``."""

    def __init__(
        self, host: Host, command: tuple[str, ...], environment: Mapping[str, str]
    ) -> None:
        self._command = host.inside(*command)
        self._environment = host.environment(environment)
        self.log = host.folder / "log"

    def __enter__(self) -> Self:
        with self.log.open("a") as errors:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=self._environment,
            )
        try:
            self.first = self.read()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def read(self) -> str:
        """Return the next line of its standard output."""
        line = _pipe(self._process.stdout).readline()
        assert line, f"{self._command} has ended: {self.log.read_text()[-2000:]}"
        return line.rstrip("\n")

    def write(self, line: str) -> None:
        """Write a line to its standard input."""
        pipe = _pipe(self._process.stdin)
        pipe.write(f"{line}\n")
        pipe.flush()

    def end(self) -> None:
        """Kill it; a second time nothing happens."""
        self._process.kill()
        self._process.wait()
        _pipe(self._process.stdin).close()
        _pipe(self._process.stdout).close()


class Network:
    """Hosts on one bridge, and hosts behind others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hosts = ExitStack()
        self._switch = Held(list(OURS), LOOPBACK)
        self._switch.ip(f"link add name {BRIDGE} type bridge")
        self._switch.ip(f"link set dev {BRIDGE} up")

    def host(self, name: str, address: str) -> Host:
        """Return a new host on the bridge, with ``address`` and its prefix's length on eth0."""
        host = self._new(name)
        self._switch.ip(f"link add name {name} type veth peer name eth0 netns {host.pid}")
        self._switch.ip(f"link set dev {name} master {BRIDGE} up")
        host.ip(f"address add {address} dev eth0")
        host.ip("link set eth0 up")
        return host

    def behind(self, gate: Host, name: str, *, outer: str, inner: str) -> Host:
        """Return a new host that reaches ``gate`` alone, which has the address ``outer`` there."""
        host = self._new(name)
        gate.ip(f"link add name {name} type veth peer name eth0 netns {host.pid}")
        gate.ip(f"address add {outer} dev {name}")
        gate.ip(f"link set dev {name} up")
        host.ip(f"address add {inner} dev eth0")
        host.ip("link set eth0 up")
        return host

    def _new(self, name: str) -> Host:
        host = Host(self._switch, self._folder / name)
        self._hosts.callback(host.close)
        return host

    def close(self) -> None:
        self._hosts.close()
        self._switch.close()


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module of ours."""
    return (sys.executable, "-m", module, *arguments)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe

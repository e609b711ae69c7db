"""Renewal: keeps the key of executors admitted while their application runs.

    planning ──starts once──▶ this process ──Grant, each 5 s──▶ catalogd
                                  └─the application has ended──▶ Grant for 0 s

The renewal is a separate process on the driver's host, because the Python processes in which Spark
plans come and go, and a driver need not be attached. The process ends with the application; if it
dies before that, the key expires.
"""

import fcntl
import hashlib
import os
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Final

from ...subscriber.client.conversation import Conversation, catalogd_named_by
from ...topics.errors import LinkError
from ...topics.keys.credential import Credential, KeyPair
from ...topics.keys.folder import DRIVER, find_credential
from ...topics.link.curve import derived_pair
from ...topics.settings import Address, parse_addresses
from ...topics.wire.messages.catalog import Grant, Granted
from .scanning import ANSWER_S

LEASE_S: Final = 600  # executors read on for so long if nothing renews their key
RENEW_S: Final = 5.0  # a catalogd that was restarted knows no granted key until the next renewal
_LOCK_PREFIX: Final = "topicast-"  # of the file that a renewal locks while it runs
_LOCK_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class ApplicationProcess:
    """A process that lives as long as the application whose executors read.

    For a batch this is the daemon that forks Spark's Python processes, or else the JVM. For a
    stream it is the process that plans its batches, which lives as long as the query. ``began``:
    when the process began, in ticks since the machine's start, so that it is not mistaken for a
    later process with its ``pid``; empty: not known.
    """

    pid: int
    began: str

    def lives(self) -> bool:
        """Return whether the process has not ended."""
        if self.began:
            return _began(self.pid) == self.began
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def pair_of(self, credential: Credential) -> KeyPair:
        """Return the key pair of its executors, computed from the driver's ``credential``."""
        purpose = f"executors of {socket.gethostname()} {self.pid} {self.began}"
        return derived_pair(credential.pair, purpose.encode())


def application_of(pid: int) -> ApplicationProcess:
    """Return the application that lives as long as the process ``pid``."""
    return ApplicationProcess(pid, _began(pid))


def this_application() -> ApplicationProcess:
    """Return the application that has started this process."""
    return application_of(os.getppid())


def grant(catalogd: Conversation, public: str, *, lease_s: int = LEASE_S) -> None:
    """Have catalogd admit the key ``public`` for ``lease_s``; 0: until now."""
    wanted = Grant(request=0, public=public, lease_s=lease_s)
    catalogd.request(wanted, Granted, timeout_s=ANSWER_S)


def renew(
    hubs: Sequence[Address],
    credential: Credential,
    application: ApplicationProcess,
    *,
    wait: Callable[[float], bool],
) -> None:
    """Renew the key of the executors of ``application`` until it ends, then end the grant.

    Args:
        hubs: Their hubs say where catalogd is, whenever catalogd does not answer.
        credential: The driver's.
        application: The application whose executors have the key.
        wait: Waits for so many seconds; returns True, at once, if the renewal is to end.

    Raises:
        UsageError: catalogd refuses to admit the key.
    """
    public = application.pair_of(credential).public

    def ended() -> bool:
        return wait(RENEW_S) or not application.lives()

    while True:
        connecting = catalogd_named_by(hubs, credential, timeout_s=ANSWER_S)
        with suppress(LinkError), connecting as catalogd:
            grant(catalogd, public)
            while not ended():
                grant(catalogd, public)
            grant(catalogd, public, lease_s=0)
            return
        if ended():
            return


def start_renewal(
    statestores: Sequence[Address], key_file: str | None, application: ApplicationProcess
) -> None:
    """Start the process that renews the key for ``application``, unless it runs already."""
    credential = find_credential(DRIVER, key_file=key_file, environ=os.environ)
    with _only(application.pair_of(credential).public) as is_only:
        if not is_only:
            return
    discard_leftovers(Path(gettempdir()))
    hubs = ",".join(map(str, statestores))
    command = (sys.executable, "-m", __name__, str(application.pid), application.began, hubs)
    os.posix_spawn(
        sys.executable,
        (*command, *([key_file] if key_file else [])),
        {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        file_actions=[(os.POSIX_SPAWN_OPEN, file, os.devnull, os.O_RDWR, 0) for file in range(3)],
    )


def discard_leftovers(folder: Path) -> None:
    """Delete the lock files in ``folder`` that renewals of this user left when they were killed.

    A file goes if it is empty, older than a lease and locked by nobody; a file that cannot be
    deleted stays.
    """
    oldest_s = time.time() - LEASE_S
    guarded = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # others may write in the folder
    for path in folder.glob(f"{_LOCK_PREFIX}{'[0-9a-f]' * 2 * _LOCK_DIGEST_BYTES}"):
        with suppress(OSError), os.fdopen(os.open(path, os.O_RDONLY | guarded)) as opened:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(opened.fileno())  # under the lock: a renewal may have replaced it
            is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
            if is_ours and found.st_nlink and not found.st_size and found.st_mtime < oldest_s:
                path.unlink()


def main(arguments: Sequence[str]) -> None:
    """Renew as ``start_renewal`` says; SIGTERM, and SIGHUP from Spark's daemon, end it."""
    pid, began, hubs, *key_file = arguments
    application, ended = ApplicationProcess(int(pid), began), threading.Event()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the shell that the driver runs in
    named = key_file[0] if key_file else None
    credential = find_credential(DRIVER, key_file=named, environ=os.environ)
    with _only(application.pair_of(credential).public) as is_only:
        if is_only:
            addresses = parse_addresses(hubs, setting="statestores")
            renew(addresses, credential, application, wait=ended.wait)


@contextmanager
def _only(public: str) -> Iterator[bool]:
    """Yield whether no other process renews the key ``public``; none does until the block ends.

    The lock file belongs to this user; its name cannot be guessed without the key.
    """
    name = hashlib.blake2b(public.encode("ascii"), digest_size=_LOCK_DIGEST_BYTES).hexdigest()
    path = Path(gettempdir(), _LOCK_PREFIX + name)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        try:
            yield True
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(file)


def _began(pid: int) -> str:
    """Return when a process began; empty: it has ended, or the system does not say."""
    with suppress(OSError):
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if after_name[0] == "Z" else after_name[19]
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])

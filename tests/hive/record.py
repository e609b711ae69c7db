"""Record: the events that a release of Hive records for every kind of operation, as the corpus.

Run: python -m topicast.tests.hive.record 4.2.0, or any of the releases; "2.3.10" is the embedded
one, the others are as ``make compat-hive HIVES=4.2.0`` has installed them. It writes
tests/catalog/ingest/events/corpus/4.2.0.jsonl.gz anew, a line for each event, and says which
operations were refused and which left no event. Folders, hosts and users are replaced.

4.0.1 records by the listener of tests/hive, which knows databases, tables and partitions only;
4.1.0 by that of 4.2.0, which cannot record a RELOAD of it.
"""

import gzip
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path
from socket import gethostname
from tempfile import TemporaryDirectory
from typing import Any, Final

from hmsclient import HMSClient

from topicast.catalog.ingest.events.actions import GZIP_FORMATS, decode
from topicast.catalog.metastore.capture import Capture
from topicast.catalog.metastore.hms import Hms
from topicast.catalog.metastore.port import RawEvent
from topicast.catalog.metastore.slicer import accelerated
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.tests.hive.operations import Operations
from topicast.tests.hive.releases import RealMetastore, ReleasedMetastore

CORPUS: Final = Path(__file__).parents[1] / "catalog" / "ingest" / "events" / "corpus"
ANSWER_S_MAX: Final = 20.0  # some releases never answer what they do not have
EMBEDDED: Final = "2.3.10"


def main(version: str) -> None:
    """Write the events of ``version``."""
    lines: list[str] = []
    with TemporaryDirectory() as folder, started(version, Path(folder)) as metastore:
        reads = Hms(metastore.uri, timeout_s=60)
        at = reads.current_event_id()
        client = Client(metastore.uri)
        for name, operation in Operations(client, metastore.warehouse):
            refused = attempt(operation)
            if refused:
                client.renew()
            events = reads.events_after(at, events_max=1_000)
            at = max([at, *(event.id for event in events)])
            kinds = ", ".join(event.type for event in events)
            print(f"{name}: {refused or kinds or 'no event'}", flush=True)
            lines += [line(name, event, folder) for event in events]
        reads.close()
    CORPUS.mkdir(exist_ok=True)
    text = "".join(f"{one}\n" for one in lines).encode()
    (CORPUS / f"{version}.jsonl.gz").write_bytes(gzip.compress(text, mtime=0))


@contextmanager
def started(version: str, folder: Path) -> Iterator[RealMetastore]:
    """Yield the metastore of ``version``, with everything in ``folder``."""
    if version == EMBEDDED:
        with EmbeddedMetastore(folder / "hive", durable=False) as embedded:
            yield embedded
        return
    home = Path(".venv") / f"hive-{version}"
    # Without its translation 4 makes the tables that it is told to.
    settings = {"metastore.metadata.transformer.class": " "}
    with ReleasedMetastore(home, folder / "hive", more=settings) as released:
        yield released


class Client:
    """hmsclient's client, over another connection after each answer that was an exception."""

    def __init__(self, uri: str) -> None:
        host, _, port = uri.removeprefix("thrift://").partition(":")
        self._address = host, int(port)
        self.renew()

    def renew(self) -> None:
        """Connect anew."""
        self._client = HMSClient(iprot=accelerated(Capture(*self._address, timeout_s=ANSWER_S_MAX)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def attempt(operation: Any) -> str:
    """Do ``operation``; return why it was refused."""
    try:
        operation()
    except Exception as exc:  # noqa: BLE001  of any release, by any of the server's exceptions
        text = getattr(exc, "message", None) or str(exc) or type(exc).__name__
        return f"refused: {str(text).splitlines()[0][:200]}"
    return ""


def line(operation: str, event: RawEvent, folder: str) -> str:
    """Return ``event`` as a line of the corpus; what is in gzip in it is not in the line."""
    message = event.message
    if event.message_format in GZIP_FORMATS:
        message = json.dumps(decode(event).body, separators=(",", ":"))
    message = message.replace(folder, "/w").replace(gethostname(), "host")
    message = message.replace(f'"{getuser()}"', '"etl"').replace(f'\\"{getuser()}\\"', '\\"etl\\"')
    row = {
        "operation": operation,
        "id": event.id,
        "type": event.type,
        "db": event.db,
        "table": event.table,
        "catalog": event.catalog,
        "format": event.message_format,
        "message": message,
    }
    return json.dumps(row, ensure_ascii=False)


if __name__ == "__main__":
    main(sys.argv[1])

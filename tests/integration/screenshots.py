"""The pictures of pages in docs/, of a small stack that this command starts and ends.

python -m topicast.tests.integration.screenshots FOLDER     writes them; needs a Chromium
"""

import os
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from topicast.catalog.metastore.sample import Sample
from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.cli.pages.secrets import secret_file
from topicast.tests.cli.processes import command
from topicast.tests.integration.chromium import chromium
from topicast.tests.integration.daemons import Daemons
from topicast.tests.waiting import until

BYTES_MAX: Final = 150_000  # of a picture: pages of docs/ are read over slow lines, too
WIDTH: Final = 1000
SECRET: Final = f"Basic {b64encode(b'docs:docs').decode()}"
PICTURES: Final = {  # by name: the daemon, the page, and how much of it
    "page-statestored": ("statestored", "/", 780),
    "page-events": ("catalogd", "/events", 780),
}
DRIVERS: Final = {"orders-etl": "", "reports": "2 of 16 topics are not followed: budget too small"}
DAYS: Final = 30


def main(folder: Path) -> None:
    """Write all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        home = Path(scratch)
        os.environ["HOME"] = scratch  # keys are made there
        daemons = stack.enter_context(small_stack(home))
        browser = stack.enter_context(chromium(home / "browser"))
        for name, (daemon, path, height) in PICTURES.items():
            url = daemons.of(daemon).ready["web"] + path
            picture = browser.picture(url, width=WIDTH, height=height, authorization=SECRET)
            assert len(picture) <= BYTES_MAX, f"{name}: {len(picture)} bytes"
            (folder / f"{name}.png").write_bytes(picture)
            print(folder / f"{name}.png", len(picture))


@contextmanager
def small_stack(home: Path) -> Iterator[Daemons]:
    """Run a metastore with a database, both daemons, and two drivers, one of which lacks something.

    Some events have come and a comparison has ended, so that there is something to be seen of them.
    """
    passwords = secret_file(home / "passwords", "docs:docs")
    with (
        EmbeddedMetastore(home / "hive", durable=False) as hive,
        closing(Daemons(home, hive.uri)) as daemons,
        ExitStack() as drivers,
    ):
        sample = Sample(hive.uri, "shop", location=f"file:{home}/shop")
        tables = sample.fill(tables=8, days=DAYS)
        for name in ("statestored", "catalogd"):
            daemons.start(name, f"--webserver_password_file={passwords}")
        with Subscriber(daemons.hub_address, name="reports@here:7") as reader:
            for application, reason in DRIVERS.items():
                drivers.enter_context(driver(daemons.hub_address, application, reason))
            for number in range(40):
                sample.add_day(tables[number % len(tables)], DAYS + number // len(tables))
                reader.sync(60)
            until(lambda: "behind" not in state(daemons), what="catalogd to be up to date")
            until(lambda: is_compared(daemons), timeout_s=180, what="the end of a comparison")
            yield daemons


@contextmanager
def driver(statestores: str, application: str, reason: str) -> Iterator[None]:
    """Run what looks as a driver to a hub."""
    words = command("topicast.tests.integration.driver_like", statestores, application, reason)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "open\n"
        yield
        one.communicate()


def state(daemons: Daemons) -> str:
    return "behind" if daemons.status("catalog").get("lag_events") else "up to date"


def is_compared(daemons: Daemons) -> bool:
    """Return whether catalogd has compared everything with the metastore once."""
    return daemons.status("catalog").get("reconcile_ended_s") is not None


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Stage: both daemons as processes on a metastore, a subscriber, and a table that is changed."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hmsclient import HMSClient

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.subscriber import Subscriber
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.integration.tables import database
from topicast.tests.waiting import until
from topicast.topics.wire.messages.questions import ReadTopics


@dataclass(frozen=True, slots=True)
class Stage:
    """Both daemons, a subscriber, and table ``outage.t``, written past catalogd."""

    daemons: Daemons
    catalog: Subscriber
    client: HMSClient

    def revise(self) -> str:
        """Change the table; return the revision that is to be seen."""
        table = self.client.get_table("outage", "t")
        rev = str(int(table.parameters.get("rev", "0")) + 1)
        table.parameters["rev"] = rev
        self.client.alter_table("outage", "t", table)
        return rev

    def seen(self) -> str:
        return self.catalog.table("outage.t").parameters.get("rev", "0")

    def sees(self, rev: str) -> None:
        until(lambda: self.seen() == rev, timeout_s=40, what=f"revision {rev}")

    def facts(self, name: str = "catalogd") -> dict[str, Any]:
        """Return the status of a daemon, from its own page."""
        return dict(json.loads(self.daemons.of(name).page("/?json")))

    def health(self) -> tuple[int, str]:
        return self.daemons.of("catalogd").health()

    def is_well(self) -> bool:
        return self.health() == (200, "serving\n")

    def log(self) -> str:
        return self.daemons.of("catalogd").log.read_text(encoding="utf-8")

    def held(self) -> dict[str, Any]:
        """Return what must not change while the metastore is away."""
        with self.daemons.operator() as operator:
            topics = operator.hub(ReadTopics())
        versions = [dict(zip(topics.columns, row, strict=True))["version"] for row in topics.rows]
        return {"hub": versions, "seen": self.seen(), "databases": self.catalog.databases()}


@contextmanager
def staged(metastore: EmbeddedMetastore, uri: str, folder: Path) -> Iterator[Stage]:
    """Set everything up on ``metastore``, which catalogd reaches at ``uri``."""
    with ExitStack() as up:
        client = up.enter_context(database(metastore.uri, folder, {"outage.t": 0}))
        daemons = up.enter_context(both_daemons(folder, uri))
        catalog = Subscriber(daemons.hub_address, budget="16MB", levels="full", timeout_s=30)
        stage = Stage(daemons, up.enter_context(catalog), client)
        until(stage.is_well, timeout_s=30, what="health")
        yield stage

"""Faults in the rules that distinguish a metastore from others and from its older copies."""

from collections.abc import Callable, Mapping
from typing import Any

from topicast.catalog.ingest.events.event_window import EventWindow
from topicast.catalog.ingest.events.identity import (
    Creations,
    Finding,
    Identified,
    IdentityCheck,
    compare_tables,
)
from topicast.catalog.ingest.loads.loader import Loader
from topicast.catalog.model.window_state import WindowState
from topicast.tests.sim.fault import Fault
from topicast.topics.objects.names import TableId


class TakesAnyMetastore(IdentityCheck):
    def on_identified(self, fact: Identified, **known: Any) -> Finding | None:
        super().on_identified(fact, **known)
        self.connection = fact.connection
        return Finding(same=True, why="")


class ComparesNoTables(IdentityCheck):
    def __init__(self, known_tables: Callable[[], Creations]) -> None:
        super().__init__(dict)


class ConfirmsReadsOnAnyConnection(Loader):
    def read_again(self) -> None:
        """Do nothing."""


class ForgetsWhatItIsAheadOf(EventWindow):
    def with_ahead(self, state: WindowState) -> WindowState:
        return state


def compare_names(
    known: Mapping[TableId, int | None], found: Creations, *, same_uuid: bool = False
) -> Finding:
    """Take a table of a known name for the known table."""
    dated = {table: 1 if table in found else 0 for table in known}
    return compare_tables(dict.fromkeys(known, 1), dated, same_uuid=same_uuid)


FAULTS = (
    Fault("another metastore is another epoch", "metastore_with_equal_ids", (TakesAnyMetastore,)),
    Fault(
        "tables distinguish a metastore whose log was cleaned",
        "metastore_with_a_cleaned_log",
        (ComparesNoTables,),
    ),
    Fault(
        "names alone do not prove that a metastore is the same",
        "metastore_with_equal_names",
        ((compare_tables, compare_names),),
    ),
    Fault(
        "a read is confirmed by a poll of the connection that it was made in",
        "metastore_put_back_behind_a_read",
        (ConfirmsReadsOnAnyConnection,),
    ),
    Fault(
        "a store knows the events whose effect it may show",
        "metastore_put_back_behind_a_store",
        (ForgetsWhatItIsAheadOf,),
    ),
)

"""Known: what catalogd knows of the files of tables, and the sending of what a sweep has found."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

from ....topics.keys.folder import DRIVER, find_credential
from ....topics.link import Link
from ....topics.objects.names import parse_table_name
from ....topics.settings import parse_addresses
from ....topics.wire.messages import FileFacts, Inspected, Sweep, Swept
from ...client.conversation import Conversation, catalogd_behind, greet
from ...datasource.options import hubs_of
from ...datasource.scanning import ANSWER_S, file_facts, patiently

LOADS: Final = ("loaded", "unloaded")  # what catalogd did for itself, of which no reader learns
FACTS_MAX: Final = 1000  # in one message


class Known:
    """A conversation with catalogd about files. Requests are repeated while it is away."""

    def __init__(self, catalogd: Conversation) -> None:
        self._catalogd = catalogd

    def facts(self, table: str, *, behind: str | None = None) -> Iterator[tuple[int, FileFacts]]:
        """Yield what is known of the files of ``table``, by partition, each with its revision.

        ``behind``: the partition behind which it begins; None: with the first.

        Raises:
            LinkError: catalogd does not answer.
        """
        for row in file_facts(self._catalogd, table, behind=behind):
            facts: dict[str, Any] = dict(row)
            yield facts.pop("revision"), FileFacts(**facts)

    def noticed_ms(self, table: str, *, loads: bool) -> int | None:
        """Return when readers were last notified of a change of ``table``; None: it is not known.

        ``loads``: count what catalogd has loaded, too: what is newer was not there then.
        """
        for row in _records(self._inspect(f"history@{table}")):
            if loads or row["change"] not in LOADS:
                return int(row["time_us"]) // 1000
        return None

    def send(
        self,
        table: str,
        revision: int,
        facts: Sequence[FileFacts],
        *,
        changed: Mapping[str, bool],
        removed: Sequence[str],
    ) -> Swept:
        """Send facts that were compared with ``revision``; return what catalogd says of them.

        ``changed``: by partition, whether files may be gone.

        Raises:
            NoSuchObject: the table was dropped.
            LinkError: catalogd does not answer.
        """
        db, name = parse_table_name(table)

        def make(request: int) -> Sweep:
            return Sweep(
                request=request,
                db=db,
                table=name,
                revision=revision,
                facts=tuple(facts),
                changed=tuple(changed),
                overwritten=any(changed.values()),
                removed=tuple(removed),
            )

        return patiently(lambda: self._catalogd.ask(make, Swept, timeout_s=ANSWER_S))

    def _inspect(self, what: str) -> Inspected:
        return patiently(lambda: self._catalogd.inspect(what, timeout_s=ANSWER_S))


class KnownInOrder:
    """What is known of the files of one table, read along with its sorted partitions."""

    def __init__(self, known: Known, table: str, *, behind: str | None = None) -> None:
        """``behind``: the partition behind which it begins; None: with the first."""
        self._known, self._table = known, table
        self._rows: Iterator[tuple[int, FileFacts]]  # behind those that were returned
        self._ahead: tuple[int, FileFacts] | None  # the first of them
        self._behind = behind  # where the last range began
        self._next = behind  # where the next one does
        self.revision = 0
        """As of which the facts are, and later what a Sweep of the reader has made of it."""
        self._read()

    def up_to(self, last: str | None) -> dict[str, FileFacts]:
        """Return the facts of the next range, which ends with ``last``; None: with the table."""
        self._behind, self._next = self._next, last
        found = {}
        while self._ahead is not None and (last is None or self._ahead[1].partition <= last):
            one = self._ahead[1]
            found[one.partition] = one
            self._ahead = next(self._rows, None)
        return found

    def go_back(self, revision: int) -> None:
        """Go back to where the last range began, because the table is at ``revision`` now."""
        self._next, self.revision = self._behind, revision
        self._read()

    def _read(self) -> None:
        self._rows = self._known.facts(self._table, behind=self._next)
        self._ahead = next(self._rows, None)
        if self._ahead is not None:
            self.revision = self._ahead[0]


@contextmanager
def known_at(statestores: str | None, *, key_file: str | None = None) -> Iterator[Known]:
    """Connect to the catalogd behind the first hub that answers.

    Raises:
        LinkError: none answers, or it has no catalogd.
        ConfigError: there is no key file.
    """
    hubs = parse_addresses(hubs_of(statestores, os.environ), setting="statestores")
    credential = find_credential(DRIVER, key_file=key_file, environ=os.environ)
    with closing(Link(credential.pair)) as link:
        address, hub, welcome = greet(link, hubs, credential, timeout_s=ANSWER_S)
        try:
            with catalogd_behind(link, welcome, credential, hub=address) as catalogd:
                yield Known(catalogd)
        finally:
            hub.leave()


def _records(table: Inspected) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]

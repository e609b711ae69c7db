"""catalogd over a shop: what it publishes and answers, for tests of one class that takes it in."""

from topicast.tests.cluster.alone import Alone
from topicast.tests.cluster.shop import Shop
from topicast.topics.objects.names import parse_table_name, table_key
from topicast.topics.topic import Entry, table_topic
from topicast.topics.wire.messages.catalog import Pull, Pulled
from topicast.topics.wire.messages.data import Delta

LOADED_S = 2.0  # virtual: until everything is loaded
CHANGED_S = 1.0  # until a change is published


class Published(Alone):
    """A shop, the topics and deltas that a catalogd makes of it, and its answers."""

    def __init__(self, shop: Shop | None = None, *, num_topics: int = 4) -> None:
        self.shop = shop if shop is not None else Shop()
        self.num_topics = num_topics
        super().__init__(hubs=1, source=self.shop, num_topics=num_topics)
        self._sent = self.record()
        self.wait(LOADED_S)
        self._sent.clear()

    @property
    def epoch(self) -> int:
        return self.catalogd.store.epoch

    def deltas(self) -> list[Delta]:
        """Let changes of the shop be published, and return the deltas since the last call."""
        self.wait(CHANGED_S)
        deltas = [message for _, message in self._sent if isinstance(message, Delta)]
        self._sent.clear()
        return deltas

    def topic(self, name: str) -> int:
        return table_topic(*parse_table_name(name), self.num_topics)

    def rows(self, name: str) -> tuple[Entry, ...]:
        """Return the entries of the table ``name``, its own first."""
        rows = self.topics[self.topic(name)].rows(table_key(*parse_table_name(name)))
        return tuple(sorted(rows))

    def pulled(self, pull: Pull) -> Pulled:
        """Return the one answer to ``pull``."""
        self.ask(pull)
        self.wait(0.1)
        return self.reply(Pulled)

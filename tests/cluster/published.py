"""What catalogd publishes of a shop, for tests of what is built from entries; without readers."""

from collections.abc import Mapping

from topicast.tests.cluster.cluster import Cluster
from topicast.tests.cluster.shop import Shop
from topicast.topics.objects.names import parse_table_name, table_key
from topicast.topics.topic import Entry, Topic, table_topic
from topicast.topics.wire.messages import Delta

LOADED_S = 2.0  # virtual: until everything is loaded
CHANGED_S = 1.0  # until a change is published


class Published:
    """A shop, and the topics and deltas that a catalogd makes of it."""

    def __init__(self, shop: Shop | None = None, *, num_topics: int = 4) -> None:
        self.shop = shop if shop is not None else Shop()
        self.num_topics = num_topics
        self._cluster = Cluster(setups=(), hubs=1, metastore=self.shop, num_topics=num_topics)
        self._sent = self._cluster.record()
        self._cluster.run(self._cluster.now + LOADED_S)
        self._sent.clear()

    @property
    def topics(self) -> Mapping[int, Topic]:
        """The topics as they are now."""
        return self._cluster.catalogd.published.topics

    def deltas(self) -> list[Delta]:
        """Let changes of the shop be published, and return the deltas since the last call."""
        self._cluster.run(self._cluster.now + CHANGED_S)
        deltas = [message for _, message in self._sent if isinstance(message, Delta)]
        self._sent.clear()
        return deltas

    def topic(self, name: str) -> int:
        return table_topic(*parse_table_name(name), self.num_topics)

    def rows(self, name: str) -> tuple[Entry, ...]:
        """Return the entries of the table ``name``, its own first."""
        rows = self.topics[self.topic(name)].rows(table_key(*parse_table_name(name)))
        return tuple(sorted(rows))

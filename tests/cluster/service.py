"""catalogd's answers: its real core over a shop, for tests that feed them to one class."""

from typing import TypeVar

from topicast.tests.cluster.cluster import Cluster
from topicast.tests.cluster.shop import Shop
from topicast.topics.objects.names import parse_table_name, table_key
from topicast.topics.topic import NAMESPACE, Entry, Topic, table_topic
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages import Message, Pull, Pulled

M = TypeVar("M", bound=Message)
NUM_TOPICS = 4


class CatalogService:
    """A catalogd that has read its shop, and one client of it."""

    name = "client"

    def __init__(self, shop: Shop | None = None) -> None:
        self.shop = shop if shop is not None else Shop()
        self._cluster = Cluster(setups=(), hubs=1, metastore=self.shop, num_topics=NUM_TOPICS)
        self._cluster.clients[b"t/"] = self
        self._answers: list[Message] = []
        self.settle()

    @property
    def epoch(self) -> int:
        return self._cluster.catalogd.store.epoch

    def topic(self, name: str) -> Topic:
        """Return the topic of the table ``name``; "" is the namespace."""
        topics = self._cluster.catalogd.published.topics
        return topics[table_topic(*parse_table_name(name), NUM_TOPICS) if name else NAMESPACE]

    def rows(self, name: str) -> list[Entry]:
        return list(self.topic(name).rows(table_key(*parse_table_name(name))))

    def settle(self) -> None:
        """Let catalogd read what was changed in the shop."""
        self._cluster.run(self._cluster.now + 2.0)

    def take_service(self, _place: bytes, frame: bytes) -> None:
        self._answers.append(decode(frame))

    def answer(self, message: Message, kind: type[M]) -> M:
        """Return the one answer to ``message``."""
        self._answers.clear()
        catalogd = self._cluster.catalogd
        catalogd.take_asked(b"t/0/%d" % catalogd.life, encode(message))
        self._cluster.run(self._cluster.now + 0.1)
        (answer,) = self._answers
        assert isinstance(answer, kind)
        return answer

    def pulled(self, pull: Pull) -> Pulled:
        return self.answer(pull, Pulled)

"""Shops with more tables than their subscriber has room for."""

from topicast.tests.cluster.published import Published
from topicast.tests.cluster.shop import NAMES, Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.topic import NAMESPACE


def sizes(shop: Shop | None = None) -> dict[int, int]:
    """Return the bytes of each topic of a shop at full."""
    return {topic: held.held_bytes for topic, held in Published(shop).topics.items()}


def large(tables: int = 40) -> Shop:
    """Return a shop of six tables and ``tables`` more."""
    return Shop((*NAMES, *(f"t{number}" for number in range(tables))))


def crowded(room: int, *, tables: int = 40, **more: object) -> Shopping:
    """Return a shopping that chooses its levels, with ``room`` bytes beside the names."""
    shop = large(tables)
    budget = sizes(shop)[NAMESPACE] + room
    return Shopping(shop, late=True, automatic=True, budget_bytes=budget, **more)  # type: ignore[arg-type]  # each test names its own


def levels(shopping: Shopping) -> dict[int, str]:
    """Return the level of each table topic."""
    return {t: info.level for t, info in shopping.topics().items() if t != NAMESPACE}

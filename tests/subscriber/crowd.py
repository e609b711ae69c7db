"""Shops with more tables than their subscriber has room for."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from topicast.tests.cluster.published import Published
from topicast.tests.cluster.shop import NAMES, Shop
from topicast.tests.cluster.shopping import Shopping
from topicast.topics.topic import NAMESPACE


def sizes(shop: Shop | None = None) -> dict[int, int]:
    """Return the bytes of each topic of a shop at full."""
    if shop is None:
        return dict(_sizes_of_large(0))
    return {topic: held.held_bytes for topic, held in Published(shop).topics.items()}


@cache
def _sizes_of_large(tables: int) -> Mapping[int, int]:
    return MappingProxyType(sizes(large(tables)))


def large(tables: int = 40) -> Shop:
    """Return a shop of six tables and ``tables`` more."""
    return Shop((*NAMES, *(f"t{number}" for number in range(tables))))


def crowded(room: int, *, tables: int = 40, **more: object) -> Shopping:
    """Return a shopping that chooses its levels, with ``room`` bytes beside the names."""
    budget = _sizes_of_large(tables)[NAMESPACE] + room
    return Shopping(large(tables), late=True, automatic=True, budget_bytes=budget, **more)  # type: ignore[arg-type]  # each test names its own


def levels(shopping: Shopping) -> dict[int, str]:
    """Return the level of each table topic."""
    return {t: info.level for t, info in shopping.topics().items() if t != NAMESPACE}

"""An operator: orders to catalogd, in every mode, some of them wrong."""

from collections import Counter

from topicast.tests.cluster.catalogd import MODES
from topicast.tests.cluster.metastore import PARTS
from topicast.tests.cluster.violation import Violation
from topicast.tests.sim.world import World
from topicast.topics.wire.messages.answers import Inspected
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.questions import Order

EVERY_S = 0.6  # on average
WRONG = (
    ("mode", "none"),
    ("mode", "mixed", "*.t"),
    ("mode", "mixed", "*.t=mixed"),
    ("mode", "minimal", "*.t=minimal", "more"),
    ("invalidate", "a.t/ds"),
    ("forget", "a.t"),
    ("drivers", "none"),
    ("events", "stop"),
    ("events", "start", "-2"),
)
EVENTS = (("pause",), ("pause",), ("start",), ("start", "-1"), ())
RULES = (("off",), ("off", "x"), ("dry-run", "x"), ("on",))


class Operator:
    """Orders something now and then, and holds the answers against what was ordered."""

    def __init__(self, world: World, counts: Counter[str]) -> None:
        self._world = world
        self._counts = counts
        self._number = 0
        self._asked: dict[int, tuple[str, ...]] = {}
        world.catalogd.ordered = self._answered

    def begin(self) -> None:
        """Order one thing, and others after it."""
        if not self._world.faults:
            return
        rng, catalogd = self._world.rng, self._world.catalogd
        if catalogd.alive:
            words = rng.choice(WRONG) if rng.random() < 0.15 else self._draw()
            self._number += 1
            self._asked[self._number] = words
            before = catalogd.mode
            order, *arguments = words
            message = Order(
                request=self._number, sender="ann", order=order, arguments=tuple(arguments)
            )
            self._world.note(" ".join(words))
            catalogd.order(message)
            if words in WRONG and catalogd.mode != before:
                raise Violation(f"{' '.join(words)} has changed the mode")
        self._world.at(rng.expovariate(1 / EVERY_S), self.begin)

    def _draw(self) -> tuple[str, ...]:
        rng = self._world.rng
        order = rng.choice(("invalidate", "refresh", "refresh", "mode", "drivers", "events"))
        if order == "events":
            at = rng.randrange(self._world.metastore.last_id + 2)
            return order, *(rng.choice(EVENTS) or ("start", str(at)))
        if order == "drivers":
            return order, *rng.choice(RULES)
        if order == "mode":
            mode = rng.choice(MODES)
            overrides = ",".join(f"{one.pattern}={one.mode}" for one in mode.overrides)
            return order, mode.name, overrides
        db, name = rng.choice(tuple(self._world.metastore.history))
        objects = ["", db, f"{db}.{name}", f"{db}.{name}"]
        if rng.random() < 0.6:
            objects.append(f"{db}.{name}/{rng.choice(PARTS)}")
        return order, rng.choice(objects)

    def _answered(self, message: Message) -> None:
        words = self._asked.pop(getattr(message, "request", 0), None)
        if words is None:
            return
        obeyed = isinstance(message, Inspected)
        if obeyed and words in WRONG:
            raise Violation(f"{' '.join(words)} was obeyed: {message}")
        self._counts[f"{words[0]} obeyed" if obeyed else "orders refused"] += 1

"""Messages: immutable, keyword-only, one class for every shape, no field that nothing checks."""

import dataclasses
from importlib import import_module
from pkgutil import iter_modules

import pytest

from topicast.topics.wire import messages
from topicast.topics.wire.messages.data import Barrier, Chunk, Delta, Heartbeat
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.shapes import SHAPES

MODULES = [
    import_module(f"{messages.__name__}.{one.name}") for one in iter_modules(messages.__path__)
]
DATA = (Delta, Chunk, Heartbeat, Barrier)
EVERY = tuple(
    {
        one: None
        for module in MODULES
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Message) and not one.__subclasses__()
    }
)


@pytest.mark.parametrize("cls", EVERY)
def test_message_is_frozen_and_built_by_keyword(cls: type) -> None:
    params = cls.__dataclass_params__  # type: ignore[attr-defined]  # what dataclass leaves behind
    assert params.frozen
    assert not hasattr(cls, "__dict__") or "__slots__" in vars(cls)
    assert all(field.kw_only for field in dataclasses.fields(cls))


def test_every_message_has_a_header_or_a_shape() -> None:
    assert set(EVERY) == {*DATA, *SHAPES}

"""Messages: immutable, keyword-only, one class for every shape, no field that nothing checks."""

import dataclasses
from typing import get_args

import pytest

from topicast.topics.wire import messages as m
from topicast.topics.wire.codec import SHAPES

DATA = (m.Delta, m.Chunk, m.Heartbeat, m.Barrier)
EVERY = get_args(m.Message)


@pytest.mark.parametrize("cls", EVERY)
def test_message_is_frozen_and_built_by_keyword(cls: type) -> None:
    params = cls.__dataclass_params__  # type: ignore[attr-defined]  # what dataclass leaves behind
    assert params.frozen
    assert not hasattr(cls, "__dict__") or "__slots__" in vars(cls)
    assert all(field.kw_only for field in dataclasses.fields(cls))


def test_every_message_has_a_header_or_a_shape() -> None:
    assert set(EVERY) == {*DATA, *SHAPES}

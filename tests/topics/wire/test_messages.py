"""Messages: immutable, keyword-only, one class for every shape, no field that nothing checks."""

import dataclasses
from typing import get_args

import pytest

from topicast.topics.wire import messages as m
from topicast.topics.wire.control import SHAPES

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


@pytest.mark.parametrize("cls", sorted(SHAPES, key=lambda cls: SHAPES[cls][0]))
def test_shape_names_the_fields_in_their_order(cls: type) -> None:
    """P-MSG-1."""
    assert [name for name, _, _ in SHAPES[cls][1]] == [f.name for f in dataclasses.fields(cls)]


@pytest.mark.parametrize(
    "codes",
    [
        (m.READER, m.PUBLISHER, m.OPERATOR),
        (m.CONTROL_CHANNEL, m.BULK_CHANNEL),
        (m.SOURCE_LOAD, m.SOURCE_EVENTS, m.SOURCE_REPORTS, m.SOURCE_RECONCILE),
        (m.CURRENT, m.BEHIND, m.SNAPSHOT, m.DENIED),
        (m.SELECT_TABLE, m.SELECT_BLOCKS),
    ],
)
def test_codes_of_one_kind_differ(codes: tuple[int, ...]) -> None:
    assert len(set(codes)) == len(codes)
    assert all(0 <= code <= 255 for code in codes)

"""Names alone come back as they went, in fewer bytes than they have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.topics.errors import WireError
from topicast.topics.objects.values import decode_listing, encode_listing, pack

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1)


@given(st.sets(texts, max_size=20))
def test_names_come_back_as_they_went(names: set[str]) -> None:
    assert decode_listing(encode_listing(sorted(names))) == tuple(sorted(names))


def test_names_that_are_alike_take_few_bytes() -> None:
    names = [f"ds=2026-11-01/hour={number:06d}" for number in range(1024)]
    assert len(encode_listing(names)) < 8 * len(names)


@pytest.mark.parametrize("value", [b"\x07", pack(["a"]), pack("b\0a"), pack("a\0a"), pack("\0a")])
def test_what_is_no_listing_is_refused(value: bytes) -> None:
    with pytest.raises(WireError):
        decode_listing(value)

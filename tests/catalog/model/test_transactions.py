import pytest

from topicast.catalog.model.versions import Transaction
from topicast.topics.entries import Entry


def transaction(from_version: int, to_version: int, *entries: Entry) -> Transaction:
    return Transaction(
        topic=0,
        from_version=from_version,
        to_version=to_version,
        entries=entries,
        source=0,
        at_us=1,
    )


def entry(version: int, schema_version: int = 1, data_version: int = 1) -> Entry:
    return Entry(b"a\0b\0", version, schema_version, data_version, 1, b"x")


@pytest.mark.parametrize(
    "sound", [transaction(0, 1, entry(1)), transaction(4, 6, entry(6), entry(6)), transaction(1, 2)]
)
def test_entries_of_the_transactions_version_are_sound(sound: Transaction) -> None:
    sound.check()


@pytest.mark.parametrize(
    "broken",
    [
        transaction(1, 1),
        transaction(2, 1),
        transaction(-1, 1),
        transaction(1, 2, entry(1)),
        transaction(1, 3, entry(2)),
        transaction(1, 2, entry(3)),
        transaction(1, 2, entry(2, schema_version=3)),
        transaction(1, 2, entry(2, data_version=3)),
    ],
)
def test_versions_that_disagree_are_a_programmers_error(broken: Transaction) -> None:
    with pytest.raises(AssertionError):
        broken.check()

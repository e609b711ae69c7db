"""A dict keeps the keys that were put last."""

from topicast.topics.newest import Newest


def test_the_oldest_key_is_dropped_for_one_more_and_a_key_put_again_is_the_newest() -> None:
    kept = Newest[str, int](2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept == {"a": 1, "b": 2}
    kept.put("a", 3)
    assert list(kept.items()) == [("b", 2), ("a", 3)]
    kept.put("c", 4)
    assert kept == {"a": 3, "c": 4}
    assert kept.get("a") == 3
    kept.put("d", 5)
    assert kept == {"c": 4, "d": 5}, "reading a key does not keep it"

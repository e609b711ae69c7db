from topicast.topics.errors import VersionMismatch, WireError
from topicast.topics.wire.refusal import refusal


def test_garbage_is_refused_with_what_is_spoken_here() -> None:
    refused = refusal(WireError("frame of 2 bytes is too short"))
    assert refused.code == "WIRE"
    assert refused.message.startswith("frame of 2 bytes is too short; protocol 1 is spoken here")
    assert (refused.request, refused.retry_ms) == (0, 0)


def test_another_version_is_refused_as_such() -> None:
    refused = refusal(VersionMismatch("1", "9"))
    assert refused.code == "VERSION"
    assert "upgrade one side" in refused.message

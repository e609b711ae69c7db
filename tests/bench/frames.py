"""Frames: what links of this process receive, counted as it arrives."""

from dataclasses import dataclass, field

from topicast.topics.link import Link, ReceivedFrame
from topicast.topics.wire.header import DELTA_KIND, HEADER_BYTES, HEARTBEAT_KIND


@dataclass(slots=True)
class Frames:
    """Bytes in total, and frames, since the last ``clear``."""

    total: int = 0
    frames: int = 0
    heartbeat_bytes: int = 0
    deltas: list[tuple[int, int]] = field(default_factory=list)
    """Of each delta, its topic and its bytes."""

    def clear(self) -> None:
        self.total = self.frames = self.heartbeat_bytes = 0
        self.deltas.clear()

    def add(self, frame: bytes) -> None:
        self.total += len(frame)
        self.frames += 1
        kind = frame[4] if len(frame) >= HEADER_BYTES else 0
        if kind == HEARTBEAT_KIND:
            self.heartbeat_bytes += len(frame)
        elif kind == DELTA_KIND:
            self.deltas.append((int.from_bytes(frame[1:3], "big"), len(frame)))


def count_frames() -> Frames:
    """Count what every link of this process receives from now on."""
    frames = Frames()
    poll = Link.poll

    def counting(link: Link, timeout_s: float) -> list[ReceivedFrame]:
        received = poll(link, timeout_s)
        for one in received:
            frames.add(one.frame)
        return received

    Link.poll = counting  # type: ignore[method-assign]  # to look, nothing else
    return frames

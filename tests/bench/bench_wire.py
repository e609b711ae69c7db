"""What one delta of 1 KB costs: built, read by a hub, read by a reader. Times are of one delta.

delta_encode      Delta -> frame            header_read   frame -> Header, CRC included
rows_read         what a hub reads          delta_decode  what a reader reads
minimal_encode    the frame without values  chunk_decode  one chunk of 256 KB, per entry
"""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from topicast.topics.entries import FULL, MINIMAL, Entry, stub
from topicast.topics.wire import decode, encode
from topicast.topics.wire.codec import read_entries
from topicast.topics.wire.header import HEADER_BYTES, read_header
from topicast.topics.wire.messages import Chunk, Delta

SEED = 3
RUNS = 5
DELTA_BYTES = 1024
CHUNK_ENTRIES = 250


def best_us(work: Callable[[], object], *, calls: int) -> float:
    """Return the microseconds of one call, best of RUNS runs."""
    best = float("inf")
    for _ in range(RUNS):
        begin = perf_counter()
        for _ in range(calls):
            work()
        best = min(best, perf_counter() - begin)
    return best / calls * 1e6


def say(name: str, us: float, **more: float) -> None:
    """Print one result as a JSON line."""
    print(json.dumps({"bench": "wire", "name": name, "us": round(us, 3), **more}))


def block(rng: random.Random, number: int, size: int) -> Entry:
    """Return a block of a table as catalogd would write it."""
    key = b"sales\0orders\0\x01ds=2026-%04d" % number
    return Entry(key, 1000 + number, 900, 1000 + number, size, rng.randbytes(size))


def main() -> None:
    """Measure, print."""
    rng = random.Random(SEED)
    one = block(rng, 0, DELTA_BYTES)
    delta = Delta(
        topic=7,
        level=FULL,
        epoch=1 << 50,
        start=1 << 60,
        from_version=999,
        to_version=1000,
        floor=10,
        sent_us=1 << 50,
        source=1,
        entries=(one,),
    )
    frame = encode(delta)
    body = frame[HEADER_BYTES:]
    header = read_header(frame)
    say("delta_encode", best_us(lambda: encode(delta), calls=20_000), bytes=len(frame))
    say("header_read", best_us(lambda: read_header(frame), calls=50_000))
    say("rows_read", best_us(lambda: read_entries(header, body), calls=50_000))
    say("delta_decode", best_us(lambda: decode(frame), calls=20_000))
    stubs = replace(delta, level=MINIMAL, entries=(stub(one),))
    say("minimal_encode", best_us(lambda: encode(stubs), calls=20_000), bytes=len(encode(stubs)))
    entries = tuple(block(rng, number, 1000) for number in range(CHUNK_ENTRIES))
    chunk = Chunk(
        topic=7,
        level=FULL,
        epoch=1 << 50,
        start=1 << 60,
        from_version=0,
        to_version=2000,
        floor=10,
        sent_us=1 << 50,
        stream=1,
        sequence=0,
        resume_version=entries[-1].version,
        resume_key=entries[-1].key,
        entries=entries,
        first=True,
        snapshot=True,
    )
    large = encode(chunk)
    us = best_us(lambda: decode(large), calls=50)
    say("chunk_decode", us / CHUNK_ENTRIES, bytes=len(large))


if __name__ == "__main__":
    main()

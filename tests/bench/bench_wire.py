"""What one delta of 1 KB costs: built, read by a hub, read by a reader. Times are of one delta.

delta_encode      Delta -> frame            header_read   frame -> Header, CRC included
rows_read         what a hub reads          delta_decode  what a reader reads
minimal_encode    the frame without values  chunk_decode  one chunk of 256 KB, per entry

Encoding and decoding stand beside msgpack with names for fields and no CRC; parts beside the whole.
"""

import random
from dataclasses import asdict, replace

import msgpack

from topicast.tests.bench.report import beside, best_us, say
from topicast.topics.topic import FULL, MINIMAL, Entry, stub
from topicast.topics.wire import decode, encode
from topicast.topics.wire.codec import read_entries, read_header
from topicast.topics.wire.header import HEADER_BYTES
from topicast.topics.wire.messages.data import Chunk, Delta

SEED = 3
DELTA_BYTES = 1024
CHUNK_ENTRIES = 250
# Of the ratios below: frames have typed fields and a CRC, which msgpack has not.
ENCODE_MAX, DECODE_MAX, PART_MAX, MINIMAL_BYTES_MAX, CHUNK_MAX = 3.0, 5.0, 0.4, 0.2, 0.3
PLACE = {"topic": 7, "level": FULL, "epoch": 1 << 50, "start": 1 << 60, "sent_us": 1 << 50}


def block(rng: random.Random, number: int, size: int) -> Entry:
    """Return a block of a table as catalogd would write it."""
    key = b"sales\0orders\0\x01ds=2026-%04d" % number
    return Entry(key, 1000 + number, 900, 1000 + number, size, rng.randbytes(size))


def bench_delta(delta: Delta) -> float:
    """Measure a delta; return the microseconds that a reader takes."""
    frame = encode(delta)
    body = frame[HEADER_BYTES:]
    header = read_header(frame)
    named = asdict(delta)
    packed = msgpack.packb(named)
    us = best_us(lambda: encode(delta), calls=20_000)
    its = best_us(lambda: msgpack.packb(named), calls=20_000)
    say("delta_encode", beside("msgpack", us, its, most=ENCODE_MAX), us=us, bytes=len(frame))
    whole = best_us(lambda: decode(frame), calls=20_000)
    its = best_us(lambda: msgpack.unpackb(packed), calls=20_000)
    say("delta_decode", beside("msgpack", whole, its, most=DECODE_MAX), us=whole)
    us = best_us(lambda: read_header(frame), calls=50_000)
    say("header_read", beside("delta_decode", us, whole, most=PART_MAX), us=us)
    us = best_us(lambda: read_entries(header, body), calls=50_000)
    say("rows_read", beside("delta_decode", us, whole, most=PART_MAX), us=us)
    small = replace(delta, level=MINIMAL, entries=tuple(map(stub, delta.entries)))
    us, size = best_us(lambda: encode(small), calls=20_000), len(encode(small))
    against = beside("bytes of the full frame", size, len(frame), most=MINIMAL_BYTES_MAX)
    say("minimal_encode", against, us=us, bytes=size)
    return whole


def bench_chunk(rng: random.Random, delta_us: float) -> None:
    entries = tuple(block(rng, number, 1000) for number in range(CHUNK_ENTRIES))
    chunk = Chunk(
        **PLACE,
        from_version=0,
        to_version=2000,
        floor=10,
        stream=1,
        sequence=0,
        resume_version=entries[-1].version,
        resume_key=entries[-1].key,
        entries=entries,
        first=True,
        snapshot=True,
    )
    large = encode(chunk)
    us = best_us(lambda: decode(large), calls=50) / CHUNK_ENTRIES
    against = beside("delta_decode", us, delta_us, most=CHUNK_MAX)
    say("chunk_decode", against, us=us, bytes=len(large))


def main() -> None:
    rng = random.Random(SEED)
    one = block(rng, 0, DELTA_BYTES)
    delta = Delta(**PLACE, from_version=999, to_version=1000, floor=10, source=1, entries=(one,))
    bench_chunk(rng, bench_delta(delta))

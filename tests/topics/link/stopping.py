"""A reader that subscribes and then never reads again."""

from collections.abc import Iterator
from contextlib import contextmanager

import zmq

from topicast.tests.keys import PAIR
from topicast.topics.link.curve import join


@contextmanager
def reader_that_stops(address: str) -> Iterator[None]:
    """Subscribe to b"a", and never read: after one message its socket takes no more from TCP."""
    with zmq.Context() as context, context.socket(zmq.SUB) as reader:
        reader.linger, reader.rcvhwm = 0, 1
        join(reader, PAIR, PAIR.public)
        reader.connect(address)
        reader.setsockopt(zmq.SUBSCRIBE, b"a")
        yield

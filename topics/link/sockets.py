"""Sockets: the four types of ZeroMQ's sockets that are used, and every option of each.

    XPUB   (bound by a hub)      ──▶ XSUB     deltas, heartbeats; subscriptions come back
    ROUTER (bound by any daemon) ◀─▶ DEALER   control, bulk: everything with an answer

This module sets every option for which ZeroMQ has a default that matters, but for three: IMMEDIATE
(a frame that is sent while the first connection is being made waits for it), ROUTING_ID (the ROUTER
names its peers, so that no peer chooses a name), XPUB_NODROP (one stopped reader would stop all the
others).

**Where bytes are bounded.** High-water marks count messages, not bytes, and ZeroMQ does not say how
much of a queue is left. So each type bounds the frame as well, and a queue holds at most mark x
frame: 64 MiB for a reader that stopped, with frames of at most 64 KiB as the wire says. Larger
frames, the 256 KiB chunks on a ROUTER, are bounded by the credit that their reader has given. The
frames that an XSUB has received are bounded by the bytes that its process allows: beyond these, TCP
holds the XPUB back, which drops.

**Who pings.** The XPUB does, so that a reader that froze is cut off, and its queue there is freed.
The reader must not: libzmq 4.3.5 ends a process (stream_engine_base.cpp: !_io_error) that pings
over a connection that died while its receive queue was full, and a stall of a reader fills its
queue. No option bounds a peer that never ends a message (MORE without end). Only keys keep such a
peer out, so every socket has them: `curve`.
"""

from enum import Enum
from typing import Final

import zmq

PUBLISHED_BYTES_MAX: Final = 128 * 1024  # deltas end at 64 KiB; a heartbeat of 4,096 topics
FRAME_BYTES_MAX: Final = 1024 * 1024 + 256  # the wire's largest frame, and room for a header
SUBSCRIPTION_BYTES_MAX: Final = 512  # a barrier has 20 bytes, the handshake of CURVE 300
CURVE_BYTES: Final = 33  # that encryption adds to a frame

PUBLISHED_MAX: Final = 1000  # x 64 KiB: a stopped reader costs 64 MiB; at 1 KB, 30 ms of full speed
SUBSCRIPTIONS_MAX: Final = 20_000  # twice the prefixes of 4,096 topics at two levels, one by one
READ_BYTES_MAX: Final = 64 << 20  # received and not read, unless a reader says otherwise
READ_MIN: Final = 8  # frames; with fewer ZeroMQ's thread stops for each
SENT_MAX: Final = 1000  # of 64 KiB, and of chunks as many as there is credit for
QUEUED_MAX: Final = 256  # of at most 1 MiB, then TCP holds the sender back: nothing is lost

HANDSHAKE_MS: Final = 2000  # a stranger that connects and says nothing is cut off
# A connection waits for its turn: the 3,000 handshakes of 1,000 drivers whose hub has restarted
# take one thread of it 1 ms each, and what it gave to a socket that ends early is lost.
HANDSHAKE_TURN_MS: Final = 10_000
CONNECT_MS: Final = 2000  # a connection into a black hole is tried anew
RECONNECT_MS: Final = 50  # a hub is back 50 to 200 ms after its restart
RECONNECT_MAX_MS: Final = 500
SILENT_S: Final = 2  # of a connection, until the kernel probes the other end
PROBE_S: Final = 1
PROBES: Final = 2  # without an answer: a black hole is seen within 4 s; a hung application is not
UNACKNOWLEDGED_MS: Final = 4000  # the same for a connection with bytes under way
PING_MS: Final = 1000  # of an XPUB to each reader, whose library answers
PONG_MS: Final = 3000  # without an answer: the process froze, or does not read
GOODBYE_S: Final = 0.2  # that a DEALER's last frames have to leave when its link is closed
BACKLOG: Final = 1024  # connections that arrive in one storm


class SocketType(Enum):
    """The types of sockets, each with one set of options."""

    XPUB = zmq.XPUB
    # Not SUB: libzmq 4.3.5 drops a subscription that begins with byte 1, as ours do, by adding
    # a subscription for what follows that byte; XSUB takes as bytes what begins and what ends.
    XSUB = zmq.XSUB
    ROUTER = zmq.ROUTER
    DEALER = zmq.DEALER


SENT_BYTES_MAX: Final = {
    SocketType.XPUB: PUBLISHED_BYTES_MAX,
    SocketType.ROUTER: FRAME_BYTES_MAX,
    SocketType.DEALER: FRAME_BYTES_MAX,
}
"""The largest frame that each type sends: what the other end accepts. An XSUB sends none."""

_COMMON: Final = {
    zmq.LINGER: 0,
    # The kernel looks for black holes, and wakes nobody. ZeroMQ must not: a connection that it
    # takes for dead while a queue is full ends the whole process (libzmq 4.3.5, issue 3937).
    zmq.HEARTBEAT_IVL: 0,
    zmq.HEARTBEAT_TIMEOUT: 0,  # never
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: SILENT_S,
    zmq.TCP_KEEPALIVE_INTVL: PROBE_S,
    zmq.TCP_KEEPALIVE_CNT: PROBES,
}
_BOUND: Final = _COMMON | {zmq.BACKLOG: BACKLOG, zmq.HANDSHAKE_IVL: HANDSHAKE_MS}
_CONNECTED: Final = _COMMON | {
    zmq.HANDSHAKE_IVL: HANDSHAKE_TURN_MS,
    zmq.CONNECT_TIMEOUT: CONNECT_MS,
    zmq.RECONNECT_IVL: RECONNECT_MS,
    zmq.RECONNECT_IVL_MAX: RECONNECT_MAX_MS,
    # Not of the bound end: it would cut off a reader that only stands still.
    zmq.TCP_MAXRT: UNACKNOWLEDGED_MS,
}
OPTIONS: Final = {
    SocketType.XPUB: _BOUND
    | {
        zmq.SNDHWM: PUBLISHED_MAX,
        zmq.RCVHWM: SUBSCRIPTIONS_MAX,
        zmq.HEARTBEAT_IVL: PING_MS,
        zmq.HEARTBEAT_TIMEOUT: PONG_MS,
        zmq.MAXMSGSIZE: SUBSCRIPTION_BYTES_MAX,
        # Every subscription is reported, also the second of a prefix: so is each reader's barrier.
        # Of unsubscriptions only the last of a prefix is reported: then nobody listens any more.
        zmq.XPUB_VERBOSE: 1,
    },
    SocketType.XSUB: _CONNECTED
    | {
        zmq.SNDHWM: SUBSCRIPTIONS_MAX,
        zmq.RCVHWM: READ_BYTES_MAX // PUBLISHED_BYTES_MAX,
        zmq.MAXMSGSIZE: PUBLISHED_BYTES_MAX + CURVE_BYTES,
    },
    SocketType.ROUTER: _BOUND
    | {
        zmq.SNDHWM: SENT_MAX,
        zmq.RCVHWM: QUEUED_MAX,
        zmq.MAXMSGSIZE: FRAME_BYTES_MAX + CURVE_BYTES,
        zmq.ROUTER_MANDATORY: 1,  # an unknown or full peer is an answer, not a silent loss
        zmq.ROUTER_HANDOVER: 0,  # nobody takes over another's name
    },
    SocketType.DEALER: _CONNECTED
    | {
        zmq.SNDHWM: SENT_MAX,
        zmq.RCVHWM: QUEUED_MAX,
        zmq.MAXMSGSIZE: FRAME_BYTES_MAX + CURVE_BYTES,
    },
}


def read_max(inbox_bytes: int) -> int:
    """Return how many frames an XSUB may have received whose inbox has ``inbox_bytes``."""
    return max(inbox_bytes // PUBLISHED_BYTES_MAX, READ_MIN)

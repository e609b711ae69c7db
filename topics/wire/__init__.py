"""The wire: every message, its bytes, and the header that a hub reads without the body.

Authority: ``docs/protocol.md``. Bytes in, a message or ``WireError`` out, never anything else.
"""

from .codec import decode, encode

__all__ = ["decode", "encode"]

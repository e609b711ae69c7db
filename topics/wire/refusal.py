"""Refusal: what is answered to a frame that cannot be read."""

from ..errors import VersionMismatch, WireError
from .header import PROTOCOL
from .messages import Refused


def refusal(error: WireError) -> Refused:
    """Return the answer to bytes that ``decode`` refused with ``error``."""
    if isinstance(error, VersionMismatch):
        return Refused(request=0, code="VERSION", message=str(error), retry_ms=0)
    text = f"{error}; protocol {PROTOCOL} is spoken here, see docs/protocol.md"
    return Refused(request=0, code="WIRE", message=text, retry_ms=0)

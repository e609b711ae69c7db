"""The command that a driver runs beside itself: its subscriber, and the endpoint on it."""

from ...subscriber.endpoint.agent import main
from ..flags import command


@command(hidden=True)  # no person runs it
def agent() -> int:
    """Answer a driver's metadata reads on loopback. Drivers do not start it yet.

    The settings are one line of JSON on standard input, with a token and the addresses of hubs;
    then a line with its port is printed. It ends with its standard input.
    """
    return main()

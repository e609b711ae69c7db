"""The command that a driver runs beside itself."""

from ...subscriber.spark.jar.agent import main
from ..flags import command


@command(hidden=True)  # no person runs it
def agent() -> int:
    """Attach the driver that has started it, or answer the metadata reads of one in Python.

    One line of JSON on standard input says which; it ends with its standard input.
    """
    return main()

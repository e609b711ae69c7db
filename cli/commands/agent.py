"""The command that a driver runs beside itself."""

from ...subscriber.spark.agent.process import main
from ..options.flags import command


@command(hidden=True)  # no person runs it
def agent() -> int:
    """Attach the driver that has started it; one line of JSON on standard input says where it is.

    It ends with its standard input.
    """
    return main()

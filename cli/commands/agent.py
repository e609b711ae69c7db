"""The command that a driver runs beside itself."""

from ...subscriber.spark.agent.process import main
from ..options.flags import command


@command(hidden=True)  # no person runs it
def agent() -> int:
    """Attach the driver that has started this process.

    One line of JSON on standard input says where the driver is. The process ends when its standard
    input does.
    """
    return main()

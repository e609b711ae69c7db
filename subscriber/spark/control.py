"""Control: what a driver is to be, by what its application says and what operators want."""

from ...topics.objects.rules import STATES


def least(said: str, wanted: str) -> str:
    """Return the state in which the driver does less: either side can switch it off."""
    return min(said, wanted, key=STATES.index)

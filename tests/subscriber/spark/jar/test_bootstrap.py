"""What a driver's JVM has of another release; the objects of Py4J are plain objects here."""

from types import SimpleNamespace

import pytest

from topicast import __version__
from topicast.subscriber.spark.jar.bootstrap import bootstrap_source, check_release
from topicast.subscriber.spark.sessions import Unsupported


def test_jar_and_agent_are_of_one_release_or_both_are_named() -> None:
    assert f'RELEASE = "{__version__}"' in bootstrap_source()
    check_release(SimpleNamespace(release=lambda: __version__))
    with pytest.raises(Unsupported, match=r"of Topicast 99\.0, and this is .* topicast jar --out"):
        check_release(SimpleNamespace(release=lambda: "99.0"))

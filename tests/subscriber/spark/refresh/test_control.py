from dataclasses import asdict

import pytest

from topicast import __version__
from topicast.subscriber.protocol.effects import Change
from topicast.subscriber.spark.refresh.control import Application, Control, facts_of
from topicast.subscriber.spark.refresh.refresher import Looked, Refresher
from topicast.topics.objects.changes import ChangeKind
from topicast.topics.objects.rules import DRY_RUN, OFF, ON


@pytest.mark.parametrize(
    ("application", "operators", "found"),
    [
        (ON, ON, ON),
        (ON, DRY_RUN, DRY_RUN),
        (ON, OFF, OFF),
        (DRY_RUN, ON, DRY_RUN),
        (DRY_RUN, OFF, OFF),
        (OFF, ON, OFF),
        (OFF, DRY_RUN, OFF),
    ],
)
def test_either_side_can_switch_it_off(application: str, operators: str, found: str) -> None:
    control = Control(application)
    control.operators = operators
    assert (control.state, control.is_on) == (found, found != OFF)


def test_operators_see_whose_driver_it_is_and_what_it_did() -> None:
    application = Application(
        application="nightly",
        application_id="app-1",
        user="ann",
        host="h",
        pid=7,
        spark="4.3.0",
    )
    refresher = Refresher(control=DRY_RUN)
    change = Change(object="d.t", kind=ChangeKind.DATA, version=1, origin="events")
    refresher.changed(change, now=0.0)
    refresher.begin_turn(["s"], now=0.0)
    refresher.look("s", Looked(frozenset({"d.t"})))
    facts = facts_of(application, refresher, condition=("plain", "no room"), errors=2)
    assert application.names == ("nightly", "app-1")
    assert facts == asdict(application) | {
        "driver": "app-1@h:7",
        "release": __version__,
        "state": "plain",
        "reason": "no room",
        "control": DRY_RUN,
        "sessions": 1,
        "refreshes": 0,
        "stale_reads_avoided": 0,
        "would_refresh": 1,
        "errors": 2,
    }

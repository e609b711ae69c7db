"""The verdict: what all surfaces of a process show."""

from dataclasses import replace
from itertools import pairwise
from logging import INFO, WARNING

from topicast.topics.verdict import (
    Reason,
    Serving,
    Verdict,
    news,
    verdict_in,
    verdict_of,
)
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages.answers import ReasonRow, Reasons

AWAY = Reason(
    state=Serving.DEGRADED, code="hub_away", subject="tcp://a:1", what="a is away", mend="start it"
)
OTHER = Reason(
    state=Serving.DEGRADED, code="hub_away", subject="tcp://b:1", what="b is away", mend="start it"
)
NEW = Reason(
    state=Serving.NOT_SERVING, code="new", what="nothing is here", mend="wait", starting=True
)
SERVES = Verdict()


def test_reasons_are_ordered_by_how_bad_they_are() -> None:
    found = verdict_of((AWAY, NEW, OTHER))
    assert found.reasons == (NEW, AWAY, OTHER)
    assert found.state is Serving.NOT_SERVING
    assert found.lines == (
        "not serving: nothing is here; wait",
        "degraded: a is away; start it",
        "degraded: b is away; start it",
    )
    assert found.texts(Serving.DEGRADED) == "a is away; start it; b is away; start it"


def test_without_a_reason_a_process_serves() -> None:
    assert (SERVES.state, SERVES.lines) == (Serving.SERVING, ("serving",))
    assert SERVES.document == {"verdict": "serving", "reasons": []}


def test_verdict_comes_back_from_the_wire() -> None:
    found = verdict_of((AWAY, NEW))
    sent = Reasons(request=1, rows=found.rows)
    received = decode(encode(sent))
    assert isinstance(received, Reasons)
    assert verdict_in(received.rows) == found


def test_reasons_that_a_key_does_not_see_leave_their_state() -> None:
    row = ReasonRow("not serving", "new", "", "hidden", "", False)
    (reason,) = verdict_in((row,)).reasons
    assert (reason.state, reason.text) == (Serving.NOT_SERVING, "hidden")
    assert verdict_in((row._replace(state="of a later release"),)).state is Serving.DEGRADED


def test_each_reason_is_logged_when_it_begins_and_when_it_has_ended() -> None:
    worse = Reason(
        state=Serving.DEGRADED, code="hub_away", subject="tcp://a:1", what="9 s", mend=""
    )
    steps = [SERVES, verdict_of((NEW,)), verdict_of((AWAY,)), verdict_of((worse, OTHER)), SERVES]
    lines = [news(before, after) for before, after in pairwise(steps)]
    assert lines == [
        ((INFO, "not serving: nothing is here; wait"),),
        ((WARNING, "degraded: a is away; start it"),),  # the end of a start is no news
        ((WARNING, "degraded: b is away; start it"),),
        (
            (INFO, "no longer degraded: hub_away tcp://a:1"),
            (INFO, "no longer degraded: hub_away tcp://b:1"),
            (INFO, "serving"),
        ),
    ]
    assert news(SERVES, SERVES) == ()


def test_start_that_fails_is_warned_of_once() -> None:
    failed = replace(NEW, what="nothing answers", mend="mend it", starting=False)
    steps = [verdict_of((NEW,)), verdict_of((failed,)), verdict_of((failed,)), verdict_of((NEW,))]
    lines = [news(before, after) for before, after in pairwise(steps)]
    assert lines == [((WARNING, "not serving: nothing answers; mend it"),), (), ()]

import pytest

from topicast.cli.pages.answers import Facts, Sources, answer, answer_to_probe
from topicast.cli.pages.metrics import STATESTORED, registry_of

FACTS: Facts = {"hub": 7, "data_address": "<tcp>", "deltas": 3}


def sources(problem: str = "", warning: str = "") -> Sources:
    """Return the sources of a hub with these troubles."""
    facts: Facts = {**FACTS, "problem": problem, "warning": warning}
    return Sources(
        title="statestored",
        facts=lambda: facts,
        meanings=STATESTORED,
        metrics=registry_of("statestored", STATESTORED, lambda: FACTS),
    )


@pytest.mark.parametrize(
    ("source", "status", "body"),
    [
        (sources(), 200, b"ok\n"),
        (sources("no catalogd was heard"), 503, b"no catalogd was heard\n"),
        (sources(warning="the metastore is away"), 200, b"ok\nwarning: the metastore is away\n"),
    ],
    ids=["serves", "does not serve", "serves with a warning"],
)
def test_healthz_says_whether_the_daemon_serves(source: Sources, status: int, body: bytes) -> None:
    assert answer(source, "/healthz")[::2] == (status, body)


@pytest.mark.parametrize(
    ("source", "status", "body"),
    [
        (sources(), 200, b"ok\n"),
        (sources("thrift://hive:9083 is away"), 503, b"not serving\n"),
        (sources(warning="the metastore is away"), 200, b"ok\n"),
    ],
)
def test_probe_learns_whether_the_daemon_serves_and_no_names(
    source: Sources, status: int, body: bytes
) -> None:
    assert answer_to_probe(source)[::2] == (status, body)

import socket
from collections.abc import Iterator

import pytest

from topicast.cli.client.operator import Operator, at_each
from topicast.tests.cli.conftest import Served
from topicast.tests.keys import user_keys
from topicast.tests.waiting import until
from topicast.topics.errors import LinkError, NotReady, UsageError
from topicast.topics.settings import parse_addresses
from topicast.topics.wire.messages.questions import (
    ReadHubs,
    ReadStatus,
    ReadSubscribers,
    ReadTopics,
)


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never sends anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


def visit(statestores: str, timeout_s: float = 60.0) -> Operator:
    credential = user_keys("operator").credential
    return Operator(parse_addresses(statestores), timeout_s=timeout_s, credential=credential)


def test_hub_answers_with_its_tables(served: Served) -> None:
    with visit(served.statestores) as operator:
        facts = dict(operator.hub(ReadStatus()).rows)
        assert facts["catalog_address"] == served.catalogd.ready["address"]
        topics = operator.hub(ReadTopics())
    assert topics.columns[0] == "topic"
    assert len(topics.rows) == facts["num_topics"] + 1


def test_catalogd_is_found_through_the_hub(served: Served) -> None:
    with visit(served.statestores) as operator:
        assert "watermark" in dict(operator.catalog(ReadStatus()).rows)
        assert dict(operator.catalog(ReadStatus()).rows)["problem"] == "", "and may be asked again"


def test_operator_is_listed_as_an_operator(served: Served) -> None:
    with visit(served.statestores) as operator:
        members = operator.hub(ReadSubscribers())
    roles = [row["role"] for row in members.records()]
    assert sorted(roles)[:1] == ["operator"]
    assert "publisher" in roles


def operators(visit: Operator) -> set[object]:
    """Return the registrations of operators."""
    members = visit.hub(ReadSubscribers())
    rows = members.records()
    return {row["registration"] for row in rows if row["role"] == "operator"}


def test_hub_lists_no_operator_that_has_left(served: Served) -> None:
    with visit(served.statestores) as operator:
        own = operators(operator)
    assert own
    with visit(served.statestores) as operator:
        until(
            lambda: not own & operators(operator),
            timeout_s=3,  # a member that fell silent is listed for longer
            what="that the first operator is listed no more",
        )


def test_first_hub_that_answers_is_asked(served: Served, silent: str) -> None:
    with visit(f"{silent},{served.statestores}", timeout_s=3) as operator:
        assert str(operator.address) == served.statestores


def test_each_hub_is_visited(served: Served) -> None:
    (address,) = parse_addresses(served.statestores)
    found, failures = at_each((address, address), lambda visit: visit.hub(ReadTopics()).columns[0])
    assert (found, failures) == (["topic", "topic"], [])


def test_no_hub_is_an_error_that_says_what_to_do(silent: str) -> None:
    with pytest.raises(
        LinkError, match=f"no statestored answers at {silent}: it takes connections"
    ):
        visit(silent, timeout_s=0.2).__enter__()


def test_question_about_catalogd_is_refused_by_the_hub(served: Served) -> None:
    refused = pytest.raises(UsageError, match="ReadHubs is not understood")
    with visit(served.statestores) as operator, refused:
        operator.hub(ReadHubs())


def test_hub_that_falls_silent_is_a_timeout(served: Served) -> None:
    with visit(served.statestores) as operator:
        operator.timeout_s = 0.0
        with pytest.raises(NotReady, match="did not answer"):
            operator.hub(ReadStatus())

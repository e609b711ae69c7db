"""Service: a mistake of ours is an error for one request, and no wrong answer."""

import logging

import pytest
from thrift.Thrift import TApplicationException

from topicast.subscriber.client.contents import Contents
from topicast.subscriber.endpoint.requests import Request, RequestReader
from topicast.subscriber.endpoint.service import ANSWERED, REFUSED, Service
from topicast.tests.subscriber.endpoint.conftest import TOKEN
from topicast.tests.subscriber.endpoint.messages import answered, call


class Broken(Contents):
    """A planted fault."""

    def databases(self) -> tuple[str, ...]:
        raise ZeroDivisionError("planted")


def request(method: str) -> Request:
    reader = RequestReader()
    reader.feed(call(method))
    found = reader.next()
    assert found is not None
    return found


def test_error_of_ours_is_no_answer_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    broken = Broken.__new__(Broken)
    service = Service(broken, broken, token=TOKEN)
    with caplog.at_level(logging.ERROR), pytest.raises(TApplicationException) as caught:
        answered(b"".join(service.answer(request("get_all_databases"))), "get_all_databases")
    assert caught.value.type == TApplicationException.INTERNAL_ERROR
    assert "planted" in caplog.text
    facts = service.counts.facts()
    assert (facts[ANSWERED], facts[REFUSED]) == ({}, {"get_all_databases": 1})
    assert TOKEN not in repr(service)

"""Vectors: requests of a real client, recorded by tests/vectors/rewrite_hive_client.py."""

import json
from pathlib import Path

from topicast.subscriber.endpoint.requests import Request
from topicast.tests.subscriber.endpoint.test_requests import read_all

VECTORS = Path(__file__).parents[2] / "vectors" / "hive_client_v1.json"


def test_requests_of_a_real_client_are_read() -> None:
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    for vector in vectors:
        data = bytes.fromhex(vector["request"])
        (request,) = read_all(data, *range(len(data)))
        assert request.method == vector["method"]
        for number, wanted in vector["arguments"].items():
            assert argument(request, int(number), wanted) == wanted


def argument(request: Request, number: int, like: object) -> object:
    """Return an argument of the type of ``like``."""
    given = request.arguments
    if isinstance(like, list):
        return list(given.texts(number))
    return given.text(number) if isinstance(like, str) else given.number(number, default=0)

"""The endpoint in a driver: it says why nobody listens, and listens as soon as it can."""

import resource
from collections.abc import Iterator
from contextlib import closing, contextmanager

from topicast.subscriber import Subscriber
from topicast.subscriber.spark.planning.endpoint import Endpoint
from topicast.subscriber.spark.planning.router import Router
from topicast.tests.subscriber.endpoint.test_server import Client

NOWHERE = "tcp://127.0.0.1:1"
STANDARD = 3  # input, output and errors: below this number every file is open


class AskedJvm:
    """What the router calls in the JVM, as far as an endpoint needs it."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def endpoint(self, uri: str, token: str) -> None:
        self.told.append((uri, token))


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open nothing more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (STANDARD, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_endpoint_that_cannot_listen_says_why_and_listens_once_it_can() -> None:
    jvm = AskedJvm()
    endpoint = Endpoint(Subscriber(NOWHERE), Router(jvm))
    with no_more_files():
        endpoint.start()
        endpoint.look()
        assert "cannot listen" in endpoint.problem
        assert "Too many open files" in endpoint.problem
        assert jvm.told == []
    endpoint.look()
    try:
        assert endpoint.problem == ""
        ((uri, token),) = jvm.told
        with closing(Client(int(uri.rpartition(":")[2]), token=token)) as client:
            endpoint.look()
            assert len(jvm.told) == 1, "it listens"
            endpoint.end()
            assert client.is_closed
        endpoint.look()
        assert len(jvm.told) == 2, "its server had ended"
        assert jvm.told[0][1] != jvm.told[1][1], "with a token of its own"
    finally:
        endpoint.end()

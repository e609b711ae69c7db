"""Sizes, durations and addresses as people write them, and as they mistype them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.topics.errors import ConfigError
from topicast.topics.settings import (
    PAGES_CHARS_MAX,
    Address,
    checked_pages,
    metastore_hosts,
    pages_for_peers,
    parse_addresses,
    parse_duration_s,
    parse_size,
    state_folder,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("17b", 17),
        ("256MB", 256 << 20),
        ("256 mb", 256 << 20),
        ("1g", 1 << 30),
        ("512 KiB", 512 << 10),
        (" 2TB ", 2 << 40),
        ("1.5GB", 3 << 29),
        ("0.0001k", 0),
        (str(1 << 59), 1 << 59),
    ],
)
def test_size_is_read_in_binary_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(("text", "size"), [("5%", 50), ("0.5 %", 5), ("100%", 1000), ("7", 7)])
def test_percentage_is_taken_of_the_given_total(text: str, size: int) -> None:
    assert parse_size(text, total_bytes=1000) == size


@pytest.mark.parametrize(
    "text",
    ["", "MB", "-1", "1e9", "1,5GB", "12 parsecs", "1  GB", "nan", "1_000", "0x10", "1.GB", "٣MB"],
)
def test_rubbish_is_no_size(text: str) -> None:
    with pytest.raises(ConfigError, match="budget=.*of 1024"):
        parse_size(text, setting="budget")


@pytest.mark.parametrize(
    ("text", "total_bytes", "problem"),
    [("5%", None, "5%"), ("101%", 1000, "percentage of memory"), ("9999999TB", None, "at most")],
)
def test_size_of_no_machine_is_refused(text: str, total_bytes: int | None, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_size(text, total_bytes=total_bytes)


@pytest.mark.parametrize(
    ("text", "duration_s"),
    [
        ("250ms", 0.25),
        ("5s", 5.0),
        ("2m", 120.0),
        ("1.5 h", 5400.0),
        ("1D", 86_400.0),
        ("0.2", 0.2),
    ],
)
def test_duration_is_read_in_seconds(text: str, duration_s: float) -> None:
    assert parse_duration_s(text) == duration_s


@pytest.mark.parametrize("text", ["", "s", "-1s", "5 minutes", "1h30m", "inf", "5%"])
def test_rubbish_is_no_duration(text: str) -> None:
    with pytest.raises(ConfigError, match="poll=.*with ms, s, m, h or d"):
        parse_duration_s(text, setting="poll")


def test_duration_beyond_a_year_is_refused() -> None:
    with pytest.raises(ConfigError, match="366 days"):
        parse_duration_s("367d")


def test_addresses_keep_their_order_and_write_themselves_as_read() -> None:
    text = "tcp://10.0.0.1:24000, tcp://hub-2.example:24000,tcp://[::1]:24000"
    addresses = parse_addresses(text)
    assert addresses == (
        Address("tcp", "10.0.0.1", 24000),
        Address("tcp", "hub-2.example", 24000),
        Address("tcp", "::1", 24000),
    )
    assert ",".join(map(str, addresses)) == text.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "at least one address"),
        ("  ", "at least one address"),
        ("tcp://a:1,", "starts with tcp://"),
        ("a:1", "starts with tcp://"),
        ("http://a:1", "the scheme is tcp, not http"),
        ("tcp://a", "a port is named"),
        ("tcp://[::1]", "a port is named"),
        ("tcp://", "a port is named"),
        ("tcp://:24000", "the host is"),
        ("tcp://a b:1", "the host is"),
        ("tcp://u@a:1", "the host is"),
        ("tcp://*:1", "the host is"),
        ("tcp://-a:1", "the host is"),
        ("tcp://::1:24000", r"between \[ and \]"),
        ("tcp://[1.2.3.4]:1", "an IPv6 address"),
        ("tcp://[]:1", "an IPv6 address"),
        ("tcp://a:", "from 1 to 65535"),
        ("tcp://a:0", "from 1 to 65535"),
        ("tcp://a:65536", "from 1 to 65535"),
        ("tcp://a:٣", "from 1 to 65535"),
        ("tcp://a:1/path", "from 1 to 65535"),
        ("tcp://a:-1", "from 1 to 65535"),
        ("tcp://a:1,tcp://b:1,tcp://a:1", "each address once"),
    ],
)
def test_rubbish_is_no_address_and_the_error_says_why(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"statestores=.*{problem}"):
        parse_addresses(text, setting="statestores")


def test_error_names_the_one_address_that_is_wrong() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_addresses("tcp://good:1,tcp://bad", setting="statestores")
    assert refused.value.value == "tcp://bad"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("LocalHost", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
    ],
)
def test_loopback_addresses_are_recognized(host: str, loopback: bool) -> None:
    assert Address("tcp", host, 1).is_loopback is loopback


@given(st.text(max_size=40))
def test_whatever_is_typed_gives_a_value_or_a_config_error(text: str) -> None:
    for parse in (parse_size, parse_duration_s, parse_addresses):
        try:
            parse(text)
        except ConfigError as refused:
            assert refused.allowed


def test_metastores_are_known_by_host_and_port_and_loopback_has_one_name() -> None:
    assert (
        metastore_hosts("thrift://127.0.0.1:9083")
        == metastore_hosts("thrift://localhost")
        == {"localhost:9083"}
    )
    assert metastore_hosts("thrift://[::1]:1") == {"localhost:1"}
    assert metastore_hosts(" , ") == frozenset()


def test_state_folder_is_the_platforms() -> None:
    found = state_folder("catalogd", {"XDG_STATE_HOME": "/var/state"})
    assert found == Path("/var/state/topicast/catalogd")
    assert state_folder("catalogd", {}) == Path.home() / ".local/state/topicast/catalogd"


@pytest.mark.parametrize(
    "text",
    [
        *("http://a:1", "https://a.example.com:25010", "http://[fd00::1]:9"),
        "http://".ljust(PAGES_CHARS_MAX, "a"),
    ],
)
def test_address_of_pages_is_taken_as_it_is(text: str) -> None:
    assert checked_pages(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "javascript:alert(1)",
            "http://",
            "http://a/b",
            "http://a b",
            'http://a"',
            "ftp://a:1",
        ),
        *("http://ä:1", "http://a:1\n", "http://".ljust(PAGES_CHARS_MAX + 1, "a")),
    ],
)
def test_what_is_no_address_of_pages_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="http://host:port"):
        checked_pages(text)


@pytest.mark.parametrize(
    ("pages", "daemon", "found"),
    [
        ("127.0.0.1", "127.0.0.1", "https://127.0.0.1:9"),
        ("127.0.0.1", "node1", ""),
        ("0.0.0.0", "node1", "https://node1:9"),
        ("::", "fd00::1", "https://[fd00::1]:9"),
        ("node1-web", "node1", "https://node1-web:9"),
    ],
)
def test_peers_are_told_the_pages_that_their_readers_reach(
    pages: str, daemon: str, found: str
) -> None:
    assert pages_for_peers(Address("https", pages, 9), Address("tcp", daemon, 1)) == found

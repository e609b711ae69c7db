from dataclasses import replace

import pytest

from topicast.topics.errors import ConfigError
from topicast.topics.keys.clients import ClientRole
from topicast.topics.keys.credential import (
    Credential,
    KeyPair,
    credential_text,
    read_credential,
)
from topicast.topics.policy import Policy

SECRET = "s$#" * 13 + "s"
ETL = Credential(
    name="etl",
    role=ClientRole.DRIVER,
    pair=KeyPair(public="p" * 40, secret=SECRET),
    catalogd="c" * 40,
    hubs=(("tcp://hub-1:24000", "h" * 40), ("", "i" * 40)),
)


def test_text_of_a_credential_is_read_back() -> None:
    server = replace(ETL, next_pair=KeyPair(public="q" * 40, secret="r" * 40), rotated_at=7)
    next_keys = (("c" * 40, "d" * 40), ("h" * 40, "j" * 40))
    rotating = replace(ETL, next_keys=next_keys)
    for one in (ETL, replace(ETL, policy=Policy(("fin_*", "sales"))), server, rotating):
        assert read_credential(credential_text(one), source="x") == one


def test_secret_is_not_shown() -> None:
    assert SECRET not in repr(ETL) + str(ETL) + f"{ETL.pair}"


@pytest.mark.parametrize("line", ["name", "role", "public", "secret", "catalogd"])
def test_text_that_lacks_a_line_is_refused_without_showing_the_others(line: str) -> None:
    lines = credential_text(ETL).splitlines()
    text = "\n".join(one for one in lines if not one.startswith(line + " "))
    with pytest.raises(ConfigError, match=f"{line} is missing") as caught:
        read_credential(text, source="etl.key")
    assert "etl.key" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        f"databases {SECRET}",
        f"name etl\nname {SECRET}",
        f"secrets {SECRET}",
        f"statestored tcp://h {SECRET}",
        f"statestored {SECRET}x",
        f"statestored a b {SECRET}",
        f"statestored {'k' * 40} next={SECRET}x",
        f"next_secret {SECRET}",
        f"rotated {SECRET}",
    ],
)
def test_line_that_is_none_is_refused_without_its_content(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_credential(credential_text(ETL) + line, source="etl.key")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("cut", [0, 39])
def test_key_of_another_length_is_refused_and_not_shown(cut: int) -> None:
    text = credential_text(ETL).replace(SECRET, SECRET[:cut])
    with pytest.raises(ConfigError, match="secret") as caught:
        read_credential(text, source="etl.key")
    assert "s$#s$#" not in str(caught.value)


def test_hub_without_an_address_is_every_hub_that_has_no_line() -> None:
    assert ETL.hub_key("tcp://hub-1:24000") == "h" * 40
    assert ETL.hub_key("tcp://hub-2:24000") == "i" * 40


def test_hub_that_is_not_known_is_named_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match=r"tcp://hub-2:1.*tcp://hub-1:24000"):
        replace(ETL, hubs=ETL.hubs[:1]).hub_key("tcp://hub-2:1")

from dataclasses import replace

import pytest

from topicast.topics.errors import ConfigError
from topicast.topics.keys.clients import (
    CLIENTS_MAX,
    LIST_BYTES_MAX,
    NAME_MAX,
    Client,
    ClientRole,
    Clients,
    clients_text,
    read_clients,
)
from topicast.topics.policy import Policy
from topicast.topics.wire import decode, encode
from topicast.topics.wire.header import VALUE_BYTES_MAX
from topicast.topics.wire.messages.publishers import ClientList

ETL = Client(name="etl", role=ClientRole.DRIVER, public="#" + "e" * 39)
HUB = Client(name="h@1", role=ClientRole.HUB, public="h" * 40, address="tcp://hub-1:24000")


def test_text_of_a_list_is_read_back() -> None:
    sales = replace(ETL, name="sales", public="s" * 40, policy=Policy(("fin_*", "sales")))
    clients = Clients([ETL, HUB, sales])
    assert read_clients(clients_text(clients), source="x") == clients
    assert "databases=fin_*,sales\n" in clients_text(clients)


def test_text_that_is_written_anew_has_the_comments_and_the_order_of_the_former_text() -> None:
    before = f"""# ours

    # ann's job, until 2027
etl driver {ETL.public}
old driver {"o" * 40}
#hubs
  h@1   hub {HUB.public}
# end"""
    new = replace(ETL, name="new", public="n" * 40)
    text = clients_text(Clients([ETL, replace(HUB, address="tcp://h:1"), new]), before=before)
    assert (
        text
        == f"""# ours

    # ann's job, until 2027
etl driver {ETL.public}
#hubs
h@1 hub {HUB.public} tcp://h:1
# end
new driver {new.public}
"""
    )
    assert clients_text(Clients([]), before=text).count("#") == 4


def test_keys_whose_client_or_policy_is_another_by_now_are_named() -> None:
    before = Clients([ETL, HUB])
    now = Clients(
        [replace(ETL, policy=Policy(("sales",))), HUB, replace(ETL, name="n", public="n")]
    )
    assert now.changed_since(before) == {ETL.public}
    assert before.changed_since(before) == set()


def test_clients_are_found_by_key_and_by_name() -> None:
    clients = Clients([ETL, HUB])
    assert clients.with_key(ETL.public) is clients.named("etl") is ETL
    assert clients.without("etl").with_key(ETL.public) is None


def test_keys_of_readers_are_those_of_drivers_operators_and_observers() -> None:
    every = [Client(name=role, role=role, public=str(role) * 3) for role in ClientRole]
    assert Clients(every).keys(readers=True) == {"driver" * 3, "operator" * 3, "observer" * 3}
    assert len(Clients(every).keys()) == len(ClientRole)


@pytest.mark.parametrize("other", [("etl", "x" * 40), ("other", ETL.public)])
def test_name_or_key_of_another_client_is_refused(other: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match="each name and each key once"):
        Clients([ETL]).adding(Client(name=other[0], role=ETL.role, public=other[1]))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("etl driver", "2 words"),
        (f"etl driver {'e' * 40} tcp://h:1 more", "5 words"),
        (f"etl king {'e' * 40}", "hub, catalogd, driver, operator, observer"),
        (f"../etl driver {'e' * 40}", "letters, digits"),
        (f"{'n' * 65} driver {'e' * 40}", "at most 64"),
        (f"etl driver {'e' * 39}", "a key of 40 characters"),
        (f"etl hub {'e' * 40} http://h:1", "tcp"),
        (f"etl driver {'e' * 40} databases=", "databases as"),
        (f"etl driver {'e' * 40} databases=a;b", "databases as"),
        (f"etl driver {'e' * 40} databases=a tcp://h:1", "5 words"),
        (f"etl operator {'e' * 40} databases=a", "databases of a driver or observer"),
    ],
)
def test_line_that_is_none_is_named_with_what_is_allowed(line: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        read_clients(f"# a comment\n#another\n\n{line}\n", source="clients")
    assert "clients:4" in str(caught.value)


def test_list_of_as_many_clients_as_there_may_be_fits_one_message() -> None:
    many = [
        Client(name=f"{number:x>{NAME_MAX}}", role=ClientRole.OPERATOR, public=f"{number:040}")
        for number in range(CLIENTS_MAX)
    ]
    message = ClientList(text=clients_text(Clients(many)).encode())
    assert decode(encode(message)) == message
    with pytest.raises(ConfigError, match=f"at most {CLIENTS_MAX}"):
        Clients([*many, ETL])


def test_list_of_more_bytes_than_a_message_carries_is_refused() -> None:
    assert LIST_BYTES_MAX <= VALUE_BYTES_MAX
    far = "tcp://" + "h" * 240 + ":24000"
    hubs = [
        Client(name=f"hub-{number}", role=ClientRole.HUB, public=f"{number:040}", address=far)
        for number in range(3000)
    ]
    with pytest.raises(ConfigError, match=f"at most {LIST_BYTES_MAX}"):
        Clients(hubs)


def test_list_is_kept_by_its_only_catalogd() -> None:
    catalogd = Client(name="catalogd", role=ClientRole.CATALOGD, public="c" * 40)
    assert Clients([ETL, catalogd]).are_kept_by(catalogd.keys)
    assert not Clients([ETL, catalogd]).are_kept_by(ETL.keys)
    assert not Clients([ETL]).are_kept_by(catalogd.keys)
    second = Client(name="second", role=ClientRole.CATALOGD, public="s" * 40)
    assert not Clients([catalogd, second]).are_kept_by(catalogd.keys)

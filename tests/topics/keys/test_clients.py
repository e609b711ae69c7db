import pytest

from topicast.topics.errors import ConfigError
from topicast.topics.keys.clients import Client, ClientRole, Clients, clients_text, read_clients

ETL = Client(name="etl", role=ClientRole.DRIVER, public="#" + "e" * 39)
HUB = Client(name="h@1", role=ClientRole.HUB, public="h" * 40, address="tcp://hub-1:24000")


def test_text_of_a_list_is_read_back() -> None:
    clients = Clients([ETL, HUB])
    assert read_clients(clients_text(clients), source="x") == clients


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
    ],
)
def test_line_that_is_none_is_named_with_what_is_allowed(line: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        read_clients(f"# a comment\n\n{line}\n", source="clients")
    assert "clients:3" in str(caught.value)

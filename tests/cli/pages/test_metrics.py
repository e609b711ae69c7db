from prometheus_client import generate_latest

from topicast.cli.pages.answers import Facts
from topicast.cli.pages.front import COUNTER
from topicast.cli.pages.metrics import CATALOGD, STATESTORED, registry_of


def scraped(facts: Facts) -> str:
    return generate_latest(registry_of("statestored", STATESTORED, lambda: facts)).decode()


def test_numbers_keep_their_kind() -> None:
    text = scraped({"deltas": 5, "members": 2})
    assert "# TYPE topicast_statestored_deltas_total counter" in text
    assert "topicast_statestored_deltas_total 5.0" in text
    assert "# TYPE topicast_statestored_members gauge" in text


def test_texts_and_unknown_facts_are_no_metrics() -> None:
    text = scraped({"data_address": "tcp://x", "unheard_of": 1})
    assert "tcp" not in text
    assert "unheard_of" not in text


def test_refusals_are_one_metric_with_the_reason_as_its_label() -> None:
    text = scraped({"refused_WIRE": 2, "refused_ROLE": 1})
    assert 'topicast_statestored_refusals_total{reason="WIRE"} 2.0' in text
    assert 'topicast_statestored_refusals_total{reason="ROLE"} 1.0' in text


def test_version_is_printed() -> None:
    assert "topicast_build_info{version=" in scraped({})


def test_every_metric_says_what_it_means() -> None:
    for table in (STATESTORED, CATALOGD):
        for name, (kind, meaning) in table.items():
            assert meaning[0].isupper(), name
            assert kind != COUNTER or not name.endswith("_s"), name

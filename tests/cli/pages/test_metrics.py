from prometheus_client import generate_latest

from topicast.cli.pages.metrics import CATALOGD, COUNTER, STATESTORED, Facts, registry_of
from topicast.topics.histogram import Histogram


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


def test_histograms_have_their_buckets_sum_and_label() -> None:
    made = Histogram((0.1, 1.0))
    for value in (0.05, 0.5, 7.0):
        made.add(value)
    registry = registry_of(
        "catalogd",
        {},
        dict,
        histograms=lambda: {
            "pull_s": {"": made.facts()},
            "metastore_call_s": {"get_database": made.facts(), "getVersion": made.facts()},
        },
    )
    text = generate_latest(registry).decode()
    assert "# TYPE topicast_catalogd_pull_seconds histogram" in text
    assert 'topicast_catalogd_pull_seconds_bucket{le="0.1"} 1.0' in text
    assert 'topicast_catalogd_pull_seconds_bucket{le="+Inf"} 3.0' in text
    assert "topicast_catalogd_pull_seconds_count 3.0" in text
    assert "topicast_catalogd_pull_seconds_sum 7.55" in text
    name = "topicast_catalogd_metastore_call_seconds_bucket"
    assert f'{name}{{le="1.0",method="get_database"}} 2.0' in text
    assert f'{name}{{le="1.0",method="getVersion"}} 2.0' in text

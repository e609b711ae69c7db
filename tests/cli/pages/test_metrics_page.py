import re

from topicast.cli.pages.metrics import SECTIONS, Fact
from topicast.cli.pages.metrics_page import metrics_html
from topicast.topics.histogram import Histogram


def shown(facts: dict[str, Fact], **histograms: Histogram) -> str:
    by_label = {name: {"": made.facts()} for name, made in histograms.items()}
    return metrics_html("catalogd", facts, by_label)


def test_numbers_stand_in_sections_that_have_anchors() -> None:
    found = shown({"lag_s": 0.5, "pulls": 12345, "intents": None, "name": "<b>", "refused_WIRE": 2})
    sections = dict(re.findall(r'<h2 id="(\w+)">\w+</h2><table class="facts">(.*?)</table>', found))
    assert list(sections) == ["events", "requests", "writes", "refused", "about"]
    assert '<a href="#events">events</a>' in found
    assert (
        '<th>lag_s</th><td class="number">0.5</td><td class="meaning">Seconds' in sections["events"]
    )
    assert '<td class="number">12,345</td><td class="meaning">Pulls that' in sections["requests"]
    assert "answered, since the start<" in sections["requests"]
    assert '<th>intents</th><td class="number">–</td>' in sections["writes"]
    assert "<th>refused_WIRE</th>" in sections["refused"]
    assert '<th>name</th><td class="number">&lt;b&gt;</td>' in sections["about"]


def test_ids_are_not_cut_in_thousands_and_nothing_is_a_dash() -> None:
    found = shown({"epoch": 1795249888143087, "overrides": ""})
    assert ">1795249888143087<" in found
    assert found.count(">–<") == 1


def test_histograms_say_their_mean_and_what_most_values_are_below() -> None:
    made, empty = Histogram((0.1, 1.0)), Histogram()
    for value in (0.05, 0.05, 0.5, 7.0):
        made.add(value)
    found = shown({}, pull_s=made, event_batch_s=empty).partition('<h2 id="times">')[2]
    assert "<th>pull_s</th>" in found
    assert ">4: mean 1.9 s, half ≤ 100 ms, 99 % over 1.0 s<" in found
    assert '<th>event_batch_s</th><td class="number">–</td>' in found


def test_each_section_is_named_once_as_an_anchor_needs() -> None:
    for sections in SECTIONS.values():
        assert {"process", "refused"} < set(sections)
        names = [name for rows in sections.values() for name in rows]
        assert len(names) == len(set(names))

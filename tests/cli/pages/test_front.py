from topicast.cli.pages.front import COUNTER, document, facts_html
from topicast.topics.verdict import Reason, Serving, verdict_of

MEANINGS = {"entries": ("gauge", "Entries held"), "pulls": (COUNTER, "Pulls answered")}


AWAY = Reason(state=Serving.DEGRADED, code="away", what="hive is <away>", mend="start it")
NEW = Reason(state=Serving.NOT_SERVING, code="new", what="nothing is here", mend="wait")


def page(*reasons: Reason, **facts: str | int | float | None) -> str:
    body = facts_html(facts, MEANINGS)
    nav = {"Overview": "", "Hubs": "/hubs"}
    return document(
        "catalogd", body, verdict=verdict_of(reasons), nav=nav, foot="at last", refresh_s=0
    )


def test_daemon_that_serves_says_so_first() -> None:
    assert '<p class="verdict well">serving</p>' in page()


def test_what_is_wrong_stands_above_everything_else() -> None:
    degraded = '<p class="verdict warned">degraded: hive is &lt;away&gt;; start it</p>'
    assert degraded in page(AWAY)
    worst = '<p class="verdict ill">not serving: nothing is here; wait</p>'
    assert worst + degraded in page(AWAY, NEW)


def test_facts_stand_apart_from_counts_and_say_what_they_mean() -> None:
    now, _, counts = page(entries=12345, pulls=7, refused_WIRE=2).partition("Since it was started")
    assert '<th>entries</th><td class="number">12,345</td><td class="meaning">Entries held' in now
    assert '<th>pulls</th><td class="number">7</td><td class="meaning">Pulls answered' in counts
    assert "<th>refused_WIRE</th>" in counts


def test_ids_are_not_cut_in_thousands_and_nothing_is_a_dash() -> None:
    printed = page(epoch=1795249888143087, overrides="", metastore_silent_s=None)
    assert ">1795249888143087<" in printed
    assert printed.count(">–<") == 2


def test_fact_that_nobody_explained_is_shown_and_escaped() -> None:
    assert '<th>name</th><td class="number">&lt;b&gt;</td><td class="meaning"></td>' in page(
        name="<b>"
    )


def test_page_leads_to_the_others_and_is_not_loaded_again_unless_that_was_asked_for() -> None:
    assert '<nav><b>Overview</b> <a href="/hubs">Hubs</a></nav>' in page()
    assert "http-equiv" not in page()
    fresh = document("x", "", verdict=verdict_of(()), nav={}, foot="", refresh_s=5)
    assert '<meta http-equiv="refresh" content="5">' in fresh

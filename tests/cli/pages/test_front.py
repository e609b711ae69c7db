from topicast.cli.pages.front import COUNTER, front

MEANINGS = {"entries": ("gauge", "Entries held"), "pulls": (COUNTER, "Pulls answered")}


def page(**facts: str | int | float | None) -> str:
    return front("catalogd", facts, MEANINGS)


def test_daemon_that_serves_says_so_first() -> None:
    assert '<p class="verdict well">It serves.</p>' in page(problem="", warning="")
    assert '<p class="verdict well">It serves.</p>' in page()


def test_what_is_wrong_stands_above_everything_else() -> None:
    assert "It serves, but the metastore is &lt;away&gt;" in page(warning="the metastore is <away>")
    printed = page(problem="no catalogd", warning="the metastore is away")
    assert '<p class="verdict ill">It does not serve as it should: no catalogd</p>' in printed
    assert "the metastore is away" not in printed


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

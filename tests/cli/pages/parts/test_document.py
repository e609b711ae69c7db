from topicast.cli.pages.parts.document import document
from topicast.topics.verdict import Reason, Serving, verdict_of

AWAY = Reason(state=Serving.DEGRADED, code="away", what="hive is <away>", mend="start <it>")
NEW = Reason(state=Serving.NOT_SERVING, code="new", what="nothing is here", mend="")


def page(*reasons: Reason, refresh_s: int = 0, peers: dict[str, str] | None = None) -> str:
    return document(
        "catalogd: <Hubs>",
        "<p>body</p>",
        verdict=verdict_of(reasons),
        more={"hubs": "Hubs"},
        head="who",
        nav={"Overview": "/", "Hubs": ""},
        peers=peers or {},
        foot="at last",
        refresh_s=refresh_s,
    )


def test_daemon_that_serves_says_so_first() -> None:
    assert '<p class="verdict well">serving</p><p>body</p>' in page()


def test_what_is_wrong_stands_above_everything_else_each_with_what_to_do() -> None:
    degraded = (
        '<p class="verdict warned">degraded: hive is &lt;away&gt;'
        '<span class="mend">→ start &lt;it&gt;</span></p>'
    )
    assert f"</h1>{degraded}<p>body</p>" in page(AWAY)
    worst = '<p class="verdict ill">not serving: nothing is here</p>'
    assert worst + degraded in page(AWAY, NEW)


def test_reason_leads_to_the_page_that_shows_more_of_it() -> None:
    hub = Reason(state=Serving.DEGRADED, code="hub_away", what="one is away", mend="start it")
    assert '→ start it · <a href="/hubs">see Hubs</a></span>' in page(hub)
    full = Reason(state=Serving.DEGRADED, code="store_full", what="no room", mend="make some")
    assert "→ make some</span>" in page(full), "there is no page about memory here"


def test_page_says_who_answers_and_leads_to_the_others() -> None:
    assert "<header>who</header>" in page()
    assert '<nav><a href="/">Overview</a> <b>Hubs</b></nav>' in page()
    assert "<h1>catalogd: &lt;Hubs&gt;</h1>" in page()


def test_page_leads_to_those_of_other_daemons_if_any_is_known() -> None:
    found = page(peers={"statestored <a>": "http://a:25010"})
    assert 'others</span> <a href="http://a:25010">statestored &lt;a&gt;</a></nav>' in found
    assert "others" not in page()


def test_page_is_not_loaded_again_unless_that_was_asked_for() -> None:
    assert "http-equiv" not in page()
    assert '<meta http-equiv="refresh" content="5">' in page(refresh_s=5)

"""Cases of docs/alarms.md: what commands print while a reason or an alarm is there.

    facts of a daemon ──its verdict, its tables──▶ what a command prints of them ──▶ the page

The outputs are made by what the commands print with, from the statuses of real cores in which a
few facts are replaced. ``test_alarms.py`` compares the page with them and, with ``--rewrite``,
writes them into it.
"""

import logging
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from prometheus_client import generate_latest

from topicast.catalog.config import CatalogdConfig
from topicast.catalog.ingest.events.event_batches import EventBatch
from topicast.catalog.ingest.events.event_processor import PAUSED, EventState, ProcessorFacts
from topicast.catalog.ingest.events.poller import EVENTS_OFF, NO_LISTENER
from topicast.catalog.reconcile.progress import ReconciliationFacts
from topicast.catalog.status import CatalogStatus, MetastoreFacts, without_store
from topicast.catalog.status import facts as facts_of_catalogd
from topicast.catalog.status import verdict as verdict_of_catalogd
from topicast.catalog.storage.store import MOVED_REMEDY
from topicast.cli.client.reaching import no_hub_at, no_statestored
from topicast.cli.commands.drivers import RULES, OrderedRule
from topicast.cli.commands.keys import COLUMNS as KEYS
from topicast.cli.commands.keys import ListedClient
from topicast.cli.commands.status import IN_VERDICT
from topicast.cli.commands.topics import MEMBERS, TOPICS, in_use, late_first
from topicast.cli.daemons import log_start
from topicast.cli.doctor import host
from topicast.cli.doctor.checks import Answer, Check, examine
from topicast.cli.doctor.metastore import MetastoreChecks
from topicast.cli.pages.metrics import CATALOGD, STATESTORED, Facts, Table, metric_name, registry_of
from topicast.cli.pages.parts.grid import Grid, in_words, shown
from topicast.cli.pages.sources import verdict_of_loop
from topicast.cli.pages.views.event_pages import events
from topicast.cli.records.fleet import completed, problem_lines, problems
from topicast.cli.records.levels import topic_name
from topicast.cli.records.overview import DaemonAnswers, Installation, counters, lines
from topicast.cli.terminal.lists import described, listed, wrapped
from topicast.statestore import status as hub_tables
from topicast.statestore.status import HubStatus
from topicast.subscriber.client.conversation import catalogd_behind
from topicast.subscriber.engine.reachability import Connection, unreached
from topicast.tests.cluster.alone import Alone, loaded
from topicast.tests.keys import user_keys
from topicast.tests.statestore.hub_driver import READER_CONTROL, HubDriver, hello
from topicast.topics.errors import LinkError, StoreFull, StoreMoved
from topicast.topics.keys.folder import OPERATOR
from topicast.topics.link import Link
from topicast.topics.liveness import LIVE, LOST
from topicast.topics.memory.memory_limit import MemoryFacts
from topicast.topics.objects.rules import OFF, Rule
from topicast.topics.objects.source_problem import ProblemKind, SourceProblem
from topicast.topics.settings import parse_addresses
from topicast.topics.topic import NUM_TOPICS_DEFAULT, offered_names
from topicast.topics.verdict import RefusedHandshake, Verdict
from topicast.topics.wire.messages.answers import DriverStatus, HubFacts, HubTopic, SubscriberStatus
from topicast.topics.wire.messages.connection import CONTROL_CHANNEL, READER, Welcome
from topicast.topics.wire.messages.questions import ReadDrivers, ReadSubscribers, ReadTopics

ALERTS: Final = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "alerts.yml"
METRIC: Final = re.compile(r"topicast_[a-z_]+")
WIDTH: Final = 80
LINES_MAX: Final = 24
HUB: Final = "tcp://a:24000"
SERVICE: Final = "tcp://c:26000"
METASTORE: Final = "thrift://meta-1:9083"
LOCAL: Final = "127.0.0.1"
NOW: Final = datetime(2026, 11, 26, 8, 0, 30, tzinfo=timezone.utc)


class Case(NamedTuple):
    """What ``names``, reasons or alarms, look like."""

    names: tuple[str, ...]
    output: Callable[[], list[str]]


def text_of(case: Case) -> str:
    """Return the part of the page about a case."""
    heading = ", ".join(f"`{name}`" for name in case.names)
    return "\n".join([f"### {heading}", "```text", *case.output(), "```"])


# -- the daemons


def hub(**changed: Any) -> HubStatus:
    """Return a hub that serves 50 drivers, which have another hub, too."""
    well = replace(
        HubDriver().status,
        num_topics=NUM_TOPICS_DEFAULT,
        seeding=False,
        publisher="catalogd@c",
        publisher_silent_s=0.2,
        catalog_address=SERVICE,
        topics=tuple(map(topic, range(4))),
        drivers=tuple(map(driver, range(1, 51))),
    )
    return replace(well, **changed)


def catalogd(**changed: Any) -> CatalogStatus:
    well = loaded().catalog.status()
    named = replace(well.metastore, addresses=METASTORE)
    known = {"hubs": (connection(),), "metastore": named, "lag_s": 0.2}
    return replace(well, **{**known, **changed})


def metastore(**changed: Any) -> CatalogStatus:
    """Return a catalogd that knows this of its metastore."""
    return catalogd(metastore=MetastoreFacts(addresses=METASTORE, **changed))


def connection(**changed: Any) -> HubFacts:
    well = HubFacts(
        address=HUB, connected=True, since_s=90.0, reason="in sync", unacknowledged=0, pages=""
    )
    return well._replace(**changed)


def topic(number: int, *, behind: int = 0) -> HubTopic:
    return HubTopic(
        topic=number,
        state="LIVE" if not behind else "BEHIND",
        version=70 - behind,
        floor=1,
        entries=400 - number,
        full_bytes=(900 << 10) - number,
        minimal_bytes=400,
        full_members=50,
        minimal_members=0,
        lag_versions=behind,
    )


def driver(number: int, **changed: Any) -> DriverStatus:
    well = DriverStatus(
        driver=f"{number:032x}",
        registration=f"{number:08x}" + "0" * 24,
        application=f"nightly-etl-{number}",
        application_id=f"app-{number}",
        user="ann",
        host="node1",
        pid=4700 + number,
        spark="4.0.1",
        release="",
        state="live",
        reason="",
        control="on",
        hubs=2,
        since_s=600.0,
    )
    return well._replace(**changed)


ILL: Final = driver(51, state="plain", reason="catalogd refuses the key", since_s=75.0)


def subscriber(number: int, **changed: Any) -> SubscriberStatus:
    well = SubscriberStatus(
        name=f"app-{number}@node1:{4700 + number}",
        registration=f"{number:08x}" + "0" * 24,
        role="reader",
        state=LIVE,
        topics=257,
        lag_versions=0,
        lag_s=0.0,
        held_bytes=48 << 20,
        budget_bytes=256 << 20,
    )
    return well._replace(**changed)


STOPPED: Final = subscriber(2, state=LOST, lag_versions=9, lag_s=41.0)
LATE: Final = subscriber(2, lag_versions=212, lag_s=75.0)


def metrics_of_alarms() -> set[str]:
    """Return the names of the metrics in the expressions of alarms."""
    expressions = re.findall(r"expr: (.*)", ALERTS.read_text())
    named = {name for text in expressions for name in METRIC.findall(text.replace("(", " ("))}
    return named - {"topicast_"}  # of a pattern


# -- what commands print


def status(
    of_hub: HubStatus | str | None = None,
    of_catalogd: CatalogStatus | str | None = None,
    *,
    verdict: Verdict | None = None,
    wanted: str = "",
) -> Iterator[str]:
    """Yield what ``topicast status`` prints; a text says why a daemon is not reached.

    ``verdict``: that of the statestored, if it is not that of its facts. ``wanted``: words of the
    counters that grep chooses.
    """
    of_hub, of_catalogd = of_hub or hub(), of_catalogd or catalogd()
    if isinstance(of_hub, str):
        first = DaemonAnswers(kind="statestored", address=HUB, problems=(of_hub,))
    else:
        known = _shown(hub_tables.facts(of_hub))
        serves = verdict or hub_tables.verdict(of_hub)
        first = DaemonAnswers(kind="statestored", address=HUB, facts=known, verdict=serves)
    if isinstance(of_catalogd, str):
        named = SERVICE if isinstance(of_hub, HubStatus) and of_hub.catalog_address else ""
        second = DaemonAnswers(kind="catalogd", address=named, problems=(of_catalogd,))
    else:
        known = _shown(facts_of_catalogd(of_catalogd))
        serves = verdict_of_catalogd(of_catalogd)
        second = DaemonAnswers(kind="catalogd", address=SERVICE, facts=known, verdict=serves)
    stack = Installation(hubs=(first,), catalogd=second)
    if wanted:
        yield f"$ topicast status --verbose | grep {wanted}"
        yield from (one for one in counters(stack) if wanted in one)
        return
    yield "$ topicast status"
    yield from lines(stack, width=WIDTH)


def _shown(facts: Facts) -> dict[str, Any]:
    found = {name: value for name, value in facts.items() if name not in IN_VERDICT}
    return found | {"offers": offered_names(int(found["offers"] or 0))}


def subscribers(*members: SubscriberStatus) -> Iterator[str]:
    found = hub_tables.answer(hub(subscribers=members), ReadSubscribers())
    yield "$ topicast subscribers"
    yield from listed(MEMBERS, late_first(found.records()), width=WIDTH)


def topics(*found: HubTopic) -> Iterator[str]:
    answer = hub_tables.answer(hub(topics=found), ReadTopics())
    used = [one | {"called": topic_name(one["topic"])} for one in in_use(answer.records())]
    yield "$ topicast topics"
    yield from listed(TOPICS, used, width=WIDTH)


def ill_drivers(*found: DriverStatus) -> Iterator[str]:
    answer = hub_tables.answer(hub(drivers=found), ReadDrivers())
    records = [one | {"statestored": HUB} for one in answer.records()]
    yield "$ topicast drivers --problems"
    yield from problem_lines(problems(completed(records, now=NOW)), width=WIDTH)


def doctor(name: str, run: Callable[[], Answer], *, port: int, as_if: str) -> Iterator[str]:
    """Yield the line of a check that this machine runs on ``port``, with the name of another."""
    yield "$ topicast doctor --role catalogd"
    (finding,) = examine([Check(name, run)], limit_s=10.0)
    answer = replace(
        finding.answer, finding=finding.answer.finding.replace(f"{LOCAL}:{port}", as_if)
    )
    yield from replace(finding, answer=answer).lines(WIDTH)


def no_metastore() -> Iterator[str]:
    port = closed_port()
    checks = MetastoreChecks()
    checks.client = CatalogdConfig(
        hive_metastore_uris=f"thrift://{LOCAL}:{port}", statestores=HUB
    ).metastore_client()
    yield from doctor("metastore", checks.reachable, port=port, as_if="meta-1:9083")


def no_hub() -> Iterator[str]:
    port = closed_port()
    (address,) = parse_addresses(f"tcp://{LOCAL}:{port}", setting="statestores")

    def run() -> Answer:
        return host.ports([address], daemon="statestored", setting="--statestores")

    yield from doctor("ports", run, port=port, as_if="a:24000")


def closed_port() -> int:
    """Return a port at which nobody listens."""
    with closing(socket.socket()) as one:
        one.bind((LOCAL, 0))
        return int(one.getsockname()[1])


def metrics(daemon: str, table: Table, **facts: Any) -> Iterator[str]:
    """Yield the lines of /metrics about ``facts``."""
    port = {"statestored": 25010, "catalogd": 25020}[daemon]
    yield f"http://{daemon}:{port}/metrics"
    text = generate_latest(registry_of(daemon, table, lambda: facts)).decode()
    names = tuple(metric_name(daemon, name) for name in facts)
    yield from (line for line in text.splitlines() if line.startswith(names))


def log(number: int) -> Iterator[str]:
    """Yield what a catalogd logs that is started again and again."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("topicast.cli.daemons")
    before, logger.level = logger.level, logging.INFO
    logger.addHandler(handler)
    try:
        log_start("catalogd", [("--num_topics", "64", "the command line")])
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    yield "$ journalctl -u catalogd -o cat | grep starts:"
    yield from found * number


def no_catalogd() -> str:
    """Return what a command says if its statestored knows no catalogd."""
    (welcome,) = HubDriver().receive(READER_CONTROL, hello("x", READER, CONTROL_CHANNEL))
    assert isinstance(welcome, Welcome)
    (address,) = parse_addresses(HUB, setting="statestores")
    own = user_keys(OPERATOR).credential
    with closing(Link(own.pair)) as link, pytest.raises(LinkError) as found:
        catalogd_behind(link, welcome, own, hub=address)
    return str(found.value)


def hanging() -> str:
    """Return what a command says if its statestored takes connections and does not answer."""
    return no_statestored(dict.fromkeys(parse_addresses(HUB, setting="statestores"), ""))


def nobody_listens() -> str:
    """Return what a command says if nobody listens at the address of its statestored."""
    port = closed_port()
    found = no_hub_at(parse_addresses(f"tcp://{LOCAL}:{port}", setting="statestores"))
    return found.replace(f"{LOCAL}:{port}", HUB.removeprefix("tcp://"))


def page_of_events(of: CatalogStatus, *only: str) -> Iterator[str]:
    """Yield the page; ``only``: some of its rows."""
    found = events(of, is_guarded=False)[""]
    assert isinstance(found, Grid)
    yield "http://catalogd:25020/events"
    rows = [row for row in found.rows if not only or row[0] in only]
    known = [(f"  {in_words(str(name))}", shown(str(name), value)) for name, value in rows]
    yield from described(known, width=WIDTH)


def slow(*, lag_s: float = 12.0) -> CatalogStatus:
    """Return the status of a catalogd: its last batch took 11.5 s, and the present batch waits."""
    well = catalogd(lag_events=6, lag_s=lag_s, newest_event=70, watermark=64)
    batch = EventBatch(
        at_us=1_790_000_000_000_000,
        events=6,
        last_id=70,
        tables=2,
        left=1,
        missing="",
        took_s=lag_s,
        waited_s=None,
    )
    done = [replace(batch, last_id=64, left=0, took_s=took_s, waited_s=took_s) for took_s in TIMES]
    made = replace(well.events, running=(batch,), batches=tuple(done), up_s=7200.0)
    return replace(well, events=made)


def uncompared() -> CatalogStatus:
    """Return a catalogd whose metastore hangs when it is to list names, and sends events."""
    why = "get_all_tables: no answer within 60 s"
    return catalogd(
        reconciliation=ReconciliationFacts(late_s=420.0, error=why, ended_s=470.0, took_s=31.0)
    )


def unreadable() -> CatalogStatus:
    """Return a catalogd whose metastore cannot read one table."""
    core = Alone()
    core.create_database("shop")
    core.metastore.unreadable["orders"] = "java.lang.NullPointerException"
    core.create("shop", "orders")
    core.turn(40)
    return replace(core.catalog.status(), hubs=(connection(),))


def healthz(port: int, verdict: Verdict) -> Iterator[str]:
    yield f"http://statestored:{port}/healthz"
    for line in verdict.lines:
        yield from wrapped(line, width=WIDTH)


NO_CATALOGD: Final = unreached(Connection.SERVICE, SERVICE, hub=HUB)
AWAY: Final = connection(connected=False, since_s=95.0, reason="the hub is silent for 2.0 s")
SHORT: Final = MemoryFacts(
    limit_bytes=130 << 20, resident_bytes=141 << 20, warm_groups=0, cooled=812
)
FULL: Final = StoreFull(
    "/var/lib/topicast/catalog.sqlite3", "cannot grow", "free space on its disk"
)
MOVED: Final = StoreMoved(
    "/var/lib/topicast/catalogd.lock", "was deleted, moved or replaced", MOVED_REMEDY
)
TIMES: Final = (0.02, 0.03, 11.5)
UNANSWERED: Final = f"no metastore reached: {METASTORE} (Connection refused)"
UNRECORDED: Final = SourceProblem(ProblemKind.UNRECORDED, NO_LISTENER)
UNPOLLED: Final = SourceProblem(ProblemKind.OFF, EVENTS_OFF)
PAUSE: Final = SourceProblem(
    ProblemKind.PAUSED, PAUSED.format(who="ops (ann@c)", since="2026-11-27 02:10:00")
)
PAUSED_NOW: Final = ProcessorFacts(state=EventState.PAUSED, because="by ops (ann@c)", since_us=1)
HANGS: Final = verdict_of_loop(Verdict(), silent_s=14.0)
UNNAMED: Final = hub(num_topics=0, publisher="", unannounced="catalogd@c", drivers=())
YEAR_S: Final = 365 * 86_400.0
CLIENTS: Final = tuple(
    ListedClient(name=name, role=role, public=public, address="", databases="")
    for name, role, public in (
        ("etl", "driver", "q@*7H[a2P.r}T/mVc0%Yf8-LwK1]dGzXs#4(eRjU"),
        ("ann", "operator", "t)9Wn!&bE5^oJ{3Zx=CkA:6]yMhQv0@uI>8gS?Fp"),
    )
)
CASES: Final = (
    Case(("TopicastDown",), lambda: [*status(nobody_listens(), catalogd(hubs=(AWAY,)))]),
    Case(
        ("TopicastNotServing", "no_catalogd"),
        lambda: [
            *status(hub(num_topics=0, publisher="", catalog_address="", drivers=()), no_catalogd())
        ],
    ),
    Case(
        ("seeding",),
        lambda: [*status(hub(seeding=True, topics_behind=2, topics=tuple(map(topic, range(4)))))],
    ),
    Case(
        ("TopicastPublisherSilent", "catalogd_silent"),
        lambda: [*status(hub(publisher_silent_s=42.0), NO_CATALOGD)],
    ),
    Case(("two_catalogds",), lambda: [*status(hub(rival="tcp://d:26000"))]),
    Case(
        ("TopicastHubsMissing", "hub_away"),
        lambda: [*status(nobody_listens(), catalogd(hubs=(AWAY,))), "", *no_hub()],
    ),
    Case(
        ("TopicastMetastoreSilent", "metastore_silent"),
        lambda: [*status(None, metastore(polls=UNANSWERED)), "", *no_metastore()],
    ),
    Case(
        ("metastore_names",),
        lambda: [*status(UNNAMED, metastore(names=UNANSWERED, names_known=False))],
    ),
    Case(("metastore_events",), lambda: [*status(None, metastore(source_problem=UNRECORDED))]),
    Case(("events_off",), lambda: [*status(None, metastore(source_problem=UNPOLLED))]),
    Case(
        ("events_paused",),
        lambda: [*status(None, replace(metastore(source_problem=PAUSE), processor=PAUSED_NOW))],
    ),
    Case(("events_unproven",), lambda: [*status(None, metastore(unproven=True))]),
    Case(
        ("TopicastEventGap", "events_missing"),
        lambda: [*status(None, metastore(missing="events 62 to 81 are missing"))],
    ),
    Case(
        ("TopicastEventsNotUnderstood", "events_not_understood"),
        lambda: [*status(None, metastore(not_understood=("RELOAD_PLUS",)))],
    ),
    Case(
        ("TopicastComparisonStopped", "comparison_stopped"),
        lambda: [*status(None, uncompared()), "", *page_of_events(uncompared(), "comparison")],
    ),
    Case(
        ("store_full",),
        lambda: [*status(hub(publisher_silent_s=42.0), without_store(catalogd(), FULL))],
    ),
    Case(
        ("store_moved",),
        lambda: [*status(hub(publisher_silent_s=42.0), without_store(catalogd(), MOVED))],
    ),
    Case(("memory_short",), lambda: [*status(None, catalogd(memory=SHORT))]),
    Case(
        ("TopicastDriversProblem", "drivers_problem"),
        lambda: [
            *status(hub(drivers=(*hub().drivers, ILL))),
            "",
            *ill_drivers(*hub().drivers, ILL),
        ],
    ),
    Case(
        ("TopicastMembersLost", "subscribers_lost"),
        lambda: [
            *status(hub(subscribers=(subscriber(1), STOPPED))),
            "",
            *subscribers(subscriber(1), STOPPED),
        ],
    ),
    Case(
        ("TopicastDegraded", "drivers_off"),
        lambda: [
            *status(None, catalogd(rules=(Rule("nightly-*", OFF),))),
            "",
            "$ topicast drivers --rules",
            *listed(RULES, [OrderedRule(applications="nightly-*", state=OFF)], width=WIDTH),
        ],
    ),
    Case(
        ("TopicastHandshakesFailed", "handshakes_failed"),
        lambda: [
            *status(hub(refused_handshake=RefusedHandshake(3.0, "10.0.0.7"))),
            "",
            "$ topicast keys list",
            *listed(KEYS, CLIENTS, width=WIDTH),
        ],
    ),
    Case(
        ("loop_hangs",),
        lambda: [*status(hanging(), catalogd(hubs=(AWAY,))), "", *healthz(25010, HANGS)],
    ),
    Case(
        ("TopicastBehind", "behind"),
        lambda: [
            *status(None, slow(lag_s=75.0)),
            "",
            *page_of_events(slow(lag_s=75.0), "state", "current batch"),
        ],
    ),
    Case(("TopicastPublishedLate",), lambda: [*page_of_events(slow())]),
    Case(
        ("TopicastReadersBehind", "subscribers_behind"),
        lambda: [
            *status(hub(subscribers=(subscriber(1), LATE))),
            "",
            *subscribers(subscriber(1), LATE),
        ],
    ),
    Case(
        ("TopicastAnswersDiffer", "answers_differ"),
        lambda: [
            *status(hub(answers_differed_s=720.0)),
            "",
            *metrics("statestored", STATESTORED, answers_audited=72_140, answers_differing=1),
        ],
    ),
    Case(
        ("TopicastTopicsBehind", "topics_behind"),
        lambda: [
            *status(hub(topics_behind=1, behind_s=75.0)),
            "",
            *topics(topic(1), topic(2, behind=12)),
        ],
    ),
    Case(
        ("TopicastTablesUnreadable",),
        lambda: [
            *status(None, unreadable()),
            "",
            *status(None, unreadable(), wanted="unreadable"),
        ],
    ),
    Case(
        ("TopicastMemoryNearLimit",),
        lambda: [
            *metrics("catalogd", CATALOGD, held_bytes=1_480_000_000, memory_limit_bytes=2 << 30)
        ],
    ),
    Case(("TopicastKeysOld",), lambda: [*metrics("catalogd", CATALOGD, key_age_s=1.1 * YEAR_S)]),
    Case(
        ("TopicastCertificateExpires",),
        lambda: [*metrics("statestored", STATESTORED, certificate_left_s=9 * 86_400.0)],
    ),
    Case(("TopicastRestarts",), lambda: [*log(4)]),
)

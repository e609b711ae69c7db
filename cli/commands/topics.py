"""The commands that show topics, and the subscribers that follow them, at which level and why."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypedDict

import click

from ...subscriber import Subscriber
from ...topics.errors import LinkError, NoSuchObject, NotReady, UsageError
from ...topics.liveness import LIVE
from ...topics.objects.names import parse_table_name, table_name
from ...topics.settings import Address, parse_addresses
from ...topics.sizes import size
from ...topics.topic import LEVELS, NAMESPACE, table_topic
from ...topics.wire.messages.answers import LevelList
from ...topics.wire.messages.questions import ReadLevels, ReadPositions, ReadStatus, ReadTopics
from ..client.operator import (
    OWN_ONLY,
    Operator,
    announced_at,
    at_each,
    catalog_at,
    complain_of,
    facts_of,
    members_of,
    note_policy,
    readers_of,
)
from ..options.flags import READER_OPTIONS, Documents, command, prints, statestores_option
from ..records.fleet import called
from ..records.levels import alike, ranges, topic_name
from ..terminal.lists import Heading, Record, amount, listed, short, span, wrapped
from ..terminal.output import Output, note
from ..terminal.schemas import Fields, fields_of

NAMED_MAX: Final = 8  # subscribers that an error lists
ASKED_MAX: Final = 32  # readers that are behind, each of which is asked for its versions
MEMBERS: Final = (
    *(Heading(name="name", rank=0), Heading(name="role"), Heading(name="state", rank=0)),
    Heading(name="registration", title="id", rank=2, text=short),
    *(Heading(name="lag_s", title="behind", text=span), Heading(name="lag_versions", wide=True)),
    *(Heading(name="topics"), Heading(name="held_bytes", title="held", rank=2, text=size)),
    Heading(name="budget_bytes", title="budget", rank=3, text=size),
    Heading(name="statestored", rank=5),
)
BY_LEVEL: Final = (
    *(Heading(name="name", rank=0), Heading(name="registration", title="id", rank=2, text=short)),
    *(Heading(name="state", rank=3), Heading(name="level", rank=0), Heading(name="count")),
    *(Heading(name="statestored", rank=5), Heading(name="ranges", title="topics", prose=True)),
)
TOPICS: Final = (
    *(Heading(name="called", title="topic", rank=0), Heading(name="state", rank=0)),
    *(Heading(name="lag_versions", title="behind"), Heading(name="entries")),
    Heading(name="full_bytes", title="bytes", text=size),
    *(Heading(name="full_members", title="full"), Heading(name="minimal_members", title="minimal")),
    *(Heading(name="version", rank=2), Heading(name="floor", rank=3)),
    Heading(name="minimal_bytes", wide=True),
)
ABOUT: Final = ("name", "registration", "held_bytes", "budget_bytes")
"""The facts of a subscriber that --why shows, besides its topics."""
WHY: Final = (
    *(Heading(name="level", rank=0), Heading(name="count", title="topics")),
    *(Heading(name="bytes", text=size), Heading(name="full_bytes", title="in full", text=size)),
    *(Heading(name="hits"), Heading(name="why", rank=0, prose=True)),
    Heading(name="ranges", title="numbers", wide=True),
)
READERS: Final = (
    *(Heading(name="called", title="reader", rank=0), Heading(name="level", rank=0)),
    *(Heading(name="lag_versions", title="behind"), Heading(name="lag_s", title="for", text=span)),
    *(Heading(name="registration", title="id", rank=2, text=short), Heading(name="state", rank=3)),
)


class TopicReader(TypedDict):
    """A reader of one topic. ``lag_s``: for how long it is behind; null: it is not."""

    called: str
    name: str
    registration: str
    level: str
    lag_versions: int
    lag_s: float | None
    state: str
    statestored: str


class SubscriberLevel(TypedDict):
    """The topics that a subscriber follows at one level."""

    name: str
    registration: str
    state: str
    statestored: str
    level: str
    count: int
    topics: list[int]


def _documents_of_topics() -> Documents:
    from ...subscriber.protocol.status import TopicInfo
    from ...topics.wire.messages.answers import HubTopic, SubscriberStatus

    topic = fields_of(HubTopic).or_null(but=("topic", "state", "version", "floor"))
    level = Fields({"topic": int, **fields_of(TopicInfo).without(("id",)).types})
    reader = fields_of(SubscriberStatus).types
    about = {name: reader[name] for name in ABOUT}
    return {
        "": [topic],
        "TOPIC": topic.but(tables=list[str], readers=list[TopicReader]),
        "--why": Fields({**about, "topics": [level]}),
        "--why --table": Fields({**about, "table": str, "topics": [level]}),
    }


def _documents_of_subscribers() -> Documents:
    from ...topics.wire.messages.answers import SubscriberStatus

    member = fields_of(SubscriberStatus).but(statestored=str)
    return {"": [member], "--topics": list[SubscriberLevel]}


@command()
@click.argument("topic", metavar="[TOPIC]", required=False)
@click.option("--all", "every", is_flag=True, help="Show topics that hold nothing, too.")
@click.option(
    "--why",
    metavar="[SUBSCRIBER]",
    is_flag=False,
    flag_value="",
    default=None,
    help="Show the levels that a subscriber chose, and why; name it if there are several.",
)
@click.option("--table", metavar="DB.TABLE", help="With --why: only for the topic of this table.")
@READER_OPTIONS
@prints(_documents_of_topics)
def topics(
    topic: str | None,
    *,
    every: bool,
    why: str | None,
    table: str | None,
    statestores: str,
    output: str,
    **where: Any,
) -> int:
    """Show the topics that are in use: bytes, and members at each level.

    TOPIC, a number or 'namespace', shows one topic: its tables, its readers, and who is behind. A
    SUBSCRIBER is its name in 'topicast subscribers', its application, or the beginning of its id. A
    subscriber that is behind delays nobody else.
    """
    addresses = parse_addresses(statestores, setting="statestores")
    printed = Output(output)
    if table is not None and why is None:
        raise UsageError(f"--table {table}: name a subscriber, too, as --why APPLICATION")
    if why is not None:
        if table is not None:
            with catalog_at(statestores, **where) as catalog:
                _check_known(catalog, table)
        return _show_why(addresses, why, printed, table=table)
    if topic is not None:
        return _show_topic(_number(topic), printed, statestores=statestores, **where)
    with Operator(addresses) as visit:
        records = visit.hub(ReadTopics()).records()
    note_policy("counts that include other databases are left out")
    if printed.is_json:
        printed.rows(TOPICS, records, nothing="")
        return 0
    used = records if every else in_use(records)
    printed.rows(TOPICS, [_named(one) for one in used], nothing="no topic is in use")
    if len(used) < len(records):
        note(f"{len(records) - len(used)} topics hold nothing: --all shows them")
    return 0


@command()
@click.option("--topics", "by_topic", is_flag=True, help="Show the topics of each by level.")
@statestores_option("all are used")
@prints(_documents_of_subscribers)
def subscribers(*, by_topic: bool, statestores: str, output: str) -> int:
    """Show the subscribers of each statestored, and how far behind each of them is."""
    addresses = parse_addresses(statestores, setting="statestores")
    look: Callable[[Operator], Sequence[Mapping[str, Any]]] = _by_level if by_topic else members_of
    found, failures = at_each(addresses, look)
    code = complain_of(failures)
    note_policy(OWN_ONLY)
    printed = Output(output)
    records = [one for records in found for one in records]
    columns: Sequence[Heading] = BY_LEVEL if by_topic else MEMBERS
    if len(addresses) == 1:
        columns = [one for one in columns if one.name != "statestored"]
    if not by_topic:
        records = late_first(records)
    elif not printed.is_json:
        records = [{**one, "ranges": ranges(one["topics"])} for one in records]
    printed.rows(columns, records, nothing="no subscriber is connected")
    return code


def late_first(members: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the members that are not live, then those that are behind, the farthest first."""
    return sorted(members, key=lambda one: (one["state"] == LIVE, -one["lag_s"]))


def in_use(records: Sequence[Record]) -> list[Record]:
    """Return the topics that hold something, or are behind; the latter first, then by size."""

    def is_behind(one: Record) -> bool:
        return bool(one["lag_versions"]) or one["state"] != "LIVE"

    used = [one for one in records if is_behind(one) or one.get("entries") or one["version"]]
    return sorted(used, key=lambda one: (not is_behind(one), -(one.get("full_bytes") or 0)))


def topic_lines(
    topic: Record, tables: Sequence[str], readers: Sequence[TopicReader], *, width: int
) -> list[str]:
    """Return the lines about one topic: its size, tables and readers, and who is behind."""
    head = f"topic {topic_name(topic['topic'])}: {topic['state']}, version {topic['version']}"
    if topic.get("entries") is not None:
        head += f", {amount(topic['entries'], 'entry', 'entries')}, {size(topic['full_bytes'])}"
    behind = [one for one in readers if one["lag_versions"]]
    found = [head, "", amount(len(tables), "table", "tables"), *(f"  {one}" for one in tables)]
    found += ["", amount(len(readers), "reader", "readers")]
    if readers:
        found += [f"  {line}" for line in listed(READERS, readers, width=width - 2)]
    names = [f"{one['called']} by {amount(one['lag_versions'], *_VERSIONS)}" for one in behind]
    text = f"behind: {', '.join(names)}" if names else "no reader is behind"
    return [*found, "", *wrapped(text, width=width, rest="  ")]


_VERSIONS: Final = ("version", "versions")


def _show_topic(
    number: int, printed: Output, *, statestores: str, budget: str, timeout_s: float
) -> int:
    addresses = parse_addresses(statestores, setting="statestores")
    found, failures = at_each(addresses, lambda visit: _readers_in(visit, number))
    code = complain_of(failures)
    topic = found[0][0]
    readers = [one for _, records in found for one in records]
    tables: list[str] = []
    if number != NAMESPACE:
        with catalog_at(statestores, budget=budget, timeout_s=timeout_s) as catalog:
            names = [f"{db}.{one}" for db in catalog.databases() for one in catalog.tables(db)]
            tables = [name for name in names if catalog.topic_of(name) == number]
    note_policy(OWN_ONLY)
    readers.sort(key=lambda one: (-one["lag_versions"], one["called"]))
    text = "\n".join(topic_lines(topic, tables, readers, width=printed.width))
    content = {**topic, "tables": tables, "readers": readers}
    printed.document(content, text=text)
    return code


def _readers_in(visit: Operator, number: int) -> tuple[Record, list[TopicReader]]:
    """Return the topic ``number`` as a hub has it, and its readers with how far each is behind."""
    topic = next((one for one in visit.hub(ReadTopics()).records() if one["topic"] == number), None)
    if topic is None:
        raise NoSuchObject(f"topic {number}: topicast topics --all lists them")
    drivers, readers = announced_at(visit), readers_of(visit)
    late = [one["registration"] for one in readers if one["lag_versions"]][:ASKED_MAX]
    answers = visit.readers(ReadLevels, late) if late else {}
    found: list[TopicReader] = []
    for reader in readers:
        registration = reader["registration"]
        levels = {one["topic"]: one["level"] for one in _joined(visit, registration)}
        if number not in levels:
            continue
        answer = answers.get(registration)
        versions = _versions(answer) if isinstance(answer, LevelList) else {}
        lag = max(topic["version"] - versions.get(number, topic["version"]), 0)
        found.append(
            TopicReader(
                called=_called(reader, drivers),
                name=reader["name"],
                registration=registration,
                level=levels[number],
                lag_versions=lag,
                lag_s=reader["lag_s"] if lag else None,
                state=reader["state"],
                statestored=reader["statestored"],
            )
        )
    return topic, found


def _versions(answer: LevelList) -> Mapping[int, int]:
    return {one.id: one.version for one in answer.rows}


def _called(reader: Record, drivers: Mapping[str, Record]) -> str:
    """Return the application of a reader that is a driver, else its name."""
    said = drivers.get(reader["registration"], {})
    return str(said.get("application") or reader["name"])


def _show_why(
    addresses: tuple[Address, ...], why: str, printed: Output, *, table: str | None
) -> int:
    found, failures = at_each(addresses, _known_readers)
    code = complain_of(failures)
    reader = meant([one for readers in found for one in readers], why)
    with Operator(parse_addresses(reader["statestored"])) as visit:
        try:
            levels = visit.hub(ReadLevels(member=bytes.fromhex(reader["registration"]))).records()
        except NotReady as error:
            text = f"{reader['name']} did not answer: is it stopped, or too busy?"
            raise NotReady(text) from error
        num_topics = int(facts_of(visit.hub(ReadStatus()))["num_topics"] or 0)
    records = [{"topic": one.pop("id"), **one} for one in levels]
    about = {name: reader[name] for name in ABOUT}
    if table is not None:
        content, text = _of_table(
            table, records, about, called=called(reader), num_topics=num_topics
        )
        printed.document(content, text="\n".join(wrapped(text, width=printed.width)))
        return code
    held, budget = size(reader["held_bytes"]), size(reader["budget_bytes"])
    lines = [f"{called(reader)} holds {held} of its budget of {budget}"]
    lines += listed(WHY, alike(records), width=printed.width, wide=printed.form == "wide")
    printed.document({**about, "topics": records}, text="\n".join(lines))
    return code


def _check_known(catalog: Subscriber, table: str) -> None:
    """Raise NoSuchObject if there is no such table, because any name belongs to some topic."""
    db, name = parse_table_name(table)
    known = catalog.tables(db)
    if name not in known:
        near = [table_name(db, one) for one in get_close_matches(name, known)]
        raise NoSuchObject(table_name(db, name), lambda: near)


def _of_table(
    table: str, records: Sequence[Record], about: Record, *, called: str, num_topics: int
) -> tuple[Record, str]:
    """Return why a subscriber follows ``table`` at its level, as a document and as text."""
    name = parse_table_name(table)
    number = table_topic(*name, num_topics)
    one = next(record for record in records if record["topic"] == number)
    held = f"holds {size(one['bytes'])}" if one["level"] != "none" else "holds nothing"
    text = (
        f"{table_name(*name)} is in topic {number}; {called} follows it at level "
        f"{one['level']} and {held} of it ({size(one['full_bytes'])} in full): {one['why']}"
    )
    return {**about, "table": table_name(*name), "topics": [one]}, text


def meant(readers: list[Record], named: str) -> Record:
    """Return the reader with this name or application, or whose registration begins with it.

    Raises:
        NoSuchObject: there is no such reader.
        UsageError: there are several.
        LinkError: the reader has lost its hub.
    """
    names = ("name", "application", "application_id")
    found = [one for one in readers if named and named in [one.get(name) for name in names]] or [
        one for one in readers if named == "" or one["registration"].startswith(named)
    ]
    if not found:
        who = f"subscriber {named}" if named else "a subscriber at this statestored"
        raise NoSuchObject(f"{who}: topicast subscribers lists them")
    found = [one for one in found if one["state"] != "LOST"] or found[:1]  # it may have moved
    if len(found) > 1:
        some = [f"{one['name']} ({short(one['registration'])})" for one in found[:NAMED_MAX]]
        more = ", …" if len(found) > NAMED_MAX else ""
        raise UsageError(f"name a subscriber, as --why=NAME: {', '.join(some)}{more}")
    if found[0]["state"] == "LOST":
        raise LinkError(f"{found[0]['name']} has sent nothing for {found[0]['lag_s']} s")
    return found[0]


def _known_readers(visit: Operator) -> list[Record]:
    """Return a record for each reader; if it is a driver, with its application."""
    drivers = announced_at(visit)
    names = ("application", "application_id")
    return [
        one | {name: drivers.get(one["registration"], {}).get(name) for name in names}
        for one in readers_of(visit)
    ]


def _by_level(visit: Operator) -> list[SubscriberLevel]:
    """Return one record for each level at which a reader follows something."""
    return [one for reader in readers_of(visit) for one in _levels_of(visit, reader)]


def _joined(visit: Operator, registration: str) -> list[Record]:
    """Return the levels at which a reader follows each topic; nothing if it has just left."""
    try:
        return visit.hub(ReadPositions(member=bytes.fromhex(registration))).records()
    except UsageError:
        return []


def _levels_of(visit: Operator, reader: Record) -> list[SubscriberLevel]:
    joined = _joined(visit, reader["registration"])
    topics = {
        level: sorted(one["topic"] for one in joined if one["level"] == level)
        for level in reversed(LEVELS)
    }
    return [
        SubscriberLevel(
            name=reader["name"],
            registration=reader["registration"],
            state=reader["state"],
            statestored=reader["statestored"],
            level=level,
            count=len(found),
            topics=found,
        )
        for level, found in topics.items()
        if found
    ]


def _named(record: Record) -> Record:
    return {**record, "called": topic_name(record["topic"])}


def _number(text: str) -> int:
    """Return the number of the topic that ``text`` names; raises UsageError if it is none."""
    if text == "namespace":
        return NAMESPACE
    if not text.isdecimal():
        raise UsageError(f"{text} is no topic: write its number, or namespace")
    return int(text)

"""Write the vectors of protocol version 1: ``python tests/vectors/rewrite.py``.

For a version that is not released yet. Released vectors are never written again: a new version
of the protocol has files of its own.
"""

import json
from pathlib import Path

from topicast.topics.objects.selector import ALL, TABLE_ONLY, by_filter, by_names, by_sql, by_values
from topicast.topics.topic import (
    FULL,
    MINIMAL,
    NAMESPACE,
    NUM_TOPICS_MAX,
    STUB,
    Entry,
    prefix_tombstone,
    stub,
    table_topic,
    tombstone,
)
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages.answers import (
    AttachedDrivers,
    DriverStatus,
    EventCost,
    EventCosts,
    EventLine,
    EventLines,
    EventText,
    EventTexts,
    FilePage,
    FollowedTopic,
    FollowedTopics,
    FunctionPage,
    FunctionRow,
    HeldTopic,
    HeldTopics,
    HistoryLine,
    HistoryPage,
    HubFacts,
    HubList,
    HubTopic,
    HubTopics,
    KeyCut,
    KeyCuts,
    LevelList,
    LogEnds,
    LogLine,
    LogPage,
    LogSpan,
    MessageTrace,
    NamedFacts,
    PartitionFiles,
    ReasonRow,
    Reasons,
    StatisticsPage,
    StatisticsRow,
    Subscribers,
    SubscriberStatus,
    SweepPage,
    SweepState,
    TableState,
    TableStates,
    TableUse,
    TableUses,
    TopicLevel,
    TopicVersion,
    TopicVersions,
    TracedMessage,
    VersionBound,
    VersionBounds,
)
from topicast.topics.wire.messages.catalog import (
    Claimed,
    Compare,
    Compared,
    Grant,
    Granted,
    Lease,
    Leased,
    Pull,
    Pulled,
    Scan,
    Scanned,
    Sync,
    Synced,
    Used,
    Validate,
    Validated,
)
from topicast.topics.wire.messages.connection import (
    CONTROL_CHANNEL,
    READER,
    Bye,
    Hello,
    Introduction,
    KeepAlive,
    Refused,
    ServerKeys,
    Welcome,
)
from topicast.topics.wire.messages.data import Barrier, Chunk, Delta, Heartbeat
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.messages.publishers import Announce, ClientList, Filed, Have
from topicast.topics.wire.messages.questions import (
    Order,
    ReadBound,
    ReadChanges,
    ReadCuts,
    ReadDriver,
    ReadDrivers,
    ReadEventCosts,
    ReadEventLog,
    ReadEvents,
    ReadFiles,
    ReadFunctions,
    ReadHeldTopics,
    ReadHistory,
    ReadHubs,
    ReadLevels,
    ReadLog,
    ReadLogBounds,
    ReadPositions,
    ReadRecent,
    ReadStatistics,
    ReadStats,
    ReadStatus,
    ReadSubscribers,
    ReadSweeps,
    ReadTableStates,
    ReadTopics,
    ReadTrace,
    ReadUsage,
    ReadVerdict,
    ReadVersions,
    ReadWriter,
)
from topicast.topics.wire.messages.readers import (
    Cancel,
    CatchUp,
    Credit,
    DriverFacts,
    Drop,
    Dropped,
    Join,
    JoinAnswer,
    Joined,
    Position,
    ReaderStatus,
    TopicState,
    Wanted,
)
from topicast.topics.wire.messages.reports import (
    INTENT,
    OVERWRITTEN,
    WRITTEN,
    FileFacts,
    Report,
    Reported,
    Sweep,
    Swept,
    Write,
    WriteOutcome,
)

HERE = Path(__file__).parent
EPOCH, START, NOW = 1_790_000_000_000_000, 0x1122334455667788, 1_790_000_001_000_000
TABLE, BLOCK = b"sales\0orders\0", b"sales\0orders\0\x01ds=2026-11-01"
VALUE = Entry(TABLE, 42, 40, 42, 5, b"table")
BLOCK_VALUE = Entry(BLOCK, 42, 42, 42, 3, b"\x00\xff\x00")
ENTRIES = (
    prefix_tombstone(b"sales\0old\0", 41),
    prefix_tombstone(TABLE, 42),
    VALUE,
    tombstone(BLOCK, 42),
)
PLACE = {"topic": 7, "epoch": EPOCH, "start": START, "floor": 30, "sent_us": NOW}
FILTERS = (  # one of each term and each type of literals
    "n > 2",
    "not (s like 'a%b_c' or hour in (4, 3, 4) and DS != 'x')",
    "lower(s) = 'a' and try_cast(s as int) is null and s not in ('b', 'a')",
    "b and d >= date '2026-11-01' and at < timestamp '2026-11-01 12:00:00.5'",
    "price in (1.50, null) or f <= 1e3 or n = 99999999999999999999",
    "n = null",
)
PULL = {"request": 4, "db": "sales", "table": "orders", "credit": 1 << 20}
PULLED = {
    "request": 4,
    "found": True,
    "epoch": EPOCH,
    "start": START,
    "topic": 7,
    "topic_version": 42,
    "namespace_version": 9,
    "incarnation": 3,
}
PART = Chunk(
    **PLACE,
    level=FULL,
    from_version=0,
    to_version=42,
    stream=9,
    sequence=0,
    resume_version=42,
    resume_key=BLOCK,
    entries=(VALUE, BLOCK_VALUE),
    first=True,
    snapshot=True,
)
HEARTBEAT = Heartbeat(
    hub=77,
    epoch=EPOCH,
    start=START,
    sequence=12,
    interval_ms=250,
    sent_us=NOW,
    watermark=4711,
    age_ms=15,
    catalog_address="tcp://127.0.0.1:26000",
    versions=(3, 0, 42, 9),
    floors=(0, 0, 30, 0),
)
MESSAGES: tuple[tuple[str, Message], ...] = (
    (
        "delta",
        Delta(**PLACE, level=FULL, from_version=40, to_version=42, source=1, entries=ENTRIES),
    ),
    (
        "delta at minimal",
        Delta(
            **PLACE,
            level=MINIMAL,
            from_version=41,
            to_version=42,
            source=2,
            entries=(stub(VALUE), tombstone(BLOCK, 42)),
        ),
    ),
    (
        "delta too large for its values",
        Delta(
            **PLACE,
            level=FULL,
            from_version=41,
            to_version=42,
            source=0,
            entries=(Entry(BLOCK, 42, 42, 42, 1 << 40, None, STUB),),
            stubbed=True,
        ),
    ),
    (
        "delta too large for its stubs",
        Delta(
            **{**PLACE, "topic": NAMESPACE},
            level=FULL,
            from_version=0,
            to_version=(1 << 64) - 1,
            source=4,
            entries=(),
            stubbed=True,
            invalidate_all=True,
        ),
    ),
    ("chunk, first of a snapshot", PART),
    (
        "chunk, last and empty",
        Chunk(
            **PLACE,
            level=MINIMAL,
            from_version=42,
            to_version=42,
            stream=9,
            sequence=0,
            resume_version=0,
            resume_key=b"",
            entries=(),
            first=True,
            last=True,
            invalidate_all=True,
        ),
    ),
    ("heartbeat", HEARTBEAT),
    ("barrier", Barrier(nonce=bytes(range(16)))),
    (
        "hello",
        Hello(
            role=READER,
            channel=CONTROL_CHANNEL,
            name="driver-1",
            registration=bytes(range(16)),
            protocol_min=1,
            protocol_max=1,
            is_command=True,
        ),
    ),
    (
        "welcome",
        Welcome(
            protocol=1,
            hub=77,
            epoch=EPOCH,
            start=START,
            num_topics=256,
            data_address="tcp://127.0.0.1:24001",
            catalog_address="tcp://127.0.0.1:26000",
            catalog_name="hive",
            heartbeat_ms=250,
            lost_ms=8000,
            policy=3,
            policy_digest=0xFFFFFFFF,
        ),
    ),
    ("refused", Refused(request=9, code="BUSY", message="ask again", retry_ms=100)),
    (
        "join",
        Join(request=1, positions=(Position(topic=7, level=FULL, epoch=EPOCH, version=42),)),
    ),
    (
        "join of several topics",
        Join(
            request=2,
            positions=(
                *(Position(topic=t, level=MINIMAL, epoch=EPOCH, version=t) for t in (0, 1, 9)),
                Position(topic=NAMESPACE, level=FULL, epoch=EPOCH, version=42),
            ),
        ),
    ),
    (
        "joined",
        Joined(
            request=1,
            epoch=EPOCH,
            start=START,
            topics=(
                TopicState(
                    topic=7,
                    level=FULL,
                    answer=JoinAnswer.CURRENT,
                    version=42,
                    full_bytes=70_000,
                ),
            ),
        ),
    ),
    ("drop", Drop(request=2, topics=(7, NAMESPACE))),
    ("dropped", Dropped(request=2)),
    (
        "status",
        ReaderStatus(
            positions=(Position(topic=7, level=MINIMAL, epoch=EPOCH, version=41),),
            lag_us=900,
            held_bytes=70_000,
            budget_bytes=256_000_000,
            audits=7,
            audit_differences=1,
        ),
    ),
    ("keep-alive", KeepAlive()),
    ("bye", Bye(reason="closed")),
    ("have", Have(epoch=EPOCH, start=START, versions=(3, 0, 42, 9))),
    (
        "announce",
        Announce(
            epoch=EPOCH,
            start=START,
            num_topics=256,
            catalog_address="tcp://127.0.0.1:26000",
            catalog_name="hive",
        ),
    ),
    ("client-list", ClientList(text=b"etl driver " + b"e" * 40 + b"\n")),
    ("filed", Filed(epoch=EPOCH, start=START, versions=((7, 42), (NAMESPACE, 9)))),
    (
        "catch-up",
        CatchUp(
            stream=9,
            credit=1 << 20,
            wanted=(
                Wanted(topic=7, level=FULL, epoch=EPOCH, version=40),
                Wanted(
                    topic=8,
                    level=FULL,
                    epoch=EPOCH,
                    version=0,
                    resume_version=12,
                    resume_key=BLOCK,
                    cut=20,
                ),
            ),
        ),
    ),
    ("credit", Credit(stream=9, amount=262_144)),
    ("cancel", Cancel(stream=9)),
    ("compare", Compare(request=3, epoch=EPOCH, start=START, versions=((7, 42),))),
    ("compared", Compared(request=3, accepted=True, epoch=EPOCH, start=START)),
    (
        "pull",
        Pull(
            **PULL,
            selector=by_filter("ds >= '2026-11-01'"),
            held=((BLOCK, 41),),
            epoch=EPOCH,
            claims=(Claimed(db="sales", table="returns", version=40, whole=True),),
        ),
    ),
    (
        "pull of names, continued",
        Pull(
            **PULL,
            selector=by_values(("2026-11-01",)),
            names_only=True,
            bytes_max=65_536,
            after=BLOCK,
            epoch=EPOCH,
            version=42,
        ),
    ),
    (
        "pull by names",
        Pull(
            **PULL,
            selector=by_names(("ds=2026-11-01", "ds=2026-11-02")),
        ),
    ),
    ("pull of a table alone", Pull(**PULL, selector=TABLE_ONLY)),
    ("pull of everything", Pull(**PULL, selector=ALL)),
    *((f"pull by filter: {text}", Pull(**PULL, selector=by_sql(text))) for text in FILTERS),
    (
        "pulled",
        Pulled(
            **PULLED,
            sequence=0,
            last=True,
            gone=(TABLE + b"\x01ds=2026-10-01",),
            entries=(VALUE, BLOCK_VALUE),
            stale=(0,),
        ),
    ),
    (
        "pulled piece of a value",
        Pulled(
            **PULLED,
            sequence=1,
            last=False,
            gone=(),
            entries=(Entry(BLOCK, 42, 42, 42, 2_000_000, b"piece"),),
        ),
    ),
    (
        "pulled names",
        Pulled(
            **PULLED,
            sequence=1,
            last=True,
            gone=(),
            entries=(),
            names=bytes.fromhex("00a864733d312f683d31"),
            cursor=BLOCK,
            moved=False,
        ),
    ),
    ("sync", Sync(request=5)),
    ("sync_table", Sync(request=5, scope="sales.orders")),
    (
        "synced",
        Synced(request=5, epoch=EPOCH, start=START, event_id=4711, versions=(3, 0, 42, 9)),
    ),
    (
        "validate",
        Validate(
            request=8,
            epoch=EPOCH,
            claims=(Claimed(db="sales", table="orders", version=42, whole=True),),
        ),
    ),
    ("validated", Validated(request=8, epoch=EPOCH, start=START, stale=((0, 43),))),
    ("read-status", ReadStatus(request=6)),
    ("read-verdict", ReadVerdict(request=6)),
    ("read-topics", ReadTopics(request=6)),
    ("read-held-topics", ReadHeldTopics(request=6)),
    ("read-subscribers", ReadSubscribers(request=6)),
    ("read-drivers", ReadDrivers(request=6)),
    ("read-writer", ReadWriter(request=6, writer=bytes(range(16)))),
    ("read-positions", ReadPositions(request=6, member=bytes(range(16)))),
    ("read-levels", ReadLevels(request=6, member=bytes(range(16)))),
    ("read-usage", ReadUsage(request=6, member=bytes(range(16)))),
    ("read-trace", ReadTrace(request=6, member=bytes(range(16)))),
    ("read-stats", ReadStats(request=6, member=bytes(range(16)))),
    ("read-driver", ReadDriver(request=6, member=bytes(range(16)))),
    ("read-hubs", ReadHubs(request=6)),
    ("read-events", ReadEvents(request=6)),
    ("read-event-costs", ReadEventCosts(request=6)),
    ("read-event-log", ReadEventLog(request=6, after=NOW, newest=False)),
    ("read-table-states", ReadTableStates(request=6, tables=("sales.orders", "a.b"))),
    ("read-versions", ReadVersions(request=6)),
    ("read-cuts", ReadCuts(request=6, topic=7, every_bytes=1 << 20)),
    ("read-changes", ReadChanges(request=6, topic=7, epoch=EPOCH, after=40, until=42, skip=1)),
    ("read-bound", ReadBound(request=6, topic=7, epoch=EPOCH, after=40, count=1000)),
    ("read-history", ReadHistory(request=6, db="sales", table="orders", after=40, count=3)),
    ("read-log-bounds", ReadLogBounds(request=6)),
    ("read-log", ReadLog(request=6, after=99)),
    ("read-recent", ReadRecent(request=6, since_us=NOW, count=200, pattern="sales.*")),
    ("read-functions", ReadFunctions(request=6, db="sales", after="first")),
    (
        "read-statistics",
        ReadStatistics(
            request=6, db="sales", table="orders", columns=("id",), partitions=("ds=1",)
        ),
    ),
    ("read-files", ReadFiles(request=6, db="sales", table="orders", behind=("ds=1",))),
    ("read-sweeps", ReadSweeps(request=6, behind="sales.orders")),
    (
        "order",
        Order(request=9, sender="ann@host", order="mode", arguments=("minimal", "a.*=full")),
    ),
    (
        "report",
        Report(
            request=10,
            driver=bytes(range(16)),
            metastore="thrift://metastore:9083",
            finished=6,
            writes=(
                Write(number=6, state=INTENT, object="sales.orders"),
                Write(
                    number=7,
                    state=WRITTEN,
                    object="s3a://lake/sales/orders",
                    partitions=("ds=2026-11-01/",),
                ),
                Write(number=8, state=OVERWRITTEN, object="sales.returns"),
            ),
        ),
    ),
    (
        "reported",
        Reported(
            request=10,
            epoch=EPOCH,
            start=START,
            outcomes=(
                WriteOutcome(number=6, topic=0, version=0),
                WriteOutcome(number=7, topic=9, version=43),
            ),
        ),
    ),
    (
        "scan",
        Scan(
            request=11,
            epoch=EPOCH,
            topic=7,
            version=42,
            after=TABLE,
            offset=262_144,
            until=BLOCK,
        ),
    ),
    (
        "scanned",
        Scanned(request=11, entries=(VALUE, BLOCK_VALUE), after=BLOCK, offset=0),
    ),
    ("grant", Grant(request=12, public="k" * 40, lease_s=3600)),
    ("granted", Granted(request=12, lease_s=3600)),
    (
        "lease",
        Lease(
            request=13,
            db="lake",
            table="events",
            holder=bytes(range(16)),
            owner="convert on host-1",
            lease_s=30,
            renew=True,
        ),
    ),
    ("leased", Leased(request=13, lease_s=30)),
    ("used", Used(tables=(("lake", "events"), ("shop", "orders")))),
    (
        "sweep",
        Sweep(
            request=14,
            db="lake",
            table="events",
            revision=3,
            facts=(
                FileFacts(
                    partition="ds=1",
                    fingerprint=(1 << 62) + 5,
                    files=2,
                    bytes=4096,
                    small=2,
                    newest_ms=1_762_000_000_000,
                    folder_ms=1_762_000_001_000,
                ),
            ),
            changed=("ds=1",),
            overwritten=False,
            removed=("ds=2",),
            as_of=1234,
            until="ds=1",
            last=False,
            whole=True,
        ),
    ),
    ("swept", Swept(request=14, revision=4, version=17, kept=True)),
    (
        "server-keys",
        ServerKeys(hub="h" * 40, hub_next="i" * 40, catalogd="c" * 40, catalogd_next=""),
    ),
    (
        "introduction",
        Introduction(catalog_address="tcp://127.0.0.1:26000", pages="http://c:25020"),
    ),
    (
        "named-facts",
        NamedFacts(
            request=6,
            rows=(("name", "driver-1"), ("lag_s", 0.25), ("live", True), ("held", -1), ("x", None)),
        ),
    ),
    (
        "reasons",
        Reasons(
            request=6,
            rows=(ReasonRow("degraded", "hub_away", "tcp://b:1", "it is away", "start it", False),),
        ),
    ),
    (
        "hub-topics",
        HubTopics(
            request=6,
            rows=(
                HubTopic(7, "LIVE", 42, 40, 3, 900, 64, 1, 2, 0),
                HubTopic(8, "LIVE", 42, 40, None, None, 64, None, None, 0),
            ),
        ),
    ),
    ("held-topics", HeldTopics(request=6, rows=(HeldTopic(7, 42, 40, 3, None),))),
    (
        "subscribers",
        Subscribers(
            request=6,
            rows=(SubscriberStatus("a@b", "ab" * 16, "reader", "LIVE", 3, 1, 0.5, 900, 1 << 30),),
        ),
    ),
    (
        "attached-drivers",
        AttachedDrivers(
            request=6,
            rows=(
                DriverStatus(
                    driver="app-1@node1:4711",
                    registration="ab" * 16,
                    application="nightly",
                    application_id="app-1",
                    user="ann",
                    host="node1",
                    pid=4711,
                    spark="4.1.0",
                    release="0.1.0",
                    state="live",
                    reason="",
                    control="on",
                    hubs=2,
                    writer="cd" * 16,
                    since_s=1.5,
                ),
            ),
        ),
    ),
    ("followed-topics", FollowedTopics(request=6, rows=(FollowedTopic(7, "full", 42, 0),))),
    (
        "level-list",
        LevelList(request=6, rows=(TopicLevel(7, "none", 0, 0, 0, None, 900, "never read here"),)),
    ),
    ("table-uses", TableUses(request=6, rows=(TableUse("sales.orders", 7, 7.5),))),
    (
        "message-trace",
        MessageTrace(request=6, rows=(TracedMessage(9.125, "out", "Join", "1 2", None),)),
    ),
    (
        "hub-list",
        HubList(request=6, rows=(HubFacts("tcp://b:1", True, 90.0, "in sync", 0, "http://b:2"),)),
    ),
    (
        "table-states",
        TableStates(request=6, rows=(TableState("a.b", "unreadable", "no such serde"),)),
    ),
    ("event-costs", EventCosts(request=6, rows=(EventCost("sales.orders", 3, 1.25),))),
    (
        "event-lines",
        EventLines(
            request=6,
            rows=(
                EventLine(
                    NOW, 17, "INSERT", "sales.orders", NOW, "published", 0.25, "sales.orders"
                ),
            ),
        ),
    ),
    (
        "event-texts",
        EventTexts(
            request=6,
            rows=(EventText(17, "INSERT", "sales.orders", NOW, "json-0.2", "", "", None, "{}"),),
        ),
    ),
    ("topic-versions", TopicVersions(request=6, rows=(TopicVersion(EPOCH, 7, 42, 40),))),
    ("key-cuts", KeyCuts(request=6, rows=(KeyCut(b"sales\0orders\0"),))),
    (
        "history-page",
        HistoryPage(
            request=6,
            rows=(HistoryLine(NOW, "sales.orders", "schema", "events", 42, "columns=a", "b"),),
        ),
    ),
    ("version-bounds", VersionBounds(request=6, rows=(VersionBound(42),))),
    ("log-span", LogSpan(request=6, rows=(LogEnds(1, 99),))),
    (
        "log-page",
        LogPage(
            request=6,
            rows=(
                LogLine(9, NOW, "reports", 7, "sales.orders", "data", 41, 42, 16, None, None, "ab"),
            ),
        ),
    ),
    ("file-page", FilePage(request=6, rows=(PartitionFiles(3, NOW, "ds=1", 9, 2, 900, 1, 7, 8),))),
    (
        "function-page",
        FunctionPage(
            request=6, rows=(FunctionRow("f", "a.F", "ann", 1_785_000_000, ("JAR:hdfs:///a.jar",)),)
        ),
    ),
    (
        "statistics-page",
        StatisticsPage(
            request=6,
            rows=(StatisticsRow("ds=1", "id", "bigint", 0, 9, "-5", "9", None, None, None, None),),
        ),
    ),
    (
        "sweep-page",
        SweepPage(
            request=6,
            rows=(SweepState("sales.orders", 3, 9, NOW, 0, "", 0, 2, 4, 900, 1, 7),),
        ),
    ),
    (
        "driver-facts",
        DriverFacts(
            driver="app-1@node1:4711",
            application="nightly",
            application_id="app-1",
            user="ann",
            host="node1",
            pid=4711,
            spark="4.1.0",
            release="0.1.0",
            state="live",
            reason="",
            control="on",
            hubs=2,
            writer="ab" * 16,
            memory_reads=1 << 40,
        ),
    ),
)
NAMES = (
    ("default", "t"),
    ("sales", "orders"),
    ("sales", "orders_2026"),
    ("sa", "les.orders"),
    ("süd", "tabelle_äöü"),
    ("名", "表"),
    ("a" * 128, "b" * 256),
)
NUMBERS = (1, 2, 256, NUM_TOPICS_MAX)


def main() -> None:
    """Write both files beside this file."""
    wire = [
        {"name": name, "frame": encode(message).hex(), "message": repr(decode(encode(message)))}
        for name, message in MESSAGES
    ]
    shards = [
        {"db": db, "table": table, "num": num, "topic": table_topic(db, table, num)}
        for db, table in NAMES
        for num in NUMBERS
    ]
    for name, vectors in (("wire_v1", wire), ("sharding_v1", shards)):
        text = json.dumps(vectors, indent=1, ensure_ascii=False)
        (HERE / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

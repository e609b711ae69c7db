"""The metrics of the daemons for Prometheus, made from their facts: one table for each.

A fact is a counter if it only rises while the process lives, else a gauge. Names are
``topicast_<daemon>_<fact>``, with units written out, as Prometheus demands.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ... import __version__
from ...topics.histogram import HistogramFacts
from ...topics.verdict import Serving, Verdict

COUNTER: Final = "counter"
GAUGE: Final = "gauge"

REFUSED: Final = "refused_"  # facts that count refusals begin with it; the code follows
Fact = str | int | float | bool | None
Facts = Mapping[str, Fact]
Table = Mapping[str, tuple[str, str]]

VERDICT: Final = {
    "serving": "1 if it serves, also if it is degraded; else 0",
    "verdict": "0 if it serves, 1 if it is degraded, 2 if it does not serve",
    "reasons": "Reasons of the verdict, by code; without a series there is none",
}
PROCESS: Final[Table] = {
    "memory_limit_bytes": (
        GAUGE,
        "Bytes that the process may use: by its control groups, else the memory of the machine",
    ),
    "key_age_s": (
        GAUGE,
        (
            "Seconds since the daemon's key was rotated; if it never was, since its file was "
            "written last"
        ),
    ),
    "certificate_left_s": (
        GAUGE,
        "Seconds until the certificate of the pages expires; absent if they are served by HTTP",
    ),
}
SECTIONS: Final[Mapping[str, Mapping[str, Table]]] = {
    "statestored": {
        "drivers": {
            "drivers_live": (GAUGE, "Attached drivers that follow changes"),
            "drivers_connecting": (
                GAUGE,
                "Drivers that attach, or have lost this hub and come back",
            ),
            "drivers_plain": (GAUGE, "Attached drivers that cannot follow changes"),
            "drivers_gone": (GAUGE, "Drivers that have ended within the last hour"),
            "drivers_with_another_hub": (
                GAUGE,
                "Attached drivers that have another statestored to go to",
            ),
            "drivers_with_problem": (GAUGE, "Attached drivers that the verdict names as a problem"),
            "drivers_memory_reads": (
                COUNTER,
                "Reads of drivers for their plans that objects in their JVM answered",
            ),
            "drivers_endpoint_reads": (
                COUNTER,
                "Reads of drivers for their plans that their endpoints answered",
            ),
            "drivers_direct_reads": (
                COUNTER,
                "Reads of drivers for their plans that the metastore answered",
            ),
            "drivers_metastore_calls_saved": (
                COUNTER,
                "Calls of the metastore that plain Spark would have made for these reads",
            ),
            "drivers_writes_refused": (
                COUNTER,
                "Statements of drivers that were refused because another had changed the table",
            ),
        },
        "subscribers": {
            "members": (GAUGE, "Subscribers, publishers and operators that are connected"),
            "reader_lag_s": (
                GAUGE,
                "Seconds for which the slowest subscriber may not have been current",
            ),
            "answers_audited": (
                COUNTER,
                "Tables of which subscribers have compared their memory with catalogd",
            ),
            "answers_differing": (
                COUNTER,
                "Compared tables that were not as catalogd had them at the same version",
            ),
            "members_lost": (COUNTER, "Members that sent nothing for too long"),
            "hellos": (
                COUNTER,
                "Hellos that were answered, also those by which catalogd probes this hub",
            ),
            "catch_ups": (COUNTER, "Catch-ups that subscribers requested"),
            "barriers": (COUNTER, "Barriers that were sent"),
        },
        "catalogd": {
            "publisher_silent_s": (GAUGE, "Seconds since the last message from catalogd"),
            "topics_behind": (
                GAUGE,
                "Topics that are behind the versions that catalogd announced last",
            ),
            "watermark": (GAUGE, "HMS event id up to which catalogd is complete"),
            "epoch": (GAUGE, "Lineage of versions, in microseconds since 1970"),
            "num_topics": (GAUGE, "Table topics"),
            "offers": (GAUGE, "Levels that may be joined: 1 minimal, 2 full, 3 both"),
        },
        "topics": {
            "entries": (GAUGE, "Entries held, in all topics"),
            "full_bytes": (GAUGE, "Bytes held, in all topics"),
            "cold_bytes": (GAUGE, "Bytes of content that readers pull, by --mem_limit"),
            "deltas": (COUNTER, "Deltas that catalogd sent"),
            "delta_bytes": (COUNTER, "Bytes of these deltas"),
            "broadcasts": (COUNTER, "Deltas that were broadcast"),
            "chunks": (COUNTER, "Chunks of the hub's own catch-ups"),
            "streams": (GAUGE, "Catch-ups that are being sent"),
        },
        "refused": {
            "handshakes_failed": (
                COUNTER,
                "Handshakes that failed: no key, or one that is not admitted",
            ),
            "revoked": (COUNTER, "Frames dropped and connections shut of keys that are revoked"),
            "frames_undecodable": (COUNTER, "Frames that were not of the protocol"),
            "frames_dropped": (
                COUNTER,
                "Messages of more than one part, or no subscriptions, dropped unread",
            ),
            "unreachable": (COUNTER, "Messages without a peer, or to a full queue"),
            "subscriptions_invalid": (
                COUNTER,
                "Subscriptions to topics or levels that do not exist",
            ),
        },
        "process": {
            **PROCESS,
            "loop_silent_s": (GAUGE, "Seconds since the last turn of the loop; above 10 it hangs"),
        },
    },
    "catalogd": {
        "events": {
            "lag_s": (
                GAUGE,
                "Seconds for which the metastore may have had a change that is not published",
            ),
            "lag_events": (GAUGE, "HMS events that are not published yet"),
            "newest_event": (GAUGE, "Newest HMS event id, as the metastore said at the last poll"),
            "watermark": (GAUGE, "HMS event id up to which everything is published"),
            "events": (COUNTER, "HMS events that were seen"),
            "events_in_place": (
                COUNTER,
                "Events that were applied without a call of the metastore",
            ),
            "events_skipped": (COUNTER, "Events of types that change nothing that is held"),
            "events_not_understood": (
                COUNTER,
                "Events of an unknown type, or not decodable: the named objects were read again",
            ),
            "events_sync_off": (
                COUNTER,
                "Events of tables that are not followed (impala.disableHmsSync)",
            ),
            "events_elsewhere": (
                COUNTER,
                "Events of other catalogs, or of databases that are left out",
            ),
            "events_failed": (
                COUNTER,
                "Events at which Topicast's own code failed: the named objects were read again",
            ),
            "event_gaps": (
                COUNTER,
                "Times that events were missing: everything was compared again",
            ),
            "events_passed": (
                COUNTER,
                "Events that the metastore could not send, or that were skipped by hand",
            ),
        },
        "metastore": {
            "metastore_silent_s": (GAUGE, "Seconds since the metastore answered a poll for events"),
            "polls_late": (COUNTER, "Polls that were not answered within 2 s"),
            "polls_failed": (COUNTER, "Polls for events that failed"),
            "reads": (COUNTER, "Reads of tables and partitions from the metastore"),
            "reads_failed": (COUNTER, "Reads of tables and partitions that failed"),
            "databases": (GAUGE, "Databases"),
            "tables_to_load": (GAUGE, "Tables that wait to be read from the metastore"),
            "load_read": (GAUGE, "Tables that were read since tables wait to be read"),
            "load_left_s": (
                GAUGE,
                "Seconds until all are read, at the pace of the last minute; absent if not known",
            ),
            "tables_unreadable": (
                GAUGE,
                "Tables that the metastore cannot read, or that are too large",
            ),
            "partitions_unreadable": (
                GAUGE,
                "Partitions that the metastore cannot read, of tables whose others are served",
            ),
            "tables_turned_unreadable": (
                COUNTER,
                "Times that a table could not be read: it is unloaded until it can be",
            ),
            "tables_unloaded": (
                COUNTER,
                "Times that a table was unloaded because nobody used it, or memory was short",
            ),
            "tables_rejected": (
                COUNTER,
                "Times that a table was too large, or not text, and cannot be held",
            ),
        },
        "reconciliation": {
            "reconcile_calls": (
                COUNTER,
                "Calls of the metastore that compared the content of catalogd",
            ),
            "reconcile_rounds": (COUNTER, "Times that the whole content was compared"),
            "reconcile_objects": (COUNTER, "Databases, tables and partitions that were compared"),
            "reconcile_differing": (
                COUNTER,
                "Compared objects that differed, and were read again",
            ),
            "reconcile_drift": (COUNTER, "Compared objects that had changed without an event"),
            "reconcile_ended_s": (
                GAUGE,
                "Seconds since everything was compared last; absent before the first time",
            ),
            "reconcile_late_s": (
                GAUGE,
                "Seconds for which a comparison has been due; from 300 on they have stopped",
            ),
        },
        "statestoreds": {
            "hubs": (GAUGE, "Hubs to which catalogd publishes"),
            "hubs_connected": (GAUGE, "Hubs that are connected"),
            "topics_to_backfill": (
                GAUGE,
                "Topics in which content that was withheld is still to be sent",
            ),
            "epoch": (GAUGE, "Lineage of versions, in microseconds since 1970"),
            "num_topics": (GAUGE, "Table topics"),
            "offers": (GAUGE, "Levels that may be joined: 1 minimal, 2 full, 3 both"),
        },
        "topics": {
            "entries": (GAUGE, "Entries held, in all topics"),
            "held_bytes": (GAUGE, "Bytes held, in all topics"),
            "cold_bytes": (GAUGE, "Bytes of content that is only in the store, by --mem_limit"),
        },
        "requests": {
            "waiting_requests": (
                GAUGE,
                "Pulls, syncs, orders and reports that wait for the metastore",
            ),
            "pulls": (COUNTER, "Pulls that were answered"),
            "scans": (COUNTER, "Pages of a topic that were requested"),
            "syncs": (COUNTER, "Syncs that were answered"),
            "orders": (COUNTER, "Orders that were given"),
        },
        "writes": {
            "intents": (GAUGE, "Writes that drivers have begun and not ended"),
            "drivers": (GAUGE, "Drivers whose reports of writes are remembered"),
            "reports": (COUNTER, "Messages in which drivers reported what they write"),
            "writes": (COUNTER, "Reported writes that were applied"),
            "reported_statements": (
                COUNTER,
                "Reported statements that changed tables, and no data",
            ),
            "reported_writes_repeated": (COUNTER, "Reported writes that were known already"),
            "reported_writes_unknown": (
                COUNTER,
                "Reported writes to objects that the metastore does not have",
            ),
            "reported_writes_not_visible": (
                COUNTER,
                "Reported writes to tables that the driver's key may not see",
            ),
            "reported_writes_lapsed": (
                COUNTER,
                "Writes taken for done because their driver stopped reporting",
            ),
        },
        "refused": {
            "refused": (COUNTER, "Requests that were refused"),
            "handshakes_failed": (
                COUNTER,
                "Handshakes that failed: no key, or one that is not admitted",
            ),
            "revoked": (COUNTER, "Frames dropped and connections shut of keys that are revoked"),
            "frames_undecodable": (COUNTER, "Frames that were not of the protocol"),
            "frames_dropped": (COUNTER, "Messages of more than one part, dropped unread"),
            "unreachable": (COUNTER, "Answers without a peer, or to a full queue"),
        },
        "process": {
            **PROCESS,
            "loop_silent_s": (GAUGE, "Seconds since the last turn of the loop; above 10 it hangs"),
        },
    },
}
"""The numbers of each daemon by what they are about, the most important first."""
STATESTORED, CATALOGD = (
    {name: row for rows in SECTIONS[daemon].values() for name, row in rows.items()}
    for daemon in ("statestored", "catalogd")
)


HISTOGRAMS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "statestored": {
        "applied_s": (
            "",
            (
                "Seconds from the broadcast of a change until a reader reports that it has applied "
                "it, by this host's clock, with up to one heartbeat before the report. If a report "
                "has several changes, the oldest counts; changes that were sent before the reader "
                "joined do not count"
            ),
        ),
    },
    "catalogd": {
        "event_delay_s": (
            "",
            (
                "Seconds from an event's time, which the metastore has in whole seconds of its "
                "clock, to its publication"
            ),
        ),
        "event_batch_s": (
            "",
            "Seconds from the arrival of a poll's events until they were published",
        ),
        "pull_s": (
            "",
            "Seconds from the arrival of a pull until the last part of its answer was sent",
        ),
        "metastore_call_s": ("method", "Seconds that a call of the metastore took, by its method"),
    },
}
"""The histograms of each daemon: the label that they have (empty: none), and what they mean."""

Histograms = Mapping[str, Mapping[str, HistogramFacts]]
"""By name, and by the value of the label; empty: it has no label."""


def metric_name(daemon: str, fact: str) -> str:
    """Return the name of the metric of a fact; Prometheus adds ``_total`` if it is a counter."""
    whole = f"{fact.removesuffix('_s')}_seconds" if fact.endswith("_s") else fact
    return f"topicast_{daemon}_{whole}"


class FactsCollector(Collector):
    """Reads the facts at each scrape; nothing is counted here."""

    def __init__(
        self,
        daemon: str,
        table: Table,
        *,
        facts: Callable[[], Facts],
        verdict: Callable[[], Verdict],
        histograms: Callable[[], Histograms],
    ) -> None:
        self._histograms = histograms
        self._daemon = daemon
        self._verdict = verdict
        self._table = table
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        """Yield one metric for each number of the table that is among the facts."""
        yield InfoMetricFamily(
            "topicast_build", "Which version runs", value={"version": __version__}
        )
        facts = self._facts()
        yield from self._verdicts(self._verdict())
        for name, (kind, meaning) in self._table.items():
            value = facts.get(name)
            if isinstance(value, bool | int | float):
                family = CounterMetricFamily if kind == COUNTER else GaugeMetricFamily
                yield family(metric_name(self._daemon, name), meaning, value=float(value))
        yield self._refusals(facts)
        for name, by_label in self._histograms().items():
            yield self._histogram(name, by_label)

    def _histogram(self, name: str, by_label: Mapping[str, HistogramFacts]) -> Metric:
        label, meaning = HISTOGRAMS[self._daemon][name]
        metric = HistogramMetricFamily(
            metric_name(self._daemon, name), meaning, labels=[label] if label else []
        )
        for value, found in by_label.items():
            bounds = (*map(str, found.bounds), "+Inf")
            metric.add_metric(
                [value] if label else [],
                buckets=list(zip(bounds, map(float, found.counts), strict=True)),
                sum_value=found.total,
            )
        return metric

    def _verdicts(self, verdict: Verdict) -> Iterator[Metric]:
        """Yield the verdict, and the number of its reasons by code."""
        values = {
            "serving": float(verdict.state is not Serving.NOT_SERVING),
            "verdict": float(verdict.state),
        }
        for name, value in values.items():
            yield GaugeMetricFamily(f"topicast_{self._daemon}_{name}", VERDICT[name], value)
        reasons = GaugeMetricFamily(
            f"topicast_{self._daemon}_reasons", VERDICT["reasons"], labels=["code"]
        )
        for code, count in Counter(one.code for one in verdict.reasons).items():
            reasons.add_metric([code], count)
        yield reasons

    def _refusals(self, facts: Facts) -> Metric:
        """Yield the counts ``refused_<code>`` as one metric with the code as a label."""
        metric = CounterMetricFamily(
            f"topicast_{self._daemon}_refusals",
            "Messages that were refused, by reason",
            labels=["reason"],
        )
        for name, value in facts.items():
            if name.startswith(REFUSED) and isinstance(value, int):
                metric.add_metric([name.removeprefix(REFUSED)], value)
        return metric


def registry_of(
    daemon: str,
    table: Table,
    facts: Callable[[], Facts],
    *,
    verdict: Callable[[], Verdict] = Verdict,
    histograms: Callable[[], Histograms] = dict,
) -> CollectorRegistry:
    """Return a registry that holds the metrics of one daemon and of its process."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(
        FactsCollector(daemon, table, facts=facts, verdict=verdict, histograms=histograms)
    )
    return registry

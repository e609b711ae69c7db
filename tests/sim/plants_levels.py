"""Plants in what chooses, holds and confirms: levels, planner, budget, cache, fence, modes, claims.

Each is one line of a core, as in plants.py; PLANTS there begins with the protocol's own.
"""

from topicast.catalog.core import Catalog
from topicast.catalog.publish import deltas
from topicast.catalog.serve import validation
from topicast.statestore import ingest
from topicast.subscriber.client import subscriber
from topicast.subscriber.client.read_view import ReadView
from topicast.subscriber.client.reader import Reader
from topicast.subscriber.fetch import fetcher as subscriber_pulls
from topicast.subscriber.fetch.fence import InvalidationFence
from topicast.subscriber.fetch.fetcher import Fetcher
from topicast.subscriber.placement.planner import Planner
from topicast.subscriber.replication.apply import StepApplier
from topicast.subscriber.replication.replicas import TopicReplicas
from topicast.subscriber.replication.subscriptions import Subscriptions
from topicast.subscriber.store.change_feed import ChangeFeed
from topicast.subscriber.store.resident_set import ResidentSet
from topicast.subscriber.store.table_snapshot import TableSnapshot
from topicast.subscriber.store.view import View
from topicast.tests.sim.planting import Line, Plant
from topicast.topics.replica_set import ReplicaSet

BY_SEED = ""
EMPTIED = "self.resident_set.begin_snapshot((victim, FULL), self.view.topics[victim])"
RELEASED = "self.resident_set.end_reservation((victim, FULL))"
FULL_STAYS = f"self.drop(victim) if victim == topic else {EMPTIED} or {RELEASED} or ()"

LEVEL_PLANTS = (
    # what is planned, reserved and held
    Plant(
        "a plan fits the budget",
        BY_SEED,
        (Line(Planner, "_choose", "left = budget_bytes - ", "left = 3 * budget_bytes - "),),
    ),
    Plant(
        "room is made before it is taken",
        BY_SEED,
        (
            Line(
                Planner,
                "_order",
                "[*lowered, *followed, *raises[:RAISES_MAX]]",
                "[*raises[:RAISES_MAX], *followed, *lowered]",
            ),
        ),
    ),
    Plant(
        "what does not fit is not admitted",
        BY_SEED,
        (
            Line(
                Subscriptions,
                "_admit",
                "if not self._makes_room((topics[0], FULL), needed_bytes):",
                "if False:",
            ),
        ),
    ),
    Plant(
        "nothing is put in place that does not fit",
        BY_SEED,
        (
            Line(
                ResidentSet, "apply", "while not self.budget.fits(account, growth):", "while False:"
            ),
        ),
    ),
    Plant(
        "credit is only for what is reserved",
        BY_SEED,
        (
            Line(
                ReplicaSet,
                "_credit_max",
                "if allowed >= CREDIT_DEFAULT:",
                "if True:",
            ),
        ),
    ),
    Plant(
        "what a raise has reserved ends with it",
        "raise_given_up",
        (
            Line(
                TopicReplicas,
                "_stop_coming",
                "if replica.staged is not None:",
                "if replica.staged is None:",
            ),
        ),
    ),
    Plant(
        "what outgrew its room is at full no more",
        "outgrown_by_another",
        (
            Line(TopicReplicas, "_make_room", "self.drop(victim)", FULL_STAYS),
            Line(Subscriptions, "settle", "effects += self.join_minimal(topic, now=now)", "pass"),
        ),
    ),
    Plant(
        "what outgrew its room is followed at minimal",
        "outgrown",
        (Line(Subscriptions, "settle", "effects += self.join_minimal(topic, now=now)", "pass"),),
    ),
    # what is kept of what was pulled
    Plant(
        "a stub ends what was pulled",
        BY_SEED,
        (
            Line(
                StepApplier,
                "_invalidate",
                "self._resident_set.apply_to_pulled(topic, held, entries)",
                "pass",
            ),
        ),
    ),
    Plant(
        "a stub is noted for pulls on their way",
        "late_pull_behind_a_stub",
        (
            Line(
                InvalidationFence,
                "invalidate",
                "pulled.minimum = max(pulled.minimum, version)",
                "pass",
            ),
        ),
    ),
    Plant(
        "a change beside a part ends the filters that it may match",
        "change_beside_a_part",
        (Line(TableSnapshot, "changed", " if at >= newest}", "}"),),
    ),
    Plant(
        "a change ends what was pulled of a withheld table, at full",
        "withheld_and_changed",
        (
            Line(
                ResidentSet,
                "apply",
                "self.apply_to_pulled(account[0], held.pulled, entries)",
                "pass",
            ),
        ),
    ),
    Plant(
        "pages of a table that has moved are not combined",
        "moved_between_pages",
        (Line(Fetcher, "part", " or part.moved", ""),),
    ),
    Plant(
        "that there is no table is forgotten when it is created",
        "created_after_it_was_missed",
        (
            Line(
                View,
                "table",
                "if _name_record(block, table) is None:",
                "if self.__dict__.setdefault((db, table), _name_record(block, table) is None):",
            ),
        ),
    ),
    Plant(
        "memory does not answer while it catches up, at minimal",
        BY_SEED,
        (
            Line(
                TopicReplicas,
                "update_access",
                "if self.is_settled(topic):",
                "if self.is_settled(topic) or self.level(topic) == MINIMAL:",
            ),
            Line(TopicReplicas, "_apply", "self.view.close(topic)", "self.update_access(topic)"),
            Line(
                TopicReplicas,
                "check",
                "assert (held.opening is not None) is self.is_settled(topic), topic",
                "pass",
            ),
        ),
    ),
    # what those who watch are told
    Plant(
        "a lost stub is told by the catch-up",
        "heard_of_after_a_gap",
        (Line(StepApplier, "_missed", "return self._change_feed.missed(chunk)", "return ()"),),
    ),
    Plant(
        "a gap is told as a change of every table",
        "heard_of_after_a_gap",
        (Line(ChangeFeed, "gap", "if not self.enabled:", "if True:"),),
    ),
    Plant(
        "what a hub caught up is told as news",
        "heard_of_from_a_hub_that_was_behind",
        (Line(ingest, "brought", "source=SOURCE_CATCH_UP", "source=0"),),
    ),
    # modes
    Plant(
        "what is withheld leaves as stubs",
        BY_SEED,
        (Line(deltas, "withhold", "if topic == NAMESPACE or mode.withholds_nothing:", "if True:"),),
    ),
    Plant(
        "mode and overrides outlast a restart",
        "overrides_outlast_a_restart",
        (
            Line(
                Catalog,
                "__init__",
                "Backfill(self.version_log, policy)",
                "Backfill(self.version_log, POLICY_DEFAULT)",
            ),
        ),
    ),
    # claims
    Plant(
        "a claim of another epoch is stale",
        "plan_of_a_lost_store",
        (Line(validation, "stale_claims", "claimed_in != epoch or ", ""),),
    ),
    Plant(
        "a table that has changed is stale",
        BY_SEED,
        (Line(validation, "_true_versions", "return entry.version, topic", "return 1, topic"),),
    ),
    Plant(
        "a table of which something has changed is stale",
        BY_SEED,
        (
            Line(
                validation,
                "_true_versions",
                "topic.changed_at(table_key(*table))",
                "entry.version",
            ),
        ),
    ),
    Plant(
        "what is claimed is no newer than what was read",
        "planned_and_changed",
        (
            Line(
                Reader,
                "versioned",
                "max(snapshot.as_of, snapshot.version, reached if epoch == snapshot.epoch else 0)",
                "max(snapshot.as_of, snapshot.version, reached) + 3",
            ),
        ),
    ),
    Plant(
        "several tables are as of one moment",
        BY_SEED,
        (
            Line(
                subscriber, "open_read_view", "missing = stale_of(tables, validate)", "missing = ()"
            ),
        ),
    ),
    Plant(
        "what is stale beside a pull is not confirmed",
        "mates_of_a_withheld_table",
        (Line(subscriber_pulls, "confirmed_claims", "stale = set(last.stale)", "stale = set()"),),
    ),
    Plant(
        "what no pull knows waits for the hub",
        "mates_of_a_withheld_table",
        (Line(View, "_answerable", " or content.as_of < floor[1]", ""),),
    ),
    Plant(
        "what has moved since is not confirmed",
        "planned_and_changed",
        (Line(ReadView, "confirm", "if stale:", "if False:"),),
    ),
)

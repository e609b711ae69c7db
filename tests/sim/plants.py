"""Plants: each rule of the protocol, and the fault that a seed or a scenario finds without it.

Those of levels, planner, budget, fence, modes and claims: plants_levels.py. Which rule of the
model is which plant: model.py.
"""

from topicast.catalog.core import Catalog
from topicast.catalog.ingest.loader import InFlightRead
from topicast.catalog.ingest.materializer import Materializer
from topicast.catalog.model.tables import Tables
from topicast.catalog.publish.backfill import Backfill
from topicast.catalog.serve import paginate
from topicast.catalog.serve.pull_server import PullServer
from topicast.statestore.ingest import Ingest
from topicast.subscriber.engine.catalog_session import CatalogSession
from topicast.subscriber.fetch.fetcher import Fetcher
from topicast.subscriber.replication.apply import StepApplier
from topicast.subscriber.replication.lineage import Lineage
from topicast.subscriber.replication.replicas import TopicReplicas
from topicast.subscriber.replication.topic_replica import TopicReplica
from topicast.subscriber.store.read_floor import ReadFloor
from topicast.subscriber.store.view import View
from topicast.tests.sim.planting import Line, Plant
from topicast.topics import bulk
from topicast.topics.follower import Follower

SEEDS = range(200)  # each fault that has no scenario is found by one of the first few
BY_SEED = ""

# Not here, for nothing can be seen without it: a pull that contradicts an equal namespace is pulled
# again (CatalogSession._stale). catalogd cuts a reply from both at once, so none of its own does.
PLANTS = (
    Plant(
        "what was withheld is sent when it is withheld no more",
        BY_SEED,
        (Line(Backfill, "_remains", "entry.version <= self._upto[number]", "False"),),
    ),
    Plant(
        "a load that an event overtook is read again",
        BY_SEED,
        (Line(InFlightRead, "overtake", "self.overtaken[table] = None", "pass"),),
    ),
    Plant(
        "a partial load is not answered as whole",
        BY_SEED,
        (
            Line(
                View,
                "partitions",
                "return content if head is not None and head.complete else None",
                "return content",
            ),
        ),
    ),
    Plant(
        # Where somebody pulls the table, catalogd loads it all the same (PullServer._load_some).
        "what is LOADING at a start is loaded again",
        "loading_at_a_start",
        (Line(Tables, "loaded", " and value.partitions != LOADING", ""),),
    ),
    Plant(
        "what is LOADING at a start is loaded again where it is pulled",
        "loading_at_a_start_and_pulled",
        (
            Line(Tables, "loaded", " and value.partitions != LOADING", ""),
            Line(
                PullServer,
                "_load_some",
                "self._loader.load(",
                "self._loader._loaded(table) or self._loader.load(",
            ),
        ),
    ),
    Plant(
        # A view shows one table or the other even so, as the content is replaced whole.
        "a drop ends an incarnation",
        BY_SEED,
        (
            Line(
                Materializer,
                "_publish",
                "if kind is not None and result.needs[t].dropped]",
                "if False]",
            ),
        ),
    ),
    Plant(
        "content answers only under its own incarnation",
        "incarnation",
        (
            Line(
                View,
                "_confirm",
                "head is None or head.incarnation != record.incarnation",
                "head is None",
            ),
        ),
    ),
    Plant(
        "a new epoch waits until catalogd has caught up",
        "restored_while_away",
        (
            Line(
                Catalog,
                "flush",
                "if self._mint_above and self._caught_up:",
                "if self._mint_above:",
            ),
        ),
    ),
    Plant(
        "a start is compared before anything of it is accepted",
        "restored_store",
        (Line(Lineage, "accepts", "if not holds and start[0] > self.accepted[0]:", "if True:"),),
    ),
    Plant(
        "memory answers only at or above what was shown",
        "late_pull",
        (Line(ReadFloor, "raise_to", "if position > self.of(topic):", "if False:"),),
    ),
    Plant(
        "memory answers only at or above the version of a pull",
        "memory_behind_a_pull",
        (
            Line(
                CatalogSession,
                "on_pulled",
                "self._show(part.topic, (part.epoch, part.topic_version))",
                "pass",
            ),
        ),
    ),
    Plant(
        "names answer only at or above the namespace version of a pull",
        "names_at_a_lagging_hub",
        (
            Line(
                CatalogSession,
                "on_pulled",
                "self._show(NAMESPACE, (part.epoch, part.namespace_version))",
                "pass",
            ),
        ),
    ),
    Plant(
        "a pull below what was shown is stale",
        "late_pull",
        (Line(CatalogSession, "_stale", " or place < self._read_floor.of(topic)", ""),),
    ),
    Plant(
        "what was shown of a topic stays a lower bound after its drop",
        "late_pull_after_drop",
        (
            Line(
                TopicReplicas,
                "drop",
                "self.change_feed.discard(topic)",
                "self._read_floor._bounds.pop(topic, None)",
            ),
        ),
    ),
    Plant(
        "a pull below what the names have shown is stale",
        "late_pull_of_a_dropped_table",
        (
            Line(
                CatalogSession,
                "_stale",
                "namespace_place < self._read_floor.of(NAMESPACE)",
                "False",
            ),
        ),
    ),
    Plant(
        "a pull from before a stub is stale",
        "late_pull_behind_a_stub",
        (
            Line(
                CatalogSession,
                "_stale",
                "part.topic_version < self.fetcher.fence.minimum(",
                "0 > self.fetcher.fence.minimum(",
            ),
        ),
    ),
    Plant(
        "a horizon is a stub for pulls on their way",
        "late_pull_behind_a_horizon",
        (
            Line(
                StepApplier, "_invalidate_all", "self._fence.invalidate_all(topic, version)", "pass"
            ),
        ),
    ),
    Plant(
        "a horizon is a stub for what was pulled",
        "pulled_and_below_the_floor",
        (
            Line(
                StepApplier,
                "_invalidate_all",
                "self._resident_set.invalidate_all(topic, epoch, version)",
                "pass",
            ),
        ),
    ),
    Plant(
        "parts of two versions are not combined",
        "reply_of_two_versions",
        (Line(Fetcher, "part", " or place != page.place", ""),),
    ),
    Plant(
        "what is held is named with its version",
        "held_and_changed",
        (
            Line(
                paginate,
                "select",
                "if held.get(entry.key) != entry.version]",
                "if entry.key not in held]",
            ),
        ),
    ),
    Plant(
        "what is held counts in its own epoch",
        "held_in_another_epoch",
        (Line(Fetcher, "part", "if foreign or ", "if "),),
    ),
    Plant(
        "a topic at none is not answered from memory",
        BY_SEED,
        (
            Line(TopicReplicas, "drop", "self.resident_set.discard(topic)", "pass"),
            Line(
                TopicReplicas,
                "check",
                "assert set(self.view.topics) == {*self._topics, NAMESPACE}",
                "",
            ),
        ),
    ),
    Plant(
        "memory does not answer while it catches up",
        BY_SEED,
        (
            Line(
                TopicReplicas,
                "update_access",
                "if self.is_settled(topic):",
                "if topic in self._topics:",
            ),
            Line(TopicReplicas, "_apply", "self.view.close(topic)", "pass"),
            Line(
                TopicReplicas,
                "check",
                "assert (held.opening is not None) is self.is_settled(topic), topic",
                "pass",
            ),
        ),
    ),
    Plant(
        "each level has a position of its own",
        "raised_with_nothing_held",
        (
            Line(
                TopicReplicas,
                "admit",
                "replica.coming = self._set.follow(topic, FULL)",
                "replica.coming = self._set.follow(topic, FULL); "
                "replica.coming.epoch, replica.coming.version = replica.position",
            ),
        ),
    ),
    Plant(
        # The position of the old level counts as shown, so memory would wait for it.
        "a raise ends at or above the position of the old level",
        "raise_at_a_lagging_hub",
        (
            Line(
                TopicReplica,
                "may_take_over",
                " and (new.epoch, new.version) >= (old.epoch, old.version)",
                "",
            ),
            Line(
                TopicReplicas,
                "_succeed",
                "self._read_floor.answered(replica.topic, replica.position)",
                "pass",
            ),
        ),
    ),
    Plant(
        "a gap orders a catch-up",
        BY_SEED,
        (Line(Follower, "_fall_behind", "self.state = BEHIND", "return ()"),),
    ),
    Plant(
        "a stubbed delta is no news at full",
        BY_SEED,
        (
            Line(
                Follower,
                "_on_delta",
                "(self.level == FULL and (delta.stubbed or delta.invalidate_all))",
                "False",
            ),
        ),
    ),
    Plant(
        "a late delta is not applied again",
        BY_SEED,
        (
            Line(
                Follower,
                "_on_delta",
                "if (delta.epoch, delta.to_version) <= (self.epoch, self.version):",
                "if False:",
            ),
        ),
    ),
    Plant(
        "what a chunk has reached is no position",
        "version_in_two_chunks",
        (
            Line(
                Follower,
                "_note",
                "self._progressed = True",
                "self._progressed = True; self.version = max(self.version, chunk.resume_version)",
            ),
        ),
    ),
    Plant(
        # The hub refuses to answer below the cut of what was sent before.
        "a catch-up ends at or above what was LIVE",
        "snapshot_at_a_lagging_hub",
        (
            Line(Follower, "_end", "if chunk.to_version < self._end_min:", "if False:"),
            Line(
                bulk,
                "_lags",
                "return topic.version < max(one.cut, one.resume_version)",
                "return False",
            ),
        ),
    ),
    Plant(
        "a version larger than a chunk is resumed by its key",
        "version_in_two_chunks",
        (
            Line(
                bulk,
                "_chunks_of",
                "complete = max(known, one.resume_version - 1)",
                "complete = max(known, one.resume_version)",
            ),
        ),
    ),
    Plant(
        "who is below the floor takes a snapshot",
        "below_the_floor",
        (
            Line(
                bulk,
                "_chunks_of",
                "snapshot = not known or complete < topic.floor",
                "snapshot = not known",
            ),
        ),
    ),
    Plant(
        "who resumes a snapshot from below the floor takes another",
        "resumed_below_the_floor",
        (Line(bulk, "_chunks_of", "snapshot = one.cut < topic.floor", "snapshot = False"),),
    ),
    Plant(
        "a hub does not forward its own catch-up",
        BY_SEED,
        (
            Line(
                Ingest,
                "_apply",
                "slot.topic.file(chunk.entries)",
                "slot.topic.file(chunk.entries); frames += self._forward(Delta("
                "topic=chunk.topic, level=chunk.level, epoch=chunk.epoch, start=chunk.start, "
                "from_version=slot.topic.version, to_version=chunk.to_version, floor=0, "
                "sent_us=0, source=0, entries=chunk.entries, stubbed=False, invalidate_all=False))",
            ),
        ),
    ),
    Plant(
        "a hub that catches up answers no catch-up",
        BY_SEED,
        (Line(Ingest, "find", "slot is None or slot.follower.state is not LIVE", "slot is None"),),
    ),
)

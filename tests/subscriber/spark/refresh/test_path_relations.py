"""Where a changed table lies is looked up for relations over paths, beside what refreshes."""

import threading

import pytest

from topicast.subscriber.protocol.effects import Change
from topicast.subscriber.spark.guard import Guard
from topicast.subscriber.spark.refresh import path_relations as module
from topicast.subscriber.spark.refresh.path_relations import PathRelations
from topicast.tests.subscriber.spark.spark_stub import Stub
from topicast.topics.errors import NoSuchObject, NotReady
from topicast.topics.objects.changes import ChangeKind

WAIT_S = 20


class Scene:
    """Relations over paths, if ``has_paths``; tables lie where their names say."""

    def __init__(self, *, has_paths: bool = True, refresh_existing: bool = False) -> None:
        self.spark, self.guard = Stub(), Guard()
        self.spark.has_paths = has_paths
        self.looked_up: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.relations = PathRelations(
            self.spark, guard=self.guard, refresh_existing=refresh_existing
        )

    def find(self, table: str) -> list[str]:
        self.looked_up.append(table)
        self.may_answer.wait(WAIT_S)
        if table == "d.lost":
            raise NotReady("no answer")
        if table == "d.gone":
            raise NoSuchObject(table)
        if table == "d.view":
            return []
        more = {"d.wide": 1, "d.wider": module.FOLDERS_MAX}.get(table, 0)
        return [f"file:/w/{table}", *(f"s3://lake/{at}" for at in range(more))]

    def changed(
        self, *tables: str, kind: ChangeKind = ChangeKind.DATA, overwritten: bool = False
    ) -> None:
        self.relations.changed(
            [
                Change(object=one, kind=kind, version=1, origin="events", overwritten=overwritten)
                for one in tables
            ],
            find=self.find,
        )

    def renewed(self) -> list[tuple[str, str, bool]]:
        assert self.relations.settle(WAIT_S)
        return self.spark.renewed_paths


@pytest.mark.parametrize("refresh_existing", [False, True])
def test_relations_where_a_changed_table_lies_are_renewed(*, refresh_existing: bool) -> None:
    scene = Scene(refresh_existing=refresh_existing)
    scene.changed("d.t", kind=ChangeKind.CREATED)
    scene.renewed()
    scene.changed("d.u", overwritten=True)
    assert scene.renewed() == [
        ("d.t", "file:/w/d.t", refresh_existing),
        ("d.u", "file:/w/d.u", True),
    ]


def test_nothing_is_looked_up_that_nobody_holds_or_that_is_gone() -> None:
    scene = Scene(has_paths=False)
    scene.changed("d.t")
    scene.relations.changed_all()
    scene.spark.has_paths = True
    scene.changed("d")
    scene.changed("d.t", kind=ChangeKind.DROPPED)
    assert (scene.renewed(), scene.looked_up) == ([], [])


def test_table_without_a_folder_renews_nothing_and_a_table_that_cannot_be_looked_up_all() -> None:
    """A pull may fail on a busy network; its relations would stay old otherwise."""
    scene = Scene()
    scene.changed("d.view", "d.lost", overwritten=True)
    assert (scene.renewed(), scene.guard.errors) == ([("d.lost", "", True)], 1)
    scene.changed("d.t")
    assert len(scene.renewed()) == 2, "others go on"


def test_each_folder_of_a_table_counts_and_too_many_for_all() -> None:
    scene = Scene()
    scene.changed("d.wide")
    assert scene.renewed() == [
        ("d.wide", "file:/w/d.wide", False),
        ("d.wide", "s3://lake/0", False),
    ]
    scene.changed("d.wider", overwritten=True)
    assert scene.renewed()[2:] == [("d.wider", "", True)]


def test_table_that_is_dropped_before_it_is_looked_up_is_no_failure() -> None:
    scene = Scene()
    scene.changed("d.gone", "d.t")
    assert scene.renewed() == [("d.t", "file:/w/d.t", False)]
    assert scene.guard.errors == 0


def test_what_changes_while_another_is_looked_up_waits_once() -> None:
    scene = Scene()
    scene.may_answer.clear()
    scene.changed("d.slow")
    scene.changed("d.t", overwritten=True)
    scene.changed("d.t", "d.u")
    assert not scene.relations.settle(0.01)
    scene.may_answer.set()
    assert sorted(scene.renewed()) == [
        ("d.slow", "file:/w/d.slow", False),
        ("d.t", "file:/w/d.t", True),
        ("d.u", "file:/w/d.u", False),
    ]


def test_after_a_loss_or_too_many_changes_all_are_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    scene.relations.changed_all()
    assert scene.renewed() == [("*", "", False)]
    monkeypatch.setattr(module, "TABLES_MAX", 2)
    scene.may_answer.clear()
    scene.changed("d.slow")
    scene.changed("d.a", "d.b", "d.c", "d.e")
    scene.may_answer.set()
    assert ("*", "", False) in scene.renewed()[1:]

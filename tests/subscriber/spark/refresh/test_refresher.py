"""Which change means which call on which session."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.subscriber.protocol.effects import Change
from topicast.subscriber.spark.refresh.refresher import (
    LATE_S,
    LOOK_S,
    RECENT_MAX,
    REREAD_S,
    SOON_S,
    UNCACHED_S,
    Existing,
    Invalidation,
    Looked,
    Refresher,
)
from topicast.topics.errors import UsageError
from topicast.topics.objects.changes import ChangeKind
from topicast.topics.objects.rules import DRY_RUN, OFF, ON, STATES

ORDERS = "shop.orders"
OTHER = "shop.other"


def changed(
    name: str = ORDERS, kind: str = ChangeKind.DATA, *, files: bool = True, version: int = 1
) -> Change:
    return Change(object=name, kind=kind, version=version, origin="events", files=files)


def turn(
    refresher: Refresher,
    cached: dict[str, set[str]],
    *,
    held: tuple[str, ...] = (),
    now: float = 0.0,
) -> tuple[Invalidation, ...]:
    """Look at each session that has something ``cached`` or ``held``, and do what it says."""
    refresher.begin_turn(cached, now=now)
    orders: list[Invalidation] = []
    for session, tables in cached.items():
        orders += refresher.look(session, Looked(frozenset(tables), held=frozenset(held)))
        refresher.check()
    for order in orders:
        refresher.done(order)
    return tuple(orders)


def renew(
    table: str = ORDERS,
    *,
    session: str = "s",
    existing: Existing = Existing.IF_GONE,
    recache: bool = False,
    known: bool = True,
) -> Invalidation:
    return Invalidation(
        session=session, table=table, existing=existing, recache=recache, known=known
    )


def test_dataframe_of_what_comes_after_an_attach_is_refreshed_in_place_later() -> None:
    """It was loaded since: its columns are those of now, and only its files may be of before."""
    refresher = Refresher()
    refresher.renew_all(now=0.0, late=False)
    assert turn(refresher, {"s": {OTHER}}) == (renew(OTHER, existing=Existing.NEVER),)
    assert turn(refresher, {"s": {ORDERS}}, now=0.5) == (renew(),)
    refresher.changed(changed(kind=ChangeKind.SCHEMA), now=0.6)
    assert turn(refresher, {"s": {ORDERS}}, now=0.7) == (renew(existing=Existing.NEVER),)
    refresher.renew_all(now=1.0, late=True)
    late = {"s": {ORDERS}, "new": {ORDERS}}
    never = Existing.NEVER
    assert turn(refresher, late, now=1.1) == (
        renew(existing=never),
        renew(session="new", existing=never),
    )


@pytest.mark.parametrize("kind", [ChangeKind.CREATED, ChangeKind.SCHEMA])
def test_dataframe_that_is_loaded_after_a_change_of_shape_is_refreshed_in_place_later(
    kind: str,
) -> None:
    """Also if its table changes again before the next look, which finds both in one."""
    refresher = Refresher()
    refresher.changed(changed(kind=kind), now=0.0)
    assert turn(refresher, {"s": set()}) == ()
    refresher.changed(replace(changed(), overwritten=True), now=0.1)
    assert turn(refresher, {"s": {ORDERS}}, now=0.2) == (renew(existing=Existing.ALWAYS),)
    refresher.changed(changed(kind=kind), now=0.3)
    before = turn(refresher, {"s": {ORDERS}, "new": {ORDERS}}, now=0.4)
    never = Existing.NEVER
    assert before == (renew(existing=never), renew(session="new", existing=never)), "perhaps older"


def test_dataframe_of_a_table_that_has_just_been_made_is_refreshed_at_each_change() -> None:
    """By what arrives of CREATE TABLE AS SELECT and of overwrites; nobody reads it by name."""
    refresher = Refresher()
    for kind in (ChangeKind.CREATED, ChangeKind.SCHEMA, ChangeKind.DATA):
        refresher.changed(changed(kind=kind), now=0.0)
    assert turn(refresher, {"s": set()}) == ()
    assert turn(refresher, {"s": {ORDERS}}, now=0.5) == (renew(),), "its files may be of before"
    held = (ORDERS,)
    assert turn(refresher, {"s": set()}, held=held, now=1.0) == ()
    for now in (1.5, 2.0):
        refresher.changed(changed(), now=now)
        assert turn(refresher, {"s": set()}, held=held, now=now) == (renew(),)
        assert turn(refresher, {"s": set()}, held=held, now=now) == ()
    refresher.changed(replace(changed(), overwritten=True), now=2.5)
    always = (renew(existing=Existing.ALWAYS),)
    assert turn(refresher, {"s": set()}, held=held, now=2.5) == always


def test_relation_whose_renewal_failed_is_not_taken_for_a_relation_that_was_loaded_since() -> None:
    refresher = Refresher()
    turn(refresher, {"s": {ORDERS}})
    refresher.changed(changed(kind=ChangeKind.SCHEMA), now=0.0)
    refresher.begin_turn(["s"], now=0.0)
    (order,) = refresher.look("s", Looked(frozenset({ORDERS})))
    refresher.failed(order)
    assert turn(refresher, {"s": {ORDERS}}) == (renew(existing=Existing.NEVER),)


def test_relations_of_a_session_are_renewed_again_though_they_were_not_read_since() -> None:
    """A plan that was being made when its relation was discarded holds it: nobody else does."""
    refresher = Refresher()
    turn(refresher, {"s": {ORDERS}, "t": {OTHER}})
    for now in (0.0, 1.0):
        refresher.changed(changed(), now=now)
        turn(refresher, {"s": {ORDERS} if now == 0.0 else set(), "t": {OTHER}}, now=now)
        assert [refresher.has_recent_change(one) for one in ("s", "t", "u")] == [True, False, False]
    turn(refresher, {"s": set(), "t": {OTHER}}, now=1.0 + LATE_S + 0.1)
    assert not refresher.has_recent_change("s")
    refresher.switch(DRY_RUN, now=100.0)
    refresher.changed(changed(), now=100.0)
    turn(refresher, {"s": {ORDERS}}, now=100.0)
    assert not refresher.has_recent_change("s"), "nothing is done in a dry run"


def test_changed_table_is_renewed_where_it_is_cached_and_nowhere_else() -> None:
    refresher = Refresher()
    refresher.changed(changed(), now=0.0)
    found = turn(refresher, {"s": {ORDERS, OTHER}, "t": {OTHER}, "u": {ORDERS}})
    assert found == (renew(), renew(session="u"))
    assert (refresher.sessions, refresher.relations) == (3, 4)


def test_what_was_cached_is_looked_for_at_once_and_what_was_not_less_often() -> None:
    refresher = Refresher()
    turn(refresher, {"s": {ORDERS}})
    refresher.changed(changed(OTHER), now=0.0)
    assert refresher.pause_s() == UNCACHED_S
    refresher.changed(changed(), now=0.0)
    assert refresher.pause_s() == 0.0
    turn(refresher, {"s": {ORDERS}})
    assert refresher.pause_s() == LOOK_S
    refresher.changed(changed("other_db", ChangeKind.DROPPED), now=0.0)
    assert refresher.pause_s() == 0.0


def test_changes_of_uncached_tables_may_gather_and_of_cached_tables_may_not() -> None:
    refresher = Refresher()
    assert not refresher.can_wait, "the first that comes is looked at"
    refresher.changed(changed(), now=0.0)
    assert refresher.can_wait
    turn(refresher, {"s": {ORDERS}})
    assert [refresher.is_cached(name) for name in (ORDERS, OTHER, "shop")] == [True, False, True]
    refresher.changed(changed(), now=0.0)
    assert not refresher.can_wait


def test_relation_under_each_spelling_of_a_table_is_renewed_by_itself() -> None:
    """Spark may be told to distinguish capitals; changes carry the names of the metastore."""
    typed, name = "Shop.Orders", "Shop.orders"
    refresher = Refresher(refresh_cached=True)
    assert turn(refresher, {"s": {typed, ORDERS}}) == ()
    refresher.changed(changed(), now=1.0)
    assert refresher.pause_s() == 0.0
    orders = turn(refresher, {"s": {typed, ORDERS}}, now=1.0)
    assert [one.table for one in orders] == [typed, ORDERS]
    assert all(one.recache for one in orders), "by the name that its cached data was made of"
    orders = turn(refresher, {"s": {ORDERS, name}}, now=1.5)
    assert [one.table for one in orders] == [name], "it was being loaded meanwhile"
    turn(refresher, {"s": set()}, now=200.0)
    refresher.changed(changed("shop"), now=200.0)
    assert len(turn(refresher, {"s": set()}, now=200.0)) == 0, "properties of a database"
    refresher.changed(changed("shop", ChangeKind.DROPPED), now=200.0)
    orders = turn(refresher, {"s": set()}, held=(typed,), now=200.0)
    assert [one.table for one in orders] == [typed, name, ORDERS]
    assert {one.existing for one in orders} == {Existing.NEVER}


def test_session_gets_one_order_for_a_change() -> None:
    refresher = Refresher()
    refresher.changed(changed(), now=0.0)
    assert turn(refresher, {"s": {ORDERS}})
    assert turn(refresher, {"s": {ORDERS}}) == ()
    refresher.changed(changed(version=2), now=0.0)
    assert turn(refresher, {"s": {ORDERS}}) == (renew(),)


def test_changes_of_one_table_between_two_turns_are_one_refresh() -> None:
    refresher = Refresher()
    for version in range(100):
        refresher.changed(changed(version=version), now=0.0)
    assert turn(refresher, {"s": {ORDERS}}) == (renew(),)
    assert (refresher.counts.changes, refresher.counts.renewed) == (100, 1)


@pytest.mark.parametrize("kind", [ChangeKind.SCHEMA, ChangeKind.CREATED, ChangeKind.DROPPED])
def test_relation_of_another_shape_is_never_refreshed_in_place(kind: str) -> None:
    """Its columns would be read from files that have others."""
    refresher = Refresher(refresh_existing=True)
    refresher.changed(changed(kind=kind), now=0.0)
    refresher.changed(changed(version=2), now=0.0)  # and the data after it
    assert turn(refresher, {"s": {ORDERS}}) == (renew(existing=Existing.NEVER),)
    refresher.changed(changed(version=3), now=0.0)  # of the relation that has the new columns
    assert turn(refresher, {"s": {ORDERS}}) == (renew(existing=Existing.ALWAYS),)


def test_existing_dataframes_are_refreshed_where_their_files_are_known_to_be_gone() -> None:
    refresher, gone = Refresher(), replace(changed(), overwritten=True)
    refresher.changed(gone, now=0.0)
    refresher.changed(changed(), now=0.0)  # an append after it
    assert turn(refresher, {"s": {ORDERS}}) == (renew(existing=Existing.ALWAYS),)
    refresher.changed(changed(), now=0.0)
    assert turn(refresher, {"s": {ORDERS}}) == (renew(existing=Existing.IF_GONE),)
    refresher.changed(replace(gone, kind=ChangeKind.SCHEMA), now=0.0)
    assert turn(refresher, {"s": {ORDERS}}) == (renew(existing=Existing.NEVER),)


def test_table_that_only_dataframes_hold_is_renewed_for_each_change_once() -> None:
    refresher = Refresher()
    turn(refresher, {"s": set()}, held=(ORDERS,))
    assert (refresher.relations, refresher.is_cached(ORDERS)) == (0, True)
    for wanted in (Existing.IF_GONE, Existing.ALWAYS, Existing.ALWAYS):
        overwritten = wanted is Existing.ALWAYS
        refresher.changed(replace(changed(), overwritten=overwritten), now=0.0)
        assert refresher.pause_s() == 0.0, "it does not wait with the others"
        assert turn(refresher, {"s": set()}, held=(ORDERS,)) == (renew(existing=wanted),)
        assert turn(refresher, {"s": set()}, held=(ORDERS,)) == ()
    refresher.changed(changed(kind=ChangeKind.SCHEMA), now=0.0)
    assert turn(refresher, {"s": set()}, held=(ORDERS,)) == (renew(existing=Existing.NEVER),)


def test_relation_that_was_being_loaded_is_renewed_after_an_order_for_dataframes() -> None:
    refresher = Refresher()
    refresher.changed(changed(), now=0.0)
    assert turn(refresher, {"s": set()}, held=(ORDERS,)) == (renew(),)
    assert turn(refresher, {"s": {ORDERS}}, held=(ORDERS,), now=LATE_S) == (renew(),)
    assert turn(refresher, {"s": set()}, held=(ORDERS,), now=LATE_S) == ()


@pytest.mark.parametrize(
    ("change", "refresh_existing", "existing"),
    [
        pytest.param(
            replace(changed(), origin="catch-up"),
            True,
            Existing.NEVER,
            id="of a catch-up it may be of another shape",
        ),
        pytest.param(changed(), True, Existing.ALWAYS, id="existing DataFrames, where requested"),
        pytest.param(changed(files=False), False, None, id="partitions that come and go"),
        pytest.param(
            changed("shop", ChangeKind.DROPPED),
            False,
            Existing.NEVER,
            id="dropped database, its tables alone",
        ),
        pytest.param(
            changed("shop", ChangeKind.SCHEMA), False, None, id="properties of a database"
        ),
    ],
)
def test_change_renews_what_it_concerns_or_is_counted_as_ignored(
    change: Change, *, refresh_existing: bool, existing: Existing | None
) -> None:
    refresher = Refresher(refresh_existing=refresh_existing)
    refresher.changed(change, now=0.0)
    assert (refresher.pause_s() is None) is (existing is None)
    wanted = () if existing is None else (renew(existing=existing),)
    assert turn(refresher, {"s": {ORDERS, "shop2.orders"}}) == wanted
    assert refresher.counts.ignored == (existing is None)


def test_cached_data_is_made_anew_only_where_that_is_requested() -> None:
    refresher = Refresher(refresh_cached=True)
    refresher.changed(changed(), now=0.0)
    wanted = Invalidation(session="s", table=ORDERS, existing=Existing.ALWAYS, recache=True)
    assert turn(refresher, {"s": {ORDERS}}) == (wanted,)
    refresher.changed(changed(), now=0.0)  # the relation is gone, the data is cached
    assert turn(refresher, {"s": set()}) == (wanted,)
    refresher.changed(changed(files=False), now=0.0)  # partitions, which cached data has
    assert refresher.pause_s() == 0.0
    assert turn(refresher, {"s": set()}) == (wanted,)
    refresher.changed(changed(kind=ChangeKind.SCHEMA), now=0.0)
    assert turn(refresher, {"s": set()}) == (replace(wanted, existing=Existing.NEVER),)
    assert refresher.counts.ignored == 0


def test_relation_that_was_being_loaded_when_its_table_changed_is_renewed_once_it_appears() -> None:
    refresher = Refresher()
    refresher.changed(changed(), now=0.0)
    assert turn(refresher, {"s": set()}) == ()
    assert refresher.pause_s() == LOOK_S
    assert turn(refresher, {"s": {ORDERS}}, now=LATE_S) == (renew(),)
    assert turn(refresher, {"s": {ORDERS}}, now=LATE_S) == ()


def test_relation_that_appears_long_after_a_change_is_left_alone() -> None:
    refresher = Refresher()
    refresher.changed(changed(), now=0.0)
    assert turn(refresher, {"s": {ORDERS}}, now=LATE_S + 1) == ()
    assert refresher.pause_s() is None


def test_after_a_loss_everything_cached_is_renewed_and_what_comes_later_is_not() -> None:
    refresher = Refresher()
    refresher.changed(changed(OTHER), now=0.0)  # older, and recent for longer
    refresher.renew_all(now=0.0, late=False)
    assert turn(refresher, {"s": {ORDERS}}) == (renew(existing=Existing.NEVER),)
    assert turn(refresher, {"s": {ORDERS, "shop.new"}}, now=SOON_S + 1) == ()
    assert refresher.counts.full == 1


def test_after_a_late_loss_what_was_being_loaded_is_renewed_too() -> None:
    refresher = Refresher()
    refresher.renew_all(now=0.0, late=True)
    assert turn(refresher, {"s": set()}) == ()
    assert turn(refresher, {"s": {ORDERS}}, now=SOON_S + 1) == (renew(),)


@pytest.mark.parametrize(("cached", "held"), [((ORDERS,), ()), ((), (ORDERS,))])
def test_refresh_that_failed_is_ordered_again(
    cached: tuple[str, ...], held: tuple[str, ...]
) -> None:
    refresher = Refresher()
    refresher.changed(changed(), now=0.0)
    refresher.begin_turn(["s"], now=0.0)
    (order,) = refresher.look("s", Looked(frozenset(cached), held=frozenset(held)))
    refresher.failed(order)
    assert refresher.pause_s() == LOOK_S
    assert turn(refresher, {"s": set(cached)}, held=held) == (order,)
    assert refresher.counts.renewed == 1


def test_order_of_a_session_that_has_ended_is_counted_and_discarded() -> None:
    refresher = Refresher()
    refresher.changed(changed(), now=0.0)
    refresher.begin_turn(["s"], now=0.0)
    (order,) = refresher.look("s", Looked(frozenset({ORDERS})))
    refresher.begin_turn([], now=0.0)
    refresher.done(order)
    refresher.failed(order)
    assert (refresher.relations, refresher.counts.renewed) == (0, 1)


def test_stale_read_counts_as_avoided_once_the_relation_is_read_again() -> None:
    refresher = Refresher()
    refresher.renew_all(now=0.0, late=False)
    turn(refresher, {"s": {ORDERS, OTHER}})
    turn(refresher, {"s": set()}, now=SOON_S + 1)
    assert refresher.counts.reread == 0
    assert refresher.pause_s() == REREAD_S
    turn(refresher, {"s": {ORDERS}}, now=SOON_S + 1)
    turn(refresher, {"s": {ORDERS}}, now=SOON_S + 1)
    assert refresher.counts.reread == 1


def test_dry_run_only_counts() -> None:
    refresher = Refresher(control=DRY_RUN)
    refresher.changed(changed(), now=0.0)
    assert turn(refresher, {"s": {ORDERS}}) == ()
    assert turn(refresher, {"s": {ORDERS}}) == ()
    assert (refresher.counts.would_renew, refresher.counts.renewed) == (1, 0)


def test_off_is_plain_spark_and_on_again_everything_is_renewed() -> None:
    refresher = Refresher()
    refresher.changed(changed(OTHER), now=0.0)
    refresher.switch(OFF, now=0.0)
    refresher.changed(changed(), now=0.0)
    refresher.renew_all(now=0.0, late=True)
    assert refresher.pause_s() is None
    assert turn(refresher, {"s": {ORDERS, OTHER}}) == ()
    refresher.switch(ON, now=1.0)
    assert [order.table for order in turn(refresher, {"s": {ORDERS, OTHER}})] == [ORDERS, OTHER]


@pytest.mark.parametrize(
    ("before", "after", "renewed"),
    [(ON, ON, False), (DRY_RUN, ON, True), (OFF, DRY_RUN, True), (ON, DRY_RUN, False)],
)
def test_switching_renews_what_was_not_refreshed(before: str, after: str, renewed: bool) -> None:
    refresher = Refresher(control=before)
    refresher.switch(after, now=0.0)
    assert (refresher.counts.full == 1) is renewed


def test_control_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="off, dry-run, on"):
        Refresher().switch("away", now=0.0)


def test_of_more_changes_than_are_remembered_the_oldest_count_as_handled() -> None:
    refresher = Refresher()
    for number in range(RECENT_MAX + 1):
        refresher.changed(changed(f"d.t{number}"), now=0.0)
    refresher.check()
    assert turn(refresher, {"s": {"d.t0", f"d.t{RECENT_MAX}"}}) == (renew(f"d.t{RECENT_MAX}"),)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.sampled_from(["d.a", "d.b", "e.a", "d"])),
        st.tuples(st.just("read"), st.sampled_from(["d.a", "d.b", "e.a"])),
        st.tuples(st.just("lost"), st.just("")),
        st.tuples(st.just("turn"), st.sampled_from(STATES)),
        st.tuples(st.just("look"), st.just("")),
    ),
    max_size=40,
)


@given(STEPS)
def test_after_a_turn_no_relation_is_older_than_the_changes(
    steps: list[tuple[str, str]],
) -> None:
    """A session as Spark has it: tables by the moment at which they were loaded."""
    refresher, loaded, changed_at = Refresher(), dict[str, int](), dict[str, int]()
    for moment, (what, name) in enumerate(steps):
        if what == "change":
            changed_at |= {
                one: moment for one in ("d.a", "d.b", "e.a") if one == name or one[0] == name
            }
            refresher.changed(changed(name, ChangeKind.DROPPED), now=moment / 100)
        elif what == "read":
            loaded.setdefault(name, moment)
        elif what == "lost":
            changed_at |= dict.fromkeys(loaded, moment)
            refresher.renew_all(now=moment / 100, late=False)
        elif what == "turn":
            refresher.switch(name, now=moment / 100)
        else:
            for order in turn(refresher, {"s": set(loaded)}, now=moment / 100):
                del loaded[order.table]
            if refresher.control == ON:
                late = {t for t, at in loaded.items() if at < changed_at.get(t, 0)}
                assert not late


def test_partitions_that_come_are_for_sessions_that_list_them_themselves() -> None:
    refresher, tables = Refresher(), frozenset({ORDERS})

    def orders(*, queries: str, lists: str) -> list[Invalidation]:
        refresher.begin_turn([queries, lists], now=0.0)
        found = [
            *refresher.look(queries, Looked(tables)),
            *refresher.look(lists, Looked(tables, lists_partitions=True)),
        ]
        refresher.check()
        return found

    assert orders(queries="a", lists="l") == []
    refresher.changed(changed(files=False), now=0.0)
    assert refresher.pause_s() == 0.0
    assert orders(queries="a", lists="l") == [renew(session="l")]
    assert orders(queries="a", lists="l") == []
    refresher.changed(changed(), now=0.0)
    assert orders(queries="a", lists="l") == [renew(session="a"), renew(session="l")]
    assert refresher.counts.ignored == 0


def test_before_a_session_is_seen_the_setting_says_whether_it_lists_partitions() -> None:
    refresher = Refresher(lists_partitions=True)
    refresher.changed(changed(files=False), now=0.0)
    refresher.begin_turn(["s"], now=0.0)
    looked = Looked(frozenset({ORDERS}), lists_partitions=True)
    assert refresher.look("s", looked) == (renew(),)


def topic_of(table: str) -> int:
    return {ORDERS: 1, OTHER: 2}[table]


def test_tables_of_which_no_change_arrives_are_renewed_and_their_cached_data_is_left() -> None:
    """Nobody knows whether they have changed: data is not made anew for that, nor counted."""
    refresher = Refresher(refresh_cached=True)
    turn(refresher, {"s": {ORDERS, OTHER}})
    refresher.changed_unseen([1], topic_of=topic_of, now=0.0)
    assert refresher.pause_s() == 0.0
    unseen = renew(existing=Existing.NEVER, known=False)
    assert turn(refresher, {"s": {ORDERS, OTHER}}) == (unseen,)
    assert turn(refresher, {"s": {ORDERS, OTHER}}) == (), "once"
    assert refresher.counts.reread == 0, "no stale read is known to be avoided"
    refresher.changed_unseen([1], topic_of=topic_of, now=0.5)
    refresher.changed(changed(), now=0.5)
    known = renew(existing=Existing.NEVER, recache=True)
    assert turn(refresher, {"s": {ORDERS, OTHER}}, now=0.5) == (known,)
    late = {"s": {ORDERS}, "late": {ORDERS}}
    assert turn(refresher, late, now=0.6) == (replace(known, session="late"),)
    assert refresher.tables == {ORDERS, OTHER}, "of the last one data may be cached"


def test_tables_of_a_topic_that_is_followed_again_are_renewed_with_their_cached_data() -> None:
    refresher = Refresher(refresh_cached=True)
    turn(refresher, {"s": {ORDERS, OTHER}})
    refresher.changed_unseen([], topic_of=topic_of, now=0.0)
    refresher.followed([2], now=0.0)
    known = renew(OTHER, existing=Existing.NEVER, recache=True)
    assert turn(refresher, {"s": {ORDERS, OTHER}}) == (known,)
    assert turn(refresher, {"s": {ORDERS}, "t": {OTHER}}, now=LATE_S) == (
        replace(known, session="t"),
    ), "it was being loaded"


def test_where_no_change_arrives_a_dry_run_counts_nothing_and_off_does_nothing() -> None:
    refresher = Refresher(control=DRY_RUN)
    refresher.changed_unseen([1], topic_of=topic_of, now=0.0)
    assert turn(refresher, {"s": {ORDERS}}) == ()
    assert refresher.counts.would_renew == 0
    refresher.switch(OFF, now=0.0)
    refresher.changed_unseen([1], topic_of=topic_of, now=0.0)
    refresher.followed([2], now=0.0)
    assert refresher.pause_s() is None

"""Policies: which databases a key may see, and what is cut from entries for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicast.topics.errors import ConfigError
from topicast.topics.objects.encoding.values import decode_problem, encode_problem
from topicast.topics.objects.names import (
    block_key,
    database_key,
    names_key,
    problem_key,
    rules_key,
    shared_fact_key,
    table_key,
)
from topicast.topics.objects.source_problem import ProblemKind, SourceProblem
from topicast.topics.policy import PROBLEM, Policy, parse_policy
from topicast.topics.topic import (
    NAMESPACE,
    STUB,
    Entry,
    entry_of,
    prefix_tombstone,
    stub,
    tombstone,
    value_of,
)

OWN = parse_policy("sales, Finance_*", setting="databases")
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


def value(key: bytes, content: bytes = b"value") -> Entry:
    return entry_of(key, 3, content)


@pytest.mark.parametrize("db", ["sales", "finance_", "finance_eu"])
def test_database_that_a_pattern_names_is_seen(db: str) -> None:
    assert OWN.sees(db)


@pytest.mark.parametrize("db", ["", "sale", "sales2", "my_sales", "finance", "sales\n", "SALES"])
def test_database_that_no_pattern_names_is_not_seen(db: str) -> None:
    assert not OWN.sees(db)


def test_same_patterns_in_another_order_are_the_same_policy() -> None:
    assert parse_policy("finance_*,sales,sales", setting="databases") == OWN
    assert str(OWN) == "finance_*,sales"
    assert len({OWN, parse_policy(str(OWN), setting="databases")}) == 1


@pytest.mark.parametrize("text", ["", "sales,", "a b", "sales;x", "[ab]", "sal\0es", "x" * 1025])
def test_text_that_names_no_databases_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="databases"):
        parse_policy(text, setting="databases")


@pytest.mark.parametrize("kind", [value, stub, lambda key: tombstone(key, 3)])
def test_entries_of_tables_are_cut_by_their_database(kind) -> None:
    own = [table_key("sales", "orders"), block_key("finance_eu", "sales", "ds=1")]
    others = [table_key("hidden", "sales"), block_key("hidden", "t", "sales"), table_key("s", "o")]
    entries = [
        kind(value(key).key) if kind is not stub else stub(value(key)) for key in own + others
    ]
    assert OWN.cut(4, entries) == tuple(entries[:2])


def test_prefix_tombstones_of_other_databases_are_cut() -> None:
    own = prefix_tombstone(table_key("sales", "orders"), 3)
    assert OWN.cut(4, [own, prefix_tombstone(table_key("hidden", "orders"), 3)]) == (own,)


def test_names_are_cut_by_their_database_and_rules_are_for_all() -> None:
    own = [database_key("sales"), names_key("sales", ""), names_key("sales", "m"), rules_key()]
    others = [
        database_key("hidden"),
        names_key("hidden", "sales"),
        shared_fact_key("other"),
        b"x\0sales\0",
    ]
    assert OWN.cut(NAMESPACE, map(value, own + others)) == tuple(map(value, own))


def test_database_called_as_a_kind_of_name_is_cut_in_a_table_topic() -> None:
    kinds = [value(table_key("d", "sales")), value(table_key("n", "sales"))]
    assert OWN.cut(4, [*kinds, value(rules_key())]) == ()


def test_reason_why_changes_do_not_arrive_is_replaced_for_it_may_name_tables() -> None:
    problem = value(
        problem_key(), encode_problem(SourceProblem(ProblemKind.UNREPORTED, "hidden.t is gone"))
    )
    (cut,) = OWN.cut(NAMESPACE, [problem])
    assert decode_problem(value_of(cut)) == SourceProblem(ProblemKind.WITHHELD, PROBLEM)
    assert (cut.key, cut.version, cut.size) == (problem.key, problem.version, len(value_of(cut)))
    assert OWN.cut(NAMESPACE, [stub(problem)])[0].kind == STUB


@given(NAMES, NAMES)
def test_key_is_seen_exactly_if_its_database_is(db: str, table: str) -> None:
    policy = Policy(("*a*", "b"))
    seen = bool(policy.cut(0, [value(table_key(db, table))]))
    assert seen == policy.sees(db) == ("a" in db or db == "b")

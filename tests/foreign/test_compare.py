"""What two runs of PySpark's own tests, plain and attached, come to."""

import json

import pytest

from topicast.tests.foreign.compare import Both, Ran, differing, ran, summary

A, B, C = "tests.T.test_a", "tests.T.test_b", "tests.T.test_c"
GOOD = Ran({A: "ok", B: "ok"}, 10.0)


def lines(*facts: dict[str, object]) -> list[str]:
    return [json.dumps(one) + "\n" for one in facts]


def test_test_that_ends_otherwise_is_named_with_both_ends() -> None:
    both = GOOD, Ran({A: "ValueError: 1", B: "ok"}, 11.0)
    assert differing((GOOD, GOOD)) == []
    assert differing(both) == [A]
    code, said = summary({"test_t": both}, {"test_t": both})
    assert code == 1
    assert said == [
        f"different: {A}\n    plain: ok; ok\n    attached: ValueError: 1; ValueError: 1",
        (
            "2 tests of 1 suites: 2 ok in plain Spark, 1 different or without an end,"
            " 0 unsteady in plain Spark; 0 suites not loaded"
        ),
        "processor time: plain 10 s, attached 11 s (+10 %)",
    ]


def test_what_fails_in_both_is_no_difference_whatever_paths_it_names() -> None:
    first = Ran({A: "ok", B: "OSError: /tmp/1"}, 1.0)
    second = Ran({A: "ok", B: "OSError: /tmp/2"}, 1.0)
    assert differing((first, second)) == []
    assert summary({"test_t": (first, second)}, {})[0] == 0


@pytest.mark.parametrize(
    ("again", "word", "code"),
    [
        ((GOOD, GOOD), "different", 1),  # attached alone, it ended in two ways
        ((Ran({A: "OSError: x", B: "ok"}, 1.0), GOOD), "unsteady", 0),
        ((Ran({A: "OSError: x", B: "ok"}, 1.0), Ran({A: "OSError: x"}, 1.0)), "unsteady", 1),
    ],
    ids=["plain is steady", "plain is not", "another test differs"],
)
def test_difference_is_of_plain_spark_where_plain_spark_ends_in_two_ways(
    again: Both, word: str, code: int
) -> None:
    both = GOOD, Ran({A: "OSError: x", B: "ok"}, 1.0)
    found, said = summary({"test_t": both}, {"test_t": again})
    assert said[0].startswith(f"{word}: {A}\n")
    assert found == code


def test_suite_without_an_end_fails_and_its_other_tests_are_compared() -> None:
    written = lines({"test": A, "end": "never ended"}, {"test": A, "end": "ok"})
    written += lines({"test": B, "end": "never ended"})
    attached = ran([*written, '{"test": "cut'], "it took longer than 9 s")
    assert attached.problem == f"it took longer than 9 s, in {B}"
    both = Ran({A: "ok", B: "ok", C: "ok"}, 1.0), attached
    assert differing(both) == [B]
    code, said = summary({"test_t": both}, {})
    assert code == 1
    assert said[0] == f"no end: test_t, attached: {attached.problem}"


def test_suite_that_is_not_loaded_is_named_and_has_not_passed() -> None:
    one = ran(lines({"not_loaded": "ImportError: no have_pyarrow"}))
    code, said = summary({"test_t": (one, one), "test_u": (GOOD, GOOD)}, {})
    assert code == 0
    assert said[0] == "not loaded: test_t: ImportError: no have_pyarrow"
    assert said[1].startswith("2 tests of 1 suites")
    assert said[1].endswith("1 suites not loaded")
    assert summary({"test_t": (one, one)}, {})[0] == 2, "nothing was compared"
    assert summary({"test_u": (GOOD, one)}, {})[0] == 1, "plain Spark loads it"

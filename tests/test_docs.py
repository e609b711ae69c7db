"""The documents hold what the program holds: rules are tested, tables are those of the code."""

import ast
import dataclasses
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from inspect import getmembers, isclass
from operator import attrgetter
from pathlib import Path

import pytest

from topicast.topics.objects.changes import ChangeKind
from topicast.topics.wire import header as h
from topicast.topics.wire.messages import (
    catalog,
    connection,
    data,
    publishers,
    readers,
    reports,
)
from topicast.topics.wire.messages.answers import Inspected, columns_of
from topicast.topics.wire.messages.data import ORIGINS
from topicast.topics.wire.messages.fields import Message
from topicast.topics.wire.refusal import Refusal
from topicast.topics.wire.shapes import SHAPES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
FOLDERS = ("topics", "statestore", "catalog", "subscriber", "pipeline", "cli")
RULE = re.compile(r"^- \*\*(P-[A-Z]+-\d+)\*\* (.*(?:\n  .*)*)", re.MULTILINE)
ID = re.compile(r"\bP-[A-Z]+-\d+\b")
RULES = RULE.findall(PROTOCOL)
MUTANTS = (ROOT / "tests" / "mutants" / "rules.toml").read_text(encoding="utf-8")
MUTATED: dict[str, list[str]] = tomllib.loads(MUTANTS)["rules"]


def _cited() -> dict[str, list[str]]:
    """Return the ids that tests cite, each with the files that cite it."""
    cited: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path != Path(__file__).resolve():
            for rule in ID.findall(path.read_text(encoding="utf-8")):
                cited.setdefault(rule, []).append(path.name)
    return cited


CITED = _cited()


def _table(first: str) -> list[list[str]]:
    """Return the rows of the table whose first column is headed ``first``, without backticks."""
    lines = PROTOCOL.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith(f"| {first} |")) + 2
    rows: list[list[str]] = []
    while lines[begin + len(rows)].startswith("|"):
        cells = lines[begin + len(rows)].strip("|").replace("`", "").split("|")
        rows.append([cell.strip() for cell in cells])
    return rows


def test_rule_ids_are_used_once() -> None:
    ids = [rule for rule, _ in RULES]
    assert len(ids) == len(set(ids))


def test_every_must_stands_in_a_rule_of_its_own() -> None:
    _, _, body = PROTOCOL.partition("## Header")  # what is before explains the word
    prose = RULE.sub("", body)
    assert "MUST" not in prose
    assert [rule for rule, text in RULES if text.count("MUST") > 1] == []


def test_functions_that_are_mutated_for_a_rule_are_there() -> None:
    assert sorted(set(MUTATED) - set(dict(RULES))) == [], "docs/protocol.md does not have them"
    for places in MUTATED.values():
        for place in places:
            path, _, name = place.partition(":")
            module = import_module(".".join(("topicast", *Path(path).with_suffix("").parts)))
            assert attrgetter(name)(module)


def test_every_must_is_cited_by_a_test() -> None:
    musts = {rule for rule, text in RULES if "MUST" in text}
    assert sorted(musts - set(CITED)) == [], "rules of docs/protocol.md that no test names"


def test_every_cited_rule_is_written_down() -> None:
    unknown = {rule: files for rule, files in CITED.items() if rule not in dict(RULES)}
    assert unknown == {}, "rules that docs/protocol.md does not have, and the tests that cite them"


@pytest.mark.parametrize("row", _table("constant"), ids=lambda row: row[0])
def test_constant_has_the_value_that_is_written_down(row: list[str]) -> None:
    module, _, name = row[0].rpartition(".")
    value = getattr(import_module(f"topicast.{module}"), name)
    assert row[1] == repr(value)


def test_header_has_the_fields_that_are_written_down() -> None:
    """P-HDR-1."""
    rows = _table("offset")
    assert tuple(row[2] for row in rows) == h.Header._fields
    ends = [int(offset) + int(size) for offset, size, *_ in rows]
    assert [int(row[0]) for row in rows] == [0, *ends[:-1]]
    assert ends[-1] == h.HEADER_BYTES
    sizes = {"B": 1, "H": 2, "I": 4, "Q": 8}
    assert [int(row[1]) for row in rows] == [sizes[code] for code in h.LAYOUT.format[1:]]


def test_kinds_and_flags_have_the_values_that_are_written_down() -> None:
    flags = {name: int(value) for name, value, _ in _table("flag")}
    assert flags == {name: getattr(h, name) for name in flags}
    for name, value, allowed in _table("kind"):
        kind = getattr(h, name)
        assert int(value) == kind
        if kind in h.FLAGS_OF_KIND:
            named = sum(flags[one] for one in allowed.split(", ") if one != "none")
            assert named == h.FLAGS_OF_KIND[kind]


def test_messages_have_the_numbers_and_fields_that_are_written_down() -> None:
    """P-MSG-1."""
    written = [
        (int(number), name, fields.split(", ") if fields else [])
        for number, name, fields in _table("type")
    ]
    shapes = sorted(SHAPES.items(), key=lambda item: item[1][0])
    known = [
        (number, cls.__name__, [field.name for field in dataclasses.fields(cls)])
        for cls, (number, _) in shapes
    ]
    assert written == known


def test_rows_of_answers_are_those_that_are_written_down() -> None:
    """P-MSG-1."""
    text = (ROOT / "docs" / "protocol.md").read_text("utf-8")
    written = dict(re.findall(r"^\| rows of `(\w+)` \| \(([^)]*)\)…", text, re.MULTILINE))
    answers = [cls for cls in SHAPES if issubclass(cls, Inspected)]
    assert written == {cls.__name__: ", ".join(columns_of(cls)) for cls in answers}


def test_codes_of_refusals_are_those_that_are_written_down_and_each_is_used() -> None:
    rows = [row[0] for row in _table("code")]
    assert rows == sorted(rows) == list(Refusal)
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    source = "".join(path.read_text(encoding="utf-8") for path in paths)
    assert not [code for code in Refusal if f"Refusal.{code}" not in source]


ARCHITECTURE = ROOT / "docs" / "architecture.md"
MAP, MESSAGES = "map", "messages"  # the parts of it that are made
FILE_NAMED = re.compile(
    r"`((?:topics|statestore|catalog|subscriber|pipeline|cli|tests)/[\w/]*(?:\.py|/))`"
)


def _first_line(path: Path) -> str:
    found = re.match(r'"""(.*?)(?:"""|\n)', path.read_text("utf-8"))
    return found[1] if found else ""


def _map() -> str:
    """Return the map: each folder with what it is, and each of its files in one line."""
    lines = []
    for package in sorted(ROOT.glob("*/**/__init__.py")):
        folder = package.parent.relative_to(ROOT)
        if folder.parts[0] not in FOLDERS:
            continue
        lines += [f"**`{folder}/`**: {_first_line(package)}", "", "| file | |", "|---|---|"]
        files = sorted(path for path in package.parent.glob("*.py") if path != package)
        lines += [f"| `{path.stem}` | {_first_line(path)} |" for path in files]
        if not files:
            del lines[-2:]
        lines.append("")
    return "\n".join(lines)


def _messages() -> str:
    """Return a table of the messages: the files that make each, and those that receive it."""
    kinds: dict[str, str] = {}
    for module in (data, connection, readers, publishers, catalog, reports):
        for name, kind in getmembers(module, isclass):
            if issubclass(kind, Message) and kind.__module__ == module.__name__:
                kinds[name] = module.__name__.rpartition(".")[2]
    del kinds["Refused"]  # anybody makes and takes it
    made: dict[str, set[str]] = {name: set() for name in kinds}
    taken: dict[str, set[str]] = {name: set() for name in kinds}
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        file = str(path.relative_to(ROOT))
        if not file.startswith(("topics/wire/", "topics/turn.py")):
            for name, is_made in _mentions(ast.parse(path.read_text("utf-8")), kinds):
                (made if is_made else taken)[name].add(file)
    lines = ["| message | made by | received by |", "|---|---|---|"]
    for name, module_name in kinds.items():
        files = sorted(made[name]), sorted(taken[name] - made[name])
        cells = (", ".join(f"`{file}`" for file in some) for some in files)
        lines.append(f"| {name} (`{module_name}`) | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _mentions(tree: ast.AST, names: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yield each of ``names`` that code mentions, and whether it makes one; not in unions."""
    for node in ast.walk(tree):
        found: Sequence[ast.AST | None] = ()
        is_made = False
        match node:
            case ast.Call(func=ast.Name(id="partial"), args=[kind, *_]):
                found, is_made = [kind], True
            case ast.Call(func=kind, args=others):
                found, is_made = [kind], True
                yield from _named(others, names, is_made=False)
            case ast.MatchClass(cls=kind) | ast.arg(annotation=kind):
                found = [kind]
            case ast.Dict(keys=keys):
                found = [one for key in keys if isinstance(key, ast.Tuple) for one in key.elts]
            case _:
                pass
        yield from _named(found, names, is_made=is_made)


def _named(
    nodes: Iterable[ast.AST | None], names: Collection[str], *, is_made: bool
) -> Iterator[tuple[str, bool]]:
    for one in nodes:
        match one:
            case ast.Name(id=name) if name in names:
                yield name, is_made
            case ast.Tuple(elts=several):
                yield from _named(several, names, is_made=is_made)
            case ast.BinOp(left=left, right=right):
                yield from _named((left, right), names, is_made=is_made)
            case _:
                pass


@pytest.mark.parametrize(("part", "make"), [(MAP, _map), (MESSAGES, _messages)])
def test_what_the_architecture_has_of_the_code_is_so(
    part: str, make: Callable[[], str], pytestconfig: pytest.Config
) -> None:
    """--rewrite writes it anew: the first lines of files, and who makes and receives messages."""
    text = ARCHITECTURE.read_text("utf-8")
    begin, end = f"<!-- {part}: begin -->\n", f"<!-- {part}: end -->\n"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    made = f"{before}{begin}{make()}{end}{after}"
    if pytestconfig.getoption("--rewrite"):
        ARCHITECTURE.write_text(made, "utf-8")
        return
    assert text == made, "make test ARGS='tests/test_docs.py --rewrite'"


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md", "README.md"])
def test_files_that_a_page_names_exist(page: str) -> None:
    named = FILE_NAMED.findall((ROOT / page).read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_each_promise_of_security_names_a_test_that_is_there() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    promises = page.partition("## What is promised")[2].partition("##")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ")][1:]
    proof = re.compile(r"\| .* \| `(tests/\S+\.py)::(test_\w+)`(?: \(nightly\))? \|")
    named = [proof.fullmatch(row) for row in rows]
    assert len(rows) > 10
    for row, found in zip(rows, named, strict=True):
        assert found is not None, row
        file, test = found.groups()
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), row


NAMED = re.compile(r"`(tests/[^`]*\.py[^`]*)`")
PROOF = re.compile(r"(tests/[\w/]+\.py)(?:::(test_\w+)(?:\[[^\]]+\])?)?")


def _is_there(name: str) -> bool:
    """Return whether there is the file, and the test in it; the id of one case is not looked at."""
    found = PROOF.fullmatch(name)
    if found is None or not (ROOT / found[1]).is_file():
        return False
    return found[2] is None or f"def {found[2]}(" in (ROOT / found[1]).read_text(encoding="utf-8")


def test_tests_and_benches_that_the_promises_name_are_there() -> None:
    named = NAMED.findall((ROOT / "docs" / "promises.md").read_text(encoding="utf-8"))
    assert len(named) > 100
    assert [name for name in named if not _is_there(name)] == []


def test_page_of_behaviours_names_tests_that_are_there() -> None:
    page = ROOT / "docs" / "design" / "0027-event-behaviours.md"
    rows = [row for row in page.read_text(encoding="utf-8").splitlines() if row.startswith("| ")]
    behaviours = [row for row in rows if not row.startswith("| behaviour")]
    assert len(behaviours) > 50
    for row in behaviours:
        named = NAMED.findall(row)
        assert [name for name in named if not _is_there(name)] == [], row
        words = ("does not apply", "the same (", "as of a compaction", "is being built")
        assert named or any(word in row for word in words), row


NIGHTLY = "pytest.mark.nightly"


@cache
def _nightly(file: str) -> tuple[bool, frozenset[str]]:
    """Return whether a whole file is marked so, and which of its tests are."""
    whole, tests = False, set()
    for node in ast.parse((ROOT / file).read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and NIGHTLY in map(ast.unparse, node.decorator_list):
            tests.add(node.name)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            of_all = node.value.elts if isinstance(node.value, ast.List) else [node.value]
            whole = NIGHTLY in map(ast.unparse, of_all)
    return whole, frozenset(tests)


def _is_nightly(file: str, test: str) -> bool:
    whole, tests = _nightly(file)
    return whole or test in tests


@pytest.mark.parametrize("page", ["promises.md", "security.md"])
def test_promises_say_which_of_their_tests_make_test_leaves_out(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`( \(nightly)?", text)
    assert len(named) > 10
    wrong = [one[:2] for one in named if _is_nightly(*one[:2]) != bool(one[2])]
    assert wrong == []


def test_words_for_a_change_are_all_in_the_operators_page() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    (told,) = [text for text in page.split("\n\n") if text.startswith("Programs get two words")]
    assert {*ORIGINS.values(), *ChangeKind} == set(re.findall(r"`([a-z]+(?:-up)?)`", told))

"""Every page of a daemon as documents, on real pages: without a secret, with each, by HTTPS."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from topicast.cli.client.page_reader import PageReader, Secrets
from topicast.cli.pages.answers import Sources
from topicast.cli.pages.parts.grid import Grid
from topicast.cli.pages.parts.page import grid_page
from topicast.cli.pages.server import Pages
from topicast.tests.cli.pages.secrets import TOKEN, access, certificate, secret_file
from topicast.tests.cli.pages.test_answers import sources
from topicast.topics.errors import ConfigError

AUTHORITY = trustme.CA()
GRID = Grid(about="Things.", columns=("name", "value"), rows=[("a", 1)])


def with_pages(*, is_guarded: bool = False) -> Sources:
    pages = {
        "things": grid_page("Things", "Which?", lambda *_: GRID),
        "log": grid_page("Log", "What?", lambda *_: GRID, is_private=True),
    }
    return replace(sources(), pages=pages, is_guarded=is_guarded)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[str]:
    files = {
        "password_file": secret_file(tmp_path / "passwords", "anna:s3cret"),
        "token_file": secret_file(tmp_path / "tokens", TOKEN),
    }
    with Pages(with_pages(is_guarded=True), access(**files)) as pages:
        yield pages.url


def test_open_pages_are_read_and_private_pages_are_said_to_be_missing() -> None:
    with Pages(with_pages(), access()) as pages:
        found, problems = PageReader(Secrets()).read(pages.url)
    assert list(found) == ["front", "metrics", "things"]
    assert found["things"]["things"]["rows"] == [{"name": "a", "value": 1}]
    assert "topicast_statestored_deltas_total 3.0" in found["metrics"]
    (problem,) = problems
    assert problem.startswith(f"{pages.url}/log?json: 403 Forbidden: this page shows names")


def test_secret_opens_every_page(guarded: str, tmp_path: Path) -> None:
    for secrets in (
        Secrets(token_file=secret_file(tmp_path / "token", f"# mine\n\n{TOKEN}")),
        Secrets(password_file=secret_file(tmp_path / "password", "anna:s3cret")),
    ):
        found, problems = PageReader(secrets).read(guarded)
        assert (list(found), problems) == (["front", "metrics", "things", "log"], [])


def test_no_secret_and_a_wrong_secret_are_refused(guarded: str, tmp_path: Path) -> None:
    wrong = Secrets(password_file=secret_file(tmp_path / "password", "anna:no"))
    for secrets in (Secrets(), wrong):
        found, (problem,) = PageReader(secrets).read(guarded)
        assert found == {}
        assert problem.startswith(f"{guarded}/?json: 401 Unauthorized: this page needs a password")


def test_certificate_has_to_be_trusted(tmp_path: Path) -> None:
    authority = tmp_path / "authority.pem"
    AUTHORITY.cert_pem.write_to_path(str(authority))
    with Pages(with_pages(), access(**certificate(AUTHORITY, tmp_path))) as pages:
        found, _ = PageReader(Secrets(certificate_file=authority)).read(pages.url)
        assert "things" in found
        found, (problem,) = PageReader(Secrets()).read(pages.url)
    assert found == {}
    assert "certificate verify failed" in problem


def test_what_does_not_answer_is_named() -> None:
    found, (problem,) = PageReader(Secrets()).read("http://127.0.0.1:1")
    assert found == {}
    assert problem == "http://127.0.0.1:1/?json: [Errno 111] Connection refused"


def test_file_that_cannot_be_used_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    empty = secret_file(tmp_path / "empty", "# nothing")
    readable = secret_file(tmp_path / "readable", TOKEN)
    readable.chmod(0o644)
    for secrets, problem in (
        (Secrets(token_file=tmp_path / "none"), "it does not exist"),
        (Secrets(token_file=empty), "it is empty"),
        (Secrets(password_file=readable), "chmod"),
        (Secrets(certificate_file=empty), "certificates in PEM"),
    ):
        with pytest.raises(ConfigError, match=problem):
            PageReader(secrets)

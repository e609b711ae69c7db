from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from topicast.cli.pages.access import Access
from topicast.tests.cli.pages.secrets import TOKEN, access, basic, certificate, secret_file
from topicast.topics.errors import ConfigError

PEOPLE = "# who may read\nanna:s3cret: with a colon\n\nbert:pässword\n"


@pytest.fixture
def guarded(tmp_path: Path) -> Access:
    return access(
        password_file=secret_file(tmp_path / "passwords", PEOPLE),
        token_file=secret_file(tmp_path / "tokens", f"{TOKEN}\n{TOKEN}-next\n"),
    )


def test_without_files_everybody_is_admitted() -> None:
    anybody = access()
    assert anybody.admits("")
    assert anybody.challenges == ()
    assert anybody.tls is None


@pytest.mark.parametrize(
    "given",
    [
        basic("anna", "s3cret: with a colon"),
        basic("bert", "pässword"),
        basic("bert", "pässword").replace("Basic", "bAsIc"),
        f"Bearer {TOKEN}",
        f"Bearer   {TOKEN}-next ",
    ],
)
def test_each_password_and_token_is_admitted(guarded: Access, given: str) -> None:
    assert guarded.admits(given)


@pytest.mark.parametrize(
    "given",
    [
        *("", "Basic", "Bearer", "Basic ", "Bearer ", "Basic ÿ", "Bearer ÿ", "Basic =="),
        *(basic("anna", ""), basic("", "s3cret"), basic("bert", "s3cret: with a colon")),
        *(f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Digest {TOKEN}", TOKEN),
        # a secret of one scheme is none of the other
        *("Bearer bert:pässword", basic(TOKEN, "")),
        f"Bearer {PEOPLE}",
    ],
)
def test_nothing_else_is_admitted(guarded: Access, given: str) -> None:
    assert not guarded.admits(given)


def test_reader_is_asked_for_what_there_is(guarded: Access, tmp_path: Path) -> None:
    assert [one.split()[0] for one in guarded.challenges] == ["Basic", "Bearer"]
    tokens = access(token_file=secret_file(tmp_path / "only", TOKEN))
    assert tokens.challenges == ("Bearer",)


@pytest.mark.parametrize(
    ("kind", "text", "mode", "said"),
    [
        ("password_file", "anna:s3cret", 0o644, "chmod 600"),
        ("token_file", TOKEN, 0o640, "chmod 600"),
        ("password_file", "\n# nobody\n", 0o600, "it is empty"),
        ("password_file", "anna:a\ns3cret", 0o600, "line 2 is not name:password"),
        ("password_file", "anna:", 0o600, "line 1 is not name:password"),
        ("password_file", ":s3cret", 0o600, "line 1 is not name:password"),
        ("token_file", "short", 0o600, "line 1 is not a token: at least 16"),
        ("token_file", "two words of a token", 0o600, "without spaces"),
        ("token_file", "x" * 100_000, 0o600, "at most 65536 bytes"),
    ],
)
def test_file_that_cannot_be_used_is_refused_with_the_reason(
    kind: str, text: str, mode: int, said: str, tmp_path: Path
) -> None:
    file = secret_file(tmp_path / "file", text, mode)
    with pytest.raises(ConfigError, match=f"webserver_{kind}=.*{said}") as refused:
        access(**{kind: file})
    assert "s3cret" not in str(refused.value)


def test_file_that_is_missing_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(ConfigError, match="webserver_token_file=.*missing.*does not exist"):
        access(token_file=missing)
    with pytest.raises(ConfigError, match="webserver_private_key_file=.*No such file"):
        access(certificate_file=missing, private_key_file=missing)


def test_private_key_is_its_owners_and_not_encrypted(tmp_path: Path) -> None:
    settings = certificate(trustme.CA(), tmp_path)
    key = settings["private_key_file"]
    key.chmod(0o644)
    with pytest.raises(ConfigError, match="webserver_private_key_file=.*chmod 600"):
        access(**settings)
    loaded = load_pem_private_key(key.read_bytes(), None)
    encrypted = loaded.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")
    )
    secret_file(key, encrypted.decode())
    with pytest.raises(ConfigError, match="webserver_certificate_file=.*unencrypted"):
        access(**settings)


def test_certificate_of_another_key_and_rubbish_are_refused(tmp_path: Path) -> None:
    settings = certificate(trustme.CA(), tmp_path)
    (tmp_path / "other").mkdir()
    other = certificate(trustme.CA(), tmp_path / "other")
    with pytest.raises(ConfigError, match="webserver_certificate_file"):
        access(**{**settings, "private_key_file": other["private_key_file"]})
    settings["certificate_file"].write_text("rubbish")
    with pytest.raises(ConfigError, match="webserver_certificate_file"):
        access(**settings)


def test_changed_file_is_read_again_and_a_bad_file_changes_nothing(tmp_path: Path) -> None:
    file = secret_file(tmp_path / "tokens", TOKEN)
    guarded = access(token_file=file)
    assert not guarded.refresh()

    secret_file(file, f"{TOKEN}-next")
    assert guarded.refresh()
    assert (guarded.admits(f"Bearer {TOKEN}"), guarded.admits(f"Bearer {TOKEN}-next")) == (
        False,
        True,
    )

    secret_file(file, "too short")
    with pytest.raises(ConfigError, match="line 1"):
        guarded.refresh()
    assert not guarded.refresh(), "it is reported once"
    assert guarded.admits(f"Bearer {TOKEN}-next")

    file.unlink()
    with pytest.raises(ConfigError, match="does not exist"):
        guarded.refresh()
    assert guarded.admits(f"Bearer {TOKEN}-next")

from datetime import datetime, timezone
from pathlib import Path

import pytest
import trustme

from topicast.cli.pages.certificate import valid_until
from topicast.tests.cli.pages.secrets import access, certificate


@pytest.mark.parametrize("year", [2031, 2049, 2050, 2120], ids=str)
def test_end_of_a_certificate_is_read_in_both_forms_of_time(year: int, tmp_path: Path) -> None:
    end = datetime(year, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
    made = trustme.CA().issue_cert("localhost", not_after=end)
    file = tmp_path / "chain.pem"
    file.write_bytes(b"".join(one.bytes() for one in made.cert_chain_pems))
    assert valid_until(file) == end.timestamp()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"rubbish",
        b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\nMAAwADAA\n-----END CERTIFICATE-----\n",
        b"\xff\xfe",
    ],
)
def test_what_is_no_certificate_has_no_end(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "chain.pem"
    file.write_bytes(content)
    assert valid_until(file) is None
    assert valid_until(tmp_path / "missing") is None


def test_pages_know_how_long_their_certificate_is_valid(tmp_path: Path) -> None:
    settings = certificate(trustme.CA(), tmp_path)
    made = access(**settings)
    end = valid_until(settings["certificate_file"])
    assert end is not None
    assert made.certificate_left_s(now_s=end - 7.0) == 7.0
    assert made.certificate_left_s(now_s=end + 7.0) == -7.0
    assert access().certificate_left_s(now_s=0.0) is None

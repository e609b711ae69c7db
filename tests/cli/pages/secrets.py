"""Secrets: password and token files, certificates, and what a client sends of them."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import trustme

from topicast.cli.pages.access import Access
from topicast.cli.pages.config import PagesConfig

TOKEN = "0123456789abcdef"


def access(**settings: Any) -> Access:
    """Return the access of ``settings``, whose names have no ``webserver_`` here."""
    return Access(PagesConfig(**{f"webserver_{name}": value for name, value in settings.items()}))


def secret_file(path: Path, text: str, mode: int = 0o600) -> Path:
    """Write a file that only its owner may read."""
    path.write_text(text)
    path.chmod(mode)
    return path


def basic(name: str, password: str) -> str:
    """Return what a browser sends for a password."""
    return f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"


def certificate(authority: trustme.CA, folder: Path) -> dict[str, Path]:
    """Write a certificate for this machine and its key; return the settings that name them."""
    leaf = authority.issue_cert("localhost", "127.0.0.1")
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems).decode()
    key = leaf.private_key_pem.bytes().decode()
    return {
        "certificate_file": secret_file(folder / "certificate.pem", chain, 0o644),
        "private_key_file": secret_file(folder / "key.pem", key),
    }

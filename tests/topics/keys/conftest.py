"""What tests of keys share: a folder that a first start has filled."""

from pathlib import Path

import pytest

from topicast.topics.keys.folder import KeysFolder
from topicast.topics.link import new_pair


@pytest.fixture
def folder(tmp_path: Path) -> KeysFolder:
    made = KeysFolder(tmp_path / "keys")
    made.make(new_pair)
    return made

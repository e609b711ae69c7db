import os
from pathlib import Path

import pytest

from topicast.catalog.storage.store import Store
from topicast.tests.catalog.stores import NOW_US, opened
from topicast.topics.errors import StoreError


def test_folder_in_use_names_the_process_that_holds_it(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(StoreError) as caught:
        Store.open(tmp_path, num_topics=4, now_us=NOW_US, new_id=2)
    assert str(tmp_path) in str(caught.value)
    assert f"process id {os.getpid()}" in str(caught.value)
    with opened(tmp_path, new_id=3) as store:
        assert [s.start for s in store.starts] == [1, 3]

"""Whatever a member sends that is valid, a hub answers it or drops it, and goes on."""

from random import Random

import pytest

from topicast.tests.statestore.hub_driver import (
    BULK,
    CONTROL,
    READER_BULK,
    READER_CONTROL,
    seeded,
)
from topicast.tests.strange import strange
from topicast.topics.wire.messages.answers import LevelList, NamedFacts
from topicast.topics.wire.messages.connection import Introduction, Refused
from topicast.topics.wire.messages.publishers import Announce, ClientList
from topicast.topics.wire.messages.questions import HUB_ANSWERS
from topicast.topics.wire.messages.readers import (
    Cancel,
    CatchUp,
    Credit,
    DriverFacts,
    Drop,
    Join,
    ReaderStatus,
)

KINDS = {
    READER_CONTROL: (Join, Drop, ReaderStatus, DriverFacts, NamedFacts, LevelList, *HUB_ANSWERS),
    READER_BULK: (CatchUp, Credit, Cancel),
    CONTROL: (Announce, ClientList, Introduction, Refused),
    BULK: (Refused,),
}


@pytest.mark.parametrize("seed", range(20))
def test_messages_of_any_content_are_borne(seed: int) -> None:
    rng = Random(seed)
    driver, publisher = seeded()
    driver.greet()
    for _ in range(100):
        peer = rng.choice((READER_CONTROL, READER_CONTROL, READER_BULK, CONTROL, BULK))
        driver.receive(peer, strange(rng.choice(KINDS[peer]), rng))
        if rng.random() < 0.2:
            driver.put(publisher.change(rng.choice((0, 1))))
            driver.tick(rng.choice((0.0, 0.05, 0.3)))
            driver.turn()
    assert driver.status.counts.refused

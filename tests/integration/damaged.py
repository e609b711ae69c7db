"""Damaged: a real hub that holds something else than catalogd has sent to the others.

A publisher of the test's own, with catalogd's key, epoch and start, fills the hub from another hub
and changes entries on the way. catalogd, when it joins, has no reason to send these again.
"""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace

from topicast.pipeline.comparison.hubs import HubReader
from topicast.pipeline.datasource.planning import snapshot_version
from topicast.pipeline.datasource.snapshot_versions import parse_snapshot_version
from topicast.subscriber.client.conversation import greet
from topicast.tests.keys import user_keys
from topicast.tests.statestore.hub_driver import PublisherPeer, hello
from topicast.tests.waiting import until
from topicast.topics.link import Link
from topicast.topics.settings import parse_addresses
from topicast.topics.topic import Entry
from topicast.topics.wire import decode, encode
from topicast.topics.wire.messages.connection import BULK_CHANNEL, CONTROL_CHANNEL, PUBLISHER, Bye
from topicast.topics.wire.messages.publishers import Announce, Filed

CHANNELS = {"control": CONTROL_CHANNEL, "bulk": BULK_CHANNEL}
Change = Callable[[Entry], Iterable[Entry]]
"""Returns what the hub is to hold instead of an entry."""


def damage(source: str, to: str, change: Change) -> None:
    """Fill the hub ``to``, which holds nothing yet, with what ``source`` holds, changed."""
    announce, peer = _copy(source, change)
    versions = {topic: one.version for topic, one in peer.topics.items() if one.version}
    filed: dict[int, int] = {}
    catalogd = user_keys("catalogd").credential
    with closing(Link(catalogd.pair)) as link:

        def is_filled() -> bool:
            messages = [decode(one.frame) for one in link.poll(0.05)]
            chunks = peer.answer(messages)
            while chunks:
                assert all(link.send("bulk", encode(chunk)) for chunk in chunks)
                chunks = peer.answer(())
            for message in messages:
                filed.update(message.versions if isinstance(message, Filed) else ())
            return versions.items() <= filed.items()

        for name, channel in CHANNELS.items():
            link.connect_dealer(name, to, user_keys("driver").credential.hub_keys(to))
            link.send(name, encode(hello("damaging", PUBLISHER, channel)))
        link.send("control", encode(announce))
        until(is_filled, timeout_s=30, what="the hub to hold everything")
        link.send("control", encode(Bye(reason="closed")))


def _copy(source: str, change: Change) -> tuple[Announce, PublisherPeer]:
    """Return a publisher of what ``source`` holds, changed, and how it announces itself."""
    (address,) = parse_addresses(source, setting="statestores")
    driver = user_keys("driver").credential
    now = parse_snapshot_version(snapshot_version(source))
    with closing(Link(driver.pair)) as link:
        _, hub, welcome = greet(link, [address], driver, timeout_s=20)
        hub.leave()
    peer = PublisherPeer(epoch=now.epoch, start=welcome.start, num_topics=now.num_topics)
    with closing(HubReader(address, driver)) as reader:
        for number, topic in peer.topics.items():
            version, entries = reader.read(number, now, lambda entry: entry)
            changed = [one for entry in entries for one in change(entry)]
            topic.file(sorted(changed, key=lambda entry: entry.version))
            topic.version = version
    announce = replace(peer.announce(), catalog_address=welcome.catalog_address)
    return announce, peer

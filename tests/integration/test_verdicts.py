"""Faults and surfaces: whatever is broken, no surface says that all is well, and each says why.

The surfaces: ``topicast status``, ``topicast drivers``, and the page, /healthz and /metrics of the
daemon that knows. What is stopped or dead answers none of its own.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from topicast.cli.quickstart.metastore.server import EmbeddedMetastore
from topicast.cli.terminal.exit_codes import DEGRADED, DONE, NOT_REACHABLE
from topicast.subscriber import Subscriber
from topicast.tests.cli.alarm_cases import metrics_of_alarms
from topicast.tests.cli.processes import Running, running, steady_port, topicast
from topicast.tests.integration.daemons import Daemons, both_daemons
from topicast.tests.integration.relay import Relay
from topicast.tests.keys import user_keys
from topicast.tests.waiting import until
from topicast.topics.errors import LinkError
from topicast.topics.link import new_pair
from topicast.topics.verdict import Serving

HUB, CATALOGD = "statestored", "catalogd"
APPLICATION: Final = "nightly-etl"
SMALL: Final = "3 of 16 topics are not followed"
QUICKLY: Final = "--statestore_max_missed_heartbeats=12"  # a member is LOST after 3 s, not 8
ANSWER_S: Final = 2.0  # a page that has not answered by then does not answer


@dataclass(frozen=True, slots=True)
class World:
    """Both daemons, the driver, and what stands between catalogd and its metastores."""

    folder: Path
    daemons: Daemons
    relay: Relay
    metastore: EmbeddedMetastore

    def start_driver(self, *reason: str) -> "subprocess.Popen[str]":
        words = [sys.executable, "-m", "topicast.tests.integration.driver_like"]
        driver = subprocess.Popen(
            [*words, self.daemons.hub_address, APPLICATION, *reason],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert driver.stdout is not None
        assert driver.stdout.readline() == "open\n"
        return driver

    def verdicts(self) -> list[str]:
        """Return the first line of each daemon's /healthz."""
        return [self.daemons.of(name).health()[1].partition("\n")[0] for name in (HUB, CATALOGD)]

    def is_well(self) -> bool:
        return self.verdicts() == ["serving", "serving"]


@pytest.fixture(scope="module")
def world(own_hive: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("verdicts")
    with ExitStack() as up:
        relay = up.enter_context(Relay(own_hive.uri))
        daemons = up.enter_context(both_daemons(folder, relay.uri, of_hub=(QUICKLY,)))
        yield World(folder, daemons, relay, own_hive)


# -- the faults: each is there inside its block


@contextmanager
def stopped(world: World, name: str) -> Iterator[None]:
    world.daemons.freeze(name)
    try:
        yield
    finally:
        world.daemons.thaw(name)


@contextmanager
def killed(world: World, name: str) -> Iterator[None]:
    world.daemons.kill(name)
    try:
        yield
    finally:
        world.daemons.start(name, *([QUICKLY] if name == HUB else []))


@contextmanager
def metastore_stopped(world: World) -> Iterator[None]:
    assert world.metastore.pid is not None
    os.kill(world.metastore.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(world.metastore.pid, signal.SIGCONT)


@contextmanager
def metastore_killed(world: World) -> Iterator[None]:
    """Given one of its own, so that the others have theirs afterwards."""
    with EmbeddedMetastore(world.folder / "other", durable=False) as other:
        world.relay.lead_to(other.uri)
        until(world.is_well, timeout_s=60, what="the other metastore")
        assert other.pid is not None
        os.kill(other.pid, signal.SIGKILL)
        try:
            yield
        finally:
            world.relay.lead_to(world.metastore.uri)


@contextmanager
def without_listener(world: World) -> Iterator[None]:
    with EmbeddedMetastore(world.folder / "mute", durable=False, events=False) as mute:
        world.relay.lead_to(mute.uri)
        try:
            yield
        finally:
            world.relay.lead_to(world.metastore.uri)


@contextmanager
def second_catalogd(world: World) -> Iterator[None]:
    options = (
        *("--webserver_port=0", f"--catalog_service_port={steady_port()}", "--num_topics=16"),
        *(f"--hive_metastore_uris={world.relay.uri}", f"--state_dir={world.folder / 'second'}"),
        f"--statestores={world.daemons.hub_address}",
    )
    with running(world.folder / "second.log", "daemons", "catalogd", *options):
        yield
    world.daemons.kill(HUB)  # which would name it for minutes
    world.daemons.start(HUB, QUICKLY)


@contextmanager
def driver_ended(world: World, number: signal.Signals) -> Iterator[None]:
    driver = world.start_driver()
    try:
        driver.send_signal(number)
        yield
    finally:
        driver.kill()
        driver.communicate()
        world.daemons.kill(HUB)  # which would name it for minutes
        world.daemons.start(HUB, QUICKLY)


@contextmanager
def driver_off(world: World) -> Iterator[None]:
    driver = world.start_driver()
    try:
        world.daemons.order("drivers", "off", APPLICATION)
        yield
    finally:
        world.daemons.order("drivers", "on", "*")
        driver.communicate()


@contextmanager
def small_budget(world: World) -> Iterator[None]:
    driver = world.start_driver(SMALL)
    try:
        yield
    finally:
        driver.communicate()


@contextmanager
def wrong_key(world: World) -> Iterator[None]:
    stranger = replace(user_keys("driver").credential, pair=new_pair())
    hubs = world.daemons.hub_address
    with pytest.raises(LinkError), Subscriber(hubs, credential=stranger, timeout_s=1):
        pass
    yield
    world.daemons.kill(HUB)  # which would name it for a minute
    world.daemons.start(HUB, QUICKLY)


# -- the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault, and what each surface says of it.

    ``knows``: the daemon whose page, /healthz and metrics say so, by the reason ``code`` with the
    words ``says``. ``gone``: the daemon that answers no more. ``status`` and ``drivers``: the exit
    code of the command, and words that it prints.
    """

    name: str
    cause: Callable[[World], AbstractContextManager[None]]
    knows: str
    code: str
    says: str
    gone: str = ""
    status: tuple[int, str]
    drivers: tuple[int, str]


def of_daemon(name: str, how: Callable[[World, str], AbstractContextManager[None]]) -> Fault:
    """Return the row of a daemon that is stopped or killed: the other one knows."""
    hub = name == HUB
    asked = "no statestored answers|no answer|not reached|does not answer"
    return Fault(
        name=f"{name} {how.__name__}",
        cause=lambda world: how(world, name),
        knows=CATALOGD if hub else HUB,
        code="hub_away" if hub else "catalogd_silent",
        says="has not been connected for" if hub else "has been silent for",
        gone=name,
        status=(NOT_REACHABLE, asked if hub else f"({asked}).*|catalogd at .*"),
        drivers=(NOT_REACHABLE, asked) if hub else (DONE, "has been silent for"),
    )


def of_metastore(name: str, cause: Callable[[World], AbstractContextManager[None]]) -> Fault:
    says = "the metastore does not answer"
    return Fault(
        name=name,
        cause=cause,
        knows=CATALOGD,
        code="metastore_silent",
        says=says,
        status=(DEGRADED, says),
        drivers=(DONE, says),
    )


def of_driver(name: str, number: signal.Signals) -> Fault:
    says = f"subscribers have sent nothing: {APPLICATION}@here:1 for"
    return Fault(
        name=name,
        cause=lambda world: driver_ended(world, number),
        knows=HUB,
        code="subscribers_lost",
        says=says,
        status=(DEGRADED, says),
        drivers=(DONE, f"{APPLICATION} .*(unreachable|it went silent)"),  # later
    )


FAULTS: Final = (
    of_daemon(HUB, stopped),
    of_daemon(HUB, killed),
    of_daemon(CATALOGD, stopped),
    of_daemon(CATALOGD, killed),
    Fault(
        name="two catalogds",
        cause=second_catalogd,
        knows=HUB,
        code="two_catalogds",
        says="two catalogds publish here",
        status=(DEGRADED, "two catalogds publish here"),
        drivers=(DONE, "two catalogds publish here"),
    ),
    of_driver("driver stopped", signal.SIGSTOP),
    of_driver("driver killed", signal.SIGKILL),
    Fault(
        name="driver off by rule",
        cause=driver_off,
        knows=CATALOGD,
        code="drivers_off",
        says=f"drivers are not refreshed: off for '{APPLICATION}'",
        status=(DEGRADED, "by order of an operator"),
        drivers=(DONE, f"{APPLICATION} .*live .*off"),
    ),
    Fault(
        name="small budget",
        cause=small_budget,
        knows=HUB,
        code="drivers_problem",
        says=f"{APPLICATION} is live: {SMALL}",
        status=(DEGRADED, SMALL),
        drivers=(DONE, f"{APPLICATION} .*live .*{SMALL}"),
    ),
    Fault(
        name="wrong key",
        cause=wrong_key,
        knows=HUB,
        code="handshakes_failed",
        says="whose key is not admitted, tries to connect",
        status=(DEGRADED, "whose key is not admitted"),
        drivers=(DONE, "whose key is not admitted"),
    ),
    of_metastore("metastore stopped", metastore_stopped),
    of_metastore("metastore killed", metastore_killed),
    Fault(
        name="no listener",
        cause=without_listener,
        knows=CATALOGD,
        code="metastore_events",
        says="the metastore records no events, and its changes arrive only once",
        status=(DEGRADED, "records no events"),
        drivers=(DONE, "records no events"),
    ),
)
NIGHTLY: Final = (
    *("metastore killed", "no listener"),  # each starts a metastore of its own
    *("statestored stopped", "catalogd killed", "driver stopped", "two catalogds"),
    *("driver off by rule", "small budget"),  # commands and units have them
)


def answer(daemon: Running, path: str) -> tuple[int, str] | None:
    """Return what a page of ``daemon`` answers; None: nothing."""
    try:
        with urlopen(daemon.ready["web"] + path, timeout=ANSWER_S) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (URLError, OSError):
        return None


def commands(world: World) -> tuple["subprocess.CompletedProcess[str]", ...]:
    """Return what ``topicast status`` and ``topicast drivers`` have printed, begun at once."""
    where = f"--statestores={world.daemons.hub_address}"
    with ThreadPoolExecutor(2) as pool:
        return tuple(pool.map(lambda word: topicast(word, where), ("status", "drivers")))


def assert_printed(
    done: "subprocess.CompletedProcess[str]", wanted: tuple[int, str], what: str
) -> None:
    code, words = wanted
    printed = re.sub(r"\s+", " ", f"{done.stdout} {done.stderr}")
    assert done.returncode == code, f"{what}: {printed}"
    assert re.search(words, printed), f"{what}: {printed}"


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(one, id=one.name, marks=[pytest.mark.nightly] if one.name in NIGHTLY else [])
        for one in FAULTS
    ],
)
def test_no_surface_says_that_all_is_well_and_each_says_why(world: World, fault: Fault) -> None:
    until(world.is_well, timeout_s=60, what="all to be well before")
    knows = world.daemons.of(fault.knows)
    with fault.cause(world):
        until(lambda: fault.says in (answer(knows, "/healthz") or (0, ""))[1], what=fault.says)
        status, drivers = commands(world)
        assert_printed(status, fault.status, "topicast status")
        assert_printed(drivers, fault.drivers, "topicast drivers")
        health, page, metrics, document = (
            answer(knows, path) for path in ("/healthz", "/", "/metrics", "/?json")
        )
        assert health is not None
        assert page is not None
        assert metrics is not None
        assert health[0] == 200, "a restart mends nothing"
        assert re.search(rf"^degraded: .*{re.escape(fault.says)}", health[1], re.MULTILINE)
        assert 'class="verdict well"' not in page[1]
        assert 'class="verdict warned"' in page[1]
        assert f"topicast_{fault.knows}_verdict {float(Serving.DEGRADED)}" in metrics[1]
        assert f'topicast_{fault.knows}_reasons{{code="{fault.code}"}} 1.0' in metrics[1]
        (reason,) = (one for one in json.loads(document[1])["reasons"] if one["code"] == fault.code)
        assert reason["mend"], "what to do"
        if fault.gone:
            gone = world.daemons.of(fault.gone)
            assert [answer(gone, path) for path in ("/healthz", "/", "/metrics")] == [None] * 3
    until(world.is_well, timeout_s=60, what="all to be well again")


def test_where_nothing_is_wrong_each_surface_says_so(world: World) -> None:
    until(world.is_well, timeout_s=60, what="all to be well")
    driver = world.start_driver()
    status, drivers = commands(world)
    driver.communicate()
    assert_printed(
        status,
        (DONE, "^serving statestored .* serving hears .*catalogd .* serving 1 of 1 hub"),
        "status",
    )
    assert_printed(drivers, (DONE, f"{APPLICATION} .*live"), "drivers")
    assert (status.stderr, drivers.stderr) == ("", "")
    for name in (HUB, CATALOGD):
        page = world.daemons.of(name).page
        assert page("/healthz") == "serving\n"
        assert '<p class="verdict well">serving</p>' in page("/")
        assert f"topicast_{name}_verdict 0.0" in page("/metrics")
        assert f"topicast_{name}_reasons{{" not in page("/metrics")


def test_each_alarm_is_of_metrics_that_the_daemons_export(world: World) -> None:
    """But of certificates: the pages of these daemons have none."""
    until(world.is_well, timeout_s=60, what="all to be well")
    text = "".join(world.daemons.of(name).page("/metrics") for name in (HUB, CATALOGD))
    exported = set(re.findall(r"^(topicast_[a-z_]+)[ {]", text, re.MULTILINE))
    assert {one for one in metrics_of_alarms() - exported if "certificate" not in one} == set()


@pytest.mark.nightly  # seconds of tries
def test_hub_that_was_away_is_two_lines_of_catalogds_log(world: World) -> None:
    until(world.is_well, timeout_s=60, what="all to be well")
    log = world.daemons.of(CATALOGD).log
    begin = len(log.read_text())

    def lines(*words: str) -> list[str]:
        new = log.read_text()[begin:].splitlines()
        return [line for line in new if all(word in line for word in words)]

    with killed(world, HUB):
        until(lambda: lines("WARNING", "has not been connected"), what="the warning")
        until(lambda: " 6 s (" in world.daemons.of(CATALOGD).health()[1], what="some tries")
        assert len(lines(" hub: ")) <= 3, lines(" hub: ")
    until(lambda: lines("no longer degraded: hub_away"), what="the end of it")
    assert len(lines("WARNING")) == 1, lines("WARNING")

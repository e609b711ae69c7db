"""The command that writes the answers of daemons and facts of this host into one archive."""

import json
import os
import platform
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

import click

from ...topics.errors import ConfigError, LinkError, TopicastError, UsageError
from ...topics.settings import parse_addresses
from ...topics.wire.messages.questions import (
    Question,
    ReadDrivers,
    ReadHeldTopics,
    ReadHubs,
    ReadRecent,
    ReadStatus,
    ReadSubscribers,
    ReadTopics,
    ReadVerdict,
)
from ..client.operator import Operator, each_of
from ..client.page_reader import PageReader, Secrets
from ..options.flags import PathName, command, option, prints, shown, statestores_option
from ..terminal.exit_codes import DONE, NOT_REACHABLE
from ..terminal.output import Output, WrittenFile, checked_place, note, written

QUESTIONS: Final[Mapping[str, Mapping[str, Question[Any]]]] = {
    "statestored": {
        "status": ReadStatus(),
        "verdict": ReadVerdict(),
        "topics": ReadTopics(),
        "subscribers": ReadSubscribers(),
        "drivers": ReadDrivers(),
    },
    "catalogd": {
        "status": ReadStatus(),
        "verdict": ReadVerdict(),
        "hubs": ReadHubs(),
        "topics": ReadHeldTopics(),
        "recent": ReadRecent(since_us=0, count=1000),  # of the log of changes
    },
}
"""The questions to each daemon, by the name of the file with the answer."""
LOG_BYTES_MAX: Final = 8 << 20  # of the end of each log: a day of a daemon that logs each change
CHECK_S: Final = 10.0


@command()
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The archive, a .zip that does not exist yet.",
)
@click.option(
    "logs",
    "--log",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    multiple=True,
    metavar="FILE",
    help=f"A log whose last {LOG_BYTES_MAX >> 20} MB are put in; may be given several times.",
)
@option(
    "webserver_token_file",
    type=PathName(),
    help="File whose first line is a token for the daemons' pages, if they need one.",
)
@option(
    "webserver_password_file",
    type=PathName(),
    help="File whose first line is name:password for the daemons' pages, if they need it.",
)
@option(
    "webserver_certificate_file",
    type=PathName(),
    help="Certificates to trust, if the pages are served by HTTPS; else those of the system.",
)
@statestores_option("all are asked")
@prints(lambda: {"": WrittenFile})
def debug(
    *,
    out: Path,
    logs: tuple[Path, ...],
    webserver_token_file: Path | None,
    webserver_password_file: Path | None,
    webserver_certificate_file: Path | None,
    statestores: str,
    output: str,
) -> int:
    """Write the facts of the daemons and of this host into one archive, to send or to keep.

    The archive has every table and every page of each statestored and of catalogd as JSON, with
    their settings and last lines of log, the doctor's answers, versions and settings of this host,
    and the logs that you name. Keys and passwords are not in it; names of tables, users and hosts
    are. It names daemons that do not answer; the exit code is 3 if none answers. Some pages are in
    it only if the pages need a secret, and you name that.
    """
    hubs = parse_addresses(statestores, setting="statestores")
    if checked_place(out).exists():
        raise UsageError(f"{out} exists already: name another file")
    reader = PageReader(
        Secrets(
            token_file=webserver_token_file,
            password_file=webserver_password_file,
            certificate_file=webserver_certificate_file,
        )
    )
    parts: dict[str, Any] = {}  # of the archive, by name
    problems: list[str] = []
    note("asking the statestoreds and catalogd")
    try:
        answers = each_of(hubs, lambda visit: _of_daemons(visit, parts, problems))
    except ConfigError as error:  # there is no key to ask with: the rest may say why
        answers = [LinkError(str(error))]
    away = [one for one in answers if isinstance(one, LinkError)]
    problems += map(str, away)
    for problem in problems:
        note(f"not in it: {problem}")
    said = len(problems)
    note("reading their pages")
    for url in _pages_in(parts, problems):
        found, missing = reader.read(url)
        place = f"pages-{url.partition('://')[2].replace(':', '-')}"
        parts |= {f"{place}/{name}": one for name, one in found.items()}
        problems += missing
    note("asking the doctor")
    parts |= {"doctor": _doctor(statestores), "host": _host(os.environ), "not-answered": problems}
    _write(out, parts, logs)
    for problem in problems[said:]:
        note(f"not in it: {problem}")
    written(out, out.stat().st_size, Output(output))
    return NOT_REACHABLE if len(away) == len(answers) else DONE


def _write(out: Path, parts: Mapping[str, Any], logs: Sequence[Path]) -> None:
    try:
        with out.open("xb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            out.chmod(0o600)
            for name, what in parts.items():
                is_text = isinstance(what, str)
                text = what if is_text else json.dumps(what, indent=1, ensure_ascii=False)
                archive.writestr(f"{name}.{'txt' if is_text else 'json'}", text)
            for number, log in enumerate(logs):
                archive.writestr(f"logs/{number}-{log.name}", _end_of(log))
    except OSError as exc:
        raise TopicastError(f"{exc.filename or out}: {exc.strerror}") from exc


def _of_daemons(visit: Operator, parts: dict[str, Any], problems: list[str]) -> None:
    """Add the tables of a hub, and of the catalogd that it names; note what is refused."""
    daemons = (("statestored", str(visit.address)), ("catalogd", visit.welcome.catalog_address))
    for kind, address in daemons:
        place = address.partition("://")[2].replace(":", "-")
        ask = visit.hub if kind == "statestored" else visit.catalog
        for name, question in QUESTIONS[kind].items() if place else ():
            try:
                found = ask(question).records()
            except TopicastError as error:
                problems.append(f"{kind} {address}, {name}: {error}")
            else:
                parts[f"{kind}-{place}/{name}"] = found


def _pages_in(parts: Mapping[str, Any], problems: list[str]) -> list[str]:
    """Return the addresses of pages that daemons name in their tables; note those that do not."""
    found: dict[str, None] = {}
    for name, rows in parts.items():
        kind, _, table = name.rpartition("/")
        if table == "hubs":
            said = {f"statestored {one['address']}": one["pages"] for one in rows}
        elif table == "status" and kind.startswith("statestored"):
            facts = {one["name"]: one["value"] for one in rows}
            said = {"catalogd": facts.get("catalogd_pages")}
        else:
            continue
        found |= dict.fromkeys(filter(None, said.values()))
        problems += [f"{one}: its pages are not known" for one, url in said.items() if not url]
    return list(found)


def _doctor(statestores: str) -> list[dict[str, Any]]:
    from ..doctor.checks import examine
    from ..doctor.roles import Given, checks_of

    given = Given(statestores=statestores, command=(), timeout_s=CHECK_S)
    found = examine(checks_of("driver", given), limit_s=CHECK_S)
    return [{"check": one.check, **asdict(one.answer)} for one in found]


def _host(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the facts of this host, its versions and settings; no secret is among them."""
    ours = {name: value for name, value in environ.items() if name.startswith("TOPICAST_")}
    return {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "host": platform.node(),
        "system": platform.platform(),
        "python": sys.version,
        "processors": os.cpu_count(),
        "packages": dict(sorted((one.name, one.version) for one in distributions())),
        "settings": {name: shown(name, value) for name, value in sorted(ours.items())},
    }


def _end_of(log: Path) -> bytes:
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - LOG_BYTES_MAX, 0))
        return file.read(LOG_BYTES_MAX)

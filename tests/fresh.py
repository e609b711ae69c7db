"""Fresh: the README's two commands on a Debian that holds python3-venv, make and git, and no more.

    debootstrap ──▶ root ──clone, as a new user──▶ make run ARGS=--once ──▶ make test

Each release is made in a temporary folder of build/ and removed when all has gone well. What this
machine trusts and how it reaches packages (certificates, pip's settings, proxies) is taken along,
nothing else is. The root's processes have a process namespace of their own, which ends with them.
Run, as root: make fresh; RELEASES=trixie for one of them, ARGS=--no-test for the first command only
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "build" / "fresh"
PACKAGES: Final = "python3,python3-venv,make,git,ca-certificates"
USER: Final = "newcomer"
COMMANDS: Final = {  # the first one beside another make, as from an editor: one sets up, one waits
    "run": "make types & make run ARGS=--once && wait $!",
    "test": "make test",
}
CLONE: Final = f"/home/{USER}/topicast"
NEEDED: Final = ("debootstrap", "unshare", "chroot")
TAKEN: Final = ("PIP_", "SSL_CERT_", "http_proxy", "https_proxy", "no_proxy")
CERTIFICATES: Final = Path("etc/ssl/certs/ca-certificates.crt")
PIP_SETTINGS: Final = Path("etc/pip.conf")
TIMEOUT_S: Final = 3600.0  # of each command: a first download may take most of it
INSIDE: Final = """
mount --make-rprivate /
mount -t proc proc {root}/proc
mount --rbind /dev {root}/dev
exec chroot --userspec={user} {root} /usr/bin/env -i {environment} sh -euc {command}
"""


class Failed(Exception):
    """What a newcomer would have met."""


def main() -> int:
    """Try each release; return 1 if one fails, 2 if they cannot be tried here."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("releases", nargs="+", help="of Debian, as bookworm")
    parser.add_argument("--no-test", action="store_true", help="make run only")
    given = parser.parse_args()
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        who = f"{', '.join(missing)} (apt install debootstrap)" if missing else "to be run as root"
        print(f"make fresh needs {who}", file=sys.stderr)
        return 2
    wanted = {"run"} if given.no_test else COMMANDS.keys()
    failed = []
    for release in given.releases:
        try:
            try_release(release, wanted)
        except Failed as error:
            failed.append(release)
            print(f"fresh: {release}: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


def try_release(release: str, wanted: Collection[str]) -> None:
    """Make a root of ``release`` and run the ``wanted`` commands in a clone in it.

    Raises:
        Failed: one of them has ended with another code than 0; the root is kept.
    """
    root = FOLDER / release
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    run(
        release,
        "bootstrap",
        ["debootstrap", f"--include={PACKAGES}", "--variant=minbase", release, str(root)],
    )
    prepare(root)
    for title, command in COMMANDS.items():
        if title in wanted:
            run(release, title, entering(root, within(CLONE, command)))
    shutil.rmtree(root)


def prepare(root: Path) -> None:
    """Add a user with a clone of what is committed, and the way to the packages."""
    for name in (CERTIFICATES, PIP_SETTINGS, Path("etc/resolv.conf"), Path("etc/hosts")):
        if (Path("/") / name).is_file():
            shutil.copyfile(Path("/") / name, root / name)
    subprocess.run(["chroot", root, "useradd", "--create-home", USER], check=True)
    clone = root / CLONE.removeprefix("/")
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True)
    subprocess.run(["chroot", root, "chown", "-R", f"{USER}:{USER}", CLONE], check=True)


def within(clone: str, command: str) -> str:
    """Return how a shell runs ``command`` in ``clone``, all of it, though a part is behind a &."""
    return f"cd {shlex.quote(clone)}\n{command}"


def entering(root: Path, command: str) -> list[str]:
    """Return how to run ``command`` in ``root`` as its user."""
    environment = {name: value for name, value in os.environ.items() if name.startswith(TAKEN)}
    environment |= {
        "HOME": f"/home/{USER}",
        "USER": USER,
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
    }
    script = INSIDE.format(
        root=shlex.quote(str(root)),
        user=USER,
        environment=shlex.join(f"{name}={value}" for name, value in environment.items()),
        command=shlex.quote(command),
    )
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", script]


def run(release: str, title: str, command: Sequence[str]) -> None:
    """Run one step, whose output goes to a file, and say how long it took.

    Raises:
        Failed: it ended with another code than 0, or not in time.
    """
    log = FOLDER / f"{release}-{title}.log"
    print(f"fresh: {release}: {title} (output: {log})", flush=True)
    began_at = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{title}: not done within {TIMEOUT_S:.0f} s, see {log}") from error
    took_s = time.monotonic() - began_at
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    if done.returncode:
        raise Failed(f"{title}: exit {done.returncode} after {took_s:.0f} s, see {log}: {last}")
    print(f"fresh: {release}: {title}: {took_s:.0f} s {' '.join(last)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

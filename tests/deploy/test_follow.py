"""docs/deploy.md, followed: its commands, in their order, on hosts with trees of their own."""

import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from topicast.cli.quickstart.console import read_ready
from topicast.cli.quickstart.metastore.java import cache_folder, java_home_for_spark
from topicast.tests.net.namespaces import Host, Network, Process
from topicast.tests.waiting import until

ROOT: Final = Path(__file__).resolve().parents[2]
WHEELS: Final = ROOT / ".venv" / "deploy" / "wheels"  # of what topicast needs
HOSTS: Final = {"hub-1": "10.79.0.2", "meta-1": "10.79.0.3", "spark-1": "10.79.0.4"}
DAEMONS: Final = ("statestored", "catalogd")
APP: Final = """
import os
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("hive.metastore.uris", "thrift://meta-1:9083")
    .config("spark.sql.warehouse.dir", "{warehouse}").enableHiveSupport().getOrCreate()
)
print("started", flush=True)
for line in open(os.environ["ORDERS"]):  # spark-submit hands no standard input on
    print(sorted(map(tuple, spark.sql(line).collect())), flush=True)
"""


@dataclass(frozen=True)
class Block:
    """Commands of the page, for the host that the text before them names last."""

    host: str
    text: str


def blocks() -> list[Block]:
    """Return the commands of the page; two hosts that do the same are two blocks."""
    found, text = [], (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    for words, commands in re.findall(r"\n\n((?:[^\n]+\n)+)\n```sh\n(.*?)```", text, re.DOTALL):
        hosts = re.findall(r"on the host `([\w-]+)`", words, re.IGNORECASE)
        assert hosts, f"no host is named before: {commands}"
        found += [Block(host, commands) for host in hosts]
    return found


class Machine:
    """A host with its own /etc, /opt and /var/lib, which hold no more than a new one's."""

    def __init__(self, network: Network, name: str, variables: dict[str, str]) -> None:
        self.host: Host = network.host(name, f"{HOSTS[name]}/24")
        self.host.know({**HOSTS, socket.gethostname(): HOSTS[name]})
        home = self.host.folder
        self._variables = {**variables, "HOME": str(home)}
        shutil.copytree("/etc", home / "etc", symlinks=True, ignore=unreadable)
        for tree in ("opt", "lib"):
            (home / tree).mkdir()
        own = {"etc": "/etc", "opt": "/opt", "lib": "/var/lib", "etc-hosts": "/etc/hosts"}
        for mine, where in own.items():
            self.follow(f"mount --bind '{home / mine}' {where}")

    def follow(self, commands: str) -> None:
        """Run what ends; start what serves, and wait until it does."""
        serves = re.search(rf"^\S*/({'|'.join(DAEMONS)}) .*", commands, re.MULTILINE | re.DOTALL)
        if serves is not None:
            assert self.start(f"exec {serves[0]}").first.startswith("listening ")
            return
        done = self.host.run("sh", "-ec", commands, **self._variables)
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"

    def start(self, commands: str) -> Process:
        """Start what serves, in the host's home, and return it once it has printed a line."""
        return self.host.start("sh", "-ec", f'cd "$HOME"\n{commands}', **self._variables)


def unreadable(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not os.access(Path(folder, name), os.R_OK)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel of this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture
def machines(wheel: Path, tmp_path: Path) -> Iterator[dict[str, Machine]]:
    """Three hosts with Python and Java, the last with a Python that has PySpark."""
    java = java_home_for_spark(cache_folder())
    usual = f"{Path(sys.base_prefix) / 'bin'}:{java / 'bin'}:{os.environ['PATH']}"
    variables = {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": f"{WHEELS} {wheel}",
        "PATH": usual,
        "JAVA_HOME": str(java),
    }
    with ExitStack() as made:
        network = Network(tmp_path)
        made.callback(network.close)
        found = {name: Machine(network, name, variables) for name in ("hub-1", "meta-1")}
        libraries = tmp_path / "libraries"
        libraries.mkdir()
        for name in ("pyspark", "py4j"):
            (libraries / name).symlink_to(Path(sysconfig.get_path("purelib"), name))
        variables["PATH"] = f"/opt/driver/bin:{libraries}/pyspark/bin:{usual}"
        found["spark-1"] = Machine(network, "spark-1", variables)
        found["spark-1"].follow(
            "python3 -m venv /opt/driver\n"
            f'python3 -c "from sysconfig import get_path; '
            f"open(get_path('purelib') + '/spark.pth', 'w').write('{libraries}')\""
        )
        yield found


@pytest.mark.usefixtures("hive")  # it fetches what a metastore needs
def test_page_leads_from_three_empty_hosts_to_a_driver_that_is_fresh(
    machines: dict[str, Machine], tmp_path: Path
) -> None:
    folder = tmp_path / "metastore"
    metastore = machines["meta-1"].start(
        f"export XDG_CACHE_HOME='{cache_folder().parent}'\n"
        f"exec {sys.executable} -m topicast.cli.main metastore start --port=0 --folder={folder}"
    )
    ready = read_ready(metastore.first)
    port = ready["uri"].rpartition(":")[2]
    machines["meta-1"].start(
        f"exec {sys.executable} -m topicast.tests.net.forwarder 9083=127.0.0.1:{port}"
    )
    app = APP.format(warehouse=ready["warehouse"])
    (machines["spark-1"].host.folder / "app.py").write_text(app, encoding="utf-8")
    steps = blocks()
    assert {block.host for block in steps} == set(HOSTS)
    *before, last = steps
    assert "spark-submit app.py" in last.text
    for block in before:
        machines[block.host].follow(block.text)
        if "keys add" in block.text:
            bring_keys(machines)

    with (
        closing(Ordered(machines["spark-1"], last.text, tmp_path / "reads")) as reader,
        closing(Ordered(machines["spark-1"], last.text, tmp_path / "writes")) as writer,
    ):
        keeps_fresh(reader, writer)


def keeps_fresh(reader: "Ordered", writer: "Ordered") -> None:
    writer.do("CREATE TABLE orders (id INT) USING parquet")
    writer.do("INSERT INTO orders VALUES (1)")
    assert reader.do("SELECT * FROM orders") == "[(1,)]"
    writer.do("INSERT INTO orders VALUES (2)")
    until(lambda: reader.do("SELECT * FROM orders") == "[(1,), (2,)]", what="the new row")
    writer.do("INSERT OVERWRITE orders VALUES (3)")
    assert reader.do("SELECT * FROM orders") == "[(3,)]"


class Ordered:
    """An application that runs the SQL that it is ordered to, from a pipe."""

    def __init__(self, machine: Machine, commands: str, pipe: Path) -> None:
        os.mkfifo(pipe)
        self._process = machine.start(f"export ORDERS='{pipe}'\n{commands}")
        self._orders = pipe.open("w", buffering=1, encoding="utf-8")

    def do(self, line: str) -> str:
        """Run one statement; return its rows. spark-submit mixes both outputs."""
        self._orders.write(f"{line}\n")
        while not (answer := self._process.read()).startswith("["):
            pass
        return answer

    def close(self) -> None:
        self._orders.close()


def bring_keys(machines: dict[str, Machine]) -> None:
    """Copy key files as the page says it in words."""
    folders = {name: machine.host.folder for name, machine in machines.items()}
    made = folders["meta-1"] / "etc" / "topicast"
    for name, where in (
        ("statestored.key", folders["hub-1"] / "lib" / "topicast" / "keys"),
        ("etl.key", folders["spark-1"] / "etc" / "topicast"),
    ):
        where.mkdir(mode=0o700, parents=True)
        shutil.move(made / name, where / name)

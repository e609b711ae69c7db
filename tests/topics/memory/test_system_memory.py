"""What a share of the memory is a share of, in groups as Linux shows them."""

import os
from pathlib import Path

import pytest

from topicast.topics.errors import ConfigError
from topicast.topics.memory.system_memory import limit_of, usable_bytes

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
V2 = "30 24 0:26 {top} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "36 32 0:31 {top} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
OTHER = (
    "37 32 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n22 1 8:1 / / rw - ext4 /dev/a rw\n"
)


def machine(root: Path, *, cgroup: str, mounts: str, limits: dict[str, str]) -> Path:
    """Write what the kernel would show; ``limits``: by file."""
    files = {"proc/self/cgroup": cgroup, "proc/self/mountinfo": mounts + OTHER, **limits}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("cgroup", "mounts", "limits", "expected"),
    [
        pytest.param(
            "0::/\n",
            V2.format(top="/"),
            {"sys/fs/cgroup/memory.max": "1000\n"},
            1000,
            id="a container that sees its own group as the top",
        ),
        pytest.param(
            "0::/pods/driver\n",
            V2.format(top="/"),
            {
                "sys/fs/cgroup/pods/memory.max": "3000\n",
                "sys/fs/cgroup/pods/driver/memory.max": "max\n",
            },
            3000,
            id="a parent's limit counts where there is none of its own",
        ),
        pytest.param(
            "0::/pods/driver\n",
            V2.format(top="/"),
            {
                "sys/fs/cgroup/pods/memory.max": "3000\n",
                "sys/fs/cgroup/pods/driver/memory.max": "2000\n",
            },
            2000,
            id="the least limit counts",
        ),
        pytest.param(
            "4:memory:/docker/ab\n1:cpu:/docker/ab\n0::/\n",
            V1.format(top="/docker/ab"),
            {"sys/fs/cgroup/memory/memory.limit_in_bytes": "4096\n"},
            4096,
            id="version 1, mounted from the container's group",
        ),
        pytest.param(
            "4:cpu,memory:/user\n0::/\n",
            V1.format(top="/"),
            {
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/user/memory.limit_in_bytes": "5000\n",
            },
            5000,
            id="version 1, a group below the top",
        ),
        pytest.param("0::/\n", V2.format(top="/"), {}, MACHINE, id="no limit"),
        pytest.param("", "", {}, MACHINE, id="no groups"),
    ],
)
def test_share_is_of_what_the_groups_of_the_process_allow(
    cgroup: str, mounts: str, limits: dict[str, str], expected: int, tmp_path: Path
) -> None:
    assert usable_bytes(machine(tmp_path, cgroup=cgroup, mounts=mounts, limits=limits)) == expected


def test_share_is_of_the_machine_where_linux_shows_nothing(tmp_path: Path) -> None:
    assert usable_bytes(tmp_path) == MACHINE


def test_limit_is_a_size_or_a_share_of_what_the_process_may_use() -> None:
    assert limit_of(None) is None
    assert limit_of("3GB") == 3 << 30
    assert limit_of("50%") == usable_bytes() // 2
    with pytest.raises(ConfigError, match="mem_limit"):
        limit_of("much")

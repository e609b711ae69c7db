"""Spellings: the paths that Hadoop's configuration makes equal (name services, viewfs mounts).

    viewfs://lake/w/t ──mount table──▶ hdfs://ns/warehouse/w/t ──name service──▶ hdfs://nn1:8020/…

The metastore may have any of these as the location of a table. Only drivers have the configuration,
so that a driver reports a written path in each spelling. catalogd knows which schemes are one
store, and their default ports (catalog/ingest/writes/locations.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

SPELLINGS_MAX: Final = 8  # of one path: a driver reports each, and catalogd looks each up

_MOUNTS: Final = "fs.viewfs.mounttable."
_LINK: Final = ".link."
_SERVICES: Final = "dfs.nameservices"
_NODES: Final = "dfs.ha.namenodes."
_ADDRESS: Final = "dfs.namenode.rpc-address."
_PORT: Final = ":8020"

Settings = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Spellings:
    """Finds the other ways to write a path.

    ``services``: for each name service the authorities that reach it, its own name included.
    ``mounts``: pairs of a folder in a mount table, and the folder that it stands for.
    """

    services: tuple[frozenset[str], ...] = ()
    mounts: tuple[tuple[str, str], ...] = ()

    def of(self, path: str) -> tuple[str, ...]:
        """Return ``path``, and after it the other ways to write it; at most SPELLINGS_MAX."""
        found = [path]
        for one in found:  # the loop itself appends to ``found``: a spelling may have more of them
            others = (*self._by_services(one), *self._by_mounts(one))
            found += [other for other in dict.fromkeys(others) if other not in found]
            if len(found) >= SPELLINGS_MAX:
                break
        return tuple(found[:SPELLINGS_MAX])

    def _by_services(self, path: str) -> Iterator[str]:
        scheme, _, rest = path.partition("://")
        authority, slash, below = rest.partition("/")
        if scheme.lower() != "hdfs":
            return
        for service in self.services:
            if authority.lower() in service or authority.lower() + _PORT in service:
                yield from (f"hdfs://{one}{slash}{below}" for one in sorted(service))

    def _by_mounts(self, path: str) -> Iterator[str]:
        path = _without_authority(path)
        for view, target in self.mounts:
            for here, there in ((view, target), (target, view)):
                if path == here or path.startswith(here + "/"):
                    yield there + path[len(here) :]


def spellings_of(settings: Settings) -> Spellings:
    """Return the spellings by Hadoop's ``settings``: those of mount tables and of HDFS."""
    mounts = []
    for key, value in sorted(settings.items()):
        name, link, folder = key.removeprefix(_MOUNTS).partition(_LINK)
        if key.startswith(_MOUNTS) and link:
            mounts.append(
                (f"viewfs://{name}{folder.rstrip('/')}", _without_authority(value.rstrip("/")))
            )
    services = []
    for service in _words(settings.get(_SERVICES, "")):
        nodes = _words(settings.get(_NODES + service, ""))
        keys = [f"{_ADDRESS}{service}.{node}" for node in nodes] or [_ADDRESS + service]
        addresses = [settings[key].lower() for key in keys if settings.get(key)]
        services.append(frozenset({service.lower(), *addresses}))
    return Spellings(tuple(services), tuple(mounts))


def spellings_in(hadoop: Any) -> Spellings:
    """Return the spellings by ``hadoop``, a Configuration of the JVM. Cost: some milliseconds."""
    return spellings_of(
        {
            f"{prefix}{key}": str(value)
            for prefix in (_MOUNTS, _SERVICES, _NODES, _ADDRESS)
            for key, value in dict(hadoop.getPropsWithPrefix(prefix)).items()
        }
    )


def path_of(uri: str) -> str:
    """Return the path in ``uri``, without scheme, authority, and slash at the end."""
    _, colon, rest = uri.partition("://")
    if colon:
        return "/" + rest.partition("/")[2].rstrip("/")
    return uri.removeprefix("file:").rstrip("/")


def _without_authority(uri: str) -> str:
    """Return ``file:/x`` for ``file:///x``, and anything else as it is."""
    return f"file:{uri.removeprefix('file://')}" if uri.startswith("file:///") else uri


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]

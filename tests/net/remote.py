"""Remote: Python in a host of a test: evaluates an expression a line, and answers in JSON.

The names of the expressions are those of the modules ``reading`` and ``writing``, below.
"""

import json
import sys
from pathlib import Path
from typing import Any

from topicast.tests.net.namespaces import Host, Process, python


class Remote:
    """A process of this module in ``host``; ``setup`` is run there first, once."""

    def __init__(self, host: Host, setup: str, **environment: str) -> None:
        self._process: Process = host.start(*python(__name__, setup), **environment)

    def get(self, expression: str) -> Any:
        """Return the value of an expression there.

        Raises:
            RemoteError: it raised an error; has its text.
        """
        self._process.write(expression)
        answer = json.loads(self._process.read())
        if "error" in answer:
            raise RemoteError(answer["error"])
        return answer["value"]

    def end(self) -> None:
        self._process.end()


class RemoteError(Exception):
    """An expression raised an error in its process."""


def main(setup: str) -> None:
    names: dict[str, Any] = {"Path": Path}
    exec(setup, names)
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            answer = {"value": eval(line, names)}
        except Exception as error:  # noqa: BLE001 - the test receives it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

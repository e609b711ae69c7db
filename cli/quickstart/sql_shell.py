"""Reads the output of a spark-sql as answers to queries of one value each. Pure.

question ──▶ standard input        rows, errors ──take──▶ the answer, after the line behind it
"""

import re
from typing import Final

_MARK: Final = ("-- answered ", "--")  # in two parts: a line that is typed may be printed, too
_PROMPT: Final = "spark-sql"
_ERROR: Final = re.compile(r"(?:Error in query: )?\[([A-Z_.]+)\]")


def question(query: str) -> str:
    """Return what is typed for an answer to ``query``, and a line behind it."""
    return f"{query};\nSELECT concat('{_MARK[0]}', '{_MARK[1]}');"


class SqlShell:
    """The answers of one process, to one question at a time."""

    def __init__(self) -> None:
        self._row = ""  # the first row
        self._error = ""  # its name in Spark
        self._has_ended = False  # the line behind the answer was printed

    def take(self, line: str, *, error: bool) -> str:
        """Return the answer with the last line of it, a row or the name of an error; else nothing.

        ``error``: the line is of standard error, which may come behind those after it.
        """
        if error:
            found = _ERROR.match(line)
            self._error = found[1] if found else self._error
        elif line == "".join(_MARK):
            self._has_ended = True
        elif not line.startswith(_PROMPT) and not line.endswith(";"):
            self._row = self._row or line
        answer = self._row or self._error
        if not self._has_ended or not answer:
            return ""
        self._row, self._error, self._has_ended = "", "", False
        return answer

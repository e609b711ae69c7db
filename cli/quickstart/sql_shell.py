"""Reads the output of a spark-sql as answers to queries of one value each. Pure.

question ──▶ standard input        rows, errors ──take──▶ the answer, once the mark follows it
"""

import re
from typing import Final

_MARK: Final = ("-- answered ", "--")  # in two parts, because the shell may print its input, too
_PROMPT: Final = "spark-sql"
_ERROR: Final = re.compile(r"(?:Error in query: )?\[([A-Z_.]+)\]")


def question(query: str) -> str:
    """Return the input for an answer to ``query``, with the mark after it."""
    return f"{query};\nSELECT concat('{_MARK[0]}', '{_MARK[1]}');"


class SqlShell:
    """The answers of one process, to one question at a time."""

    def __init__(self) -> None:
        self._row = ""  # the first row of the answer
        self._error = ""  # the name of the error in Spark
        self._has_ended = False  # whether the mark was printed

    def take(self, line: str, *, error: bool) -> str:
        """Take a line; return the answer, a row or the name of an error, once it is complete.

        ``error``: the line is of standard error, and may come later than lines after it.
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

"""Tokens: the words of a filter, read one after the other; errors name the place of a word."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from ...errors import UsageError

LENGTH_MAX: Final = 1 << 20  # characters of a filter; Spark sends lists of thousands of values
DEPTH_MAX: Final = 100  # of parentheses; Spark nests a pair for each "or"
SHOWN_MAX: Final = 200  # characters of a filter in an error
REST_MAX: Final = 20  # characters of what is not understood of it


class Token(NamedTuple):
    """``kind``: text, date, number, word, end; a keyword or a sign is its own kind."""

    kind: str
    text: str
    at: int


class Tokens:
    """The words of a filter, and how far it has been read."""

    def __init__(self, text: str, pattern: re.Pattern[str], keywords: frozenset[str]) -> None:
        """``pattern`` matches any token, in a group of its kind; ``end`` at the end.

        Raises:
            UsageError: ``text`` is too long, or has what ``pattern`` does not match.
        """
        if len(text) > LENGTH_MAX:
            raise UsageError(f"a filter of {len(text)} characters, {LENGTH_MAX} allowed")
        self._text = text
        self._tokens = list(self._split(pattern, keywords))
        self._at = 0  # the index of the next token
        self._depth = 0  # how many parentheses are open

    @property
    def kind(self) -> str:
        """The kind of the next token."""
        return self._tokens[self._at].kind

    @property
    def kind_after(self) -> str:
        """The kind of the token after the next token."""
        return self._tokens[self._at : self._at + 2][-1].kind

    def is_word(self, word: str) -> bool:
        """Return whether the next token is ``word``, in any case, and no keyword."""
        token = self._tokens[self._at]
        return token.kind == "word" and token.text.lower() == word

    def take(self) -> Token:
        """Return the next token, and move past it."""
        self._at += 1
        return self._tokens[self._at - 1]

    def took(self, kind: str) -> bool:
        """Move past the next token if it is of this kind; tell whether it was."""
        if self.kind != kind:
            return False
        self._at += 1
        return True

    def expect(self, kind: str, wanted: str) -> Token:
        """Return the next token, which is of this kind, and move past it."""
        if self.kind != kind:
            raise self.wrong(wanted)
        return self.take()

    def enter(self) -> None:
        """Note that one more parenthesis is open."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise UsageError(f"filter {shown(self._text)} nests deeper than {DEPTH_MAX}")

    def leave(self) -> None:
        """Note that a parenthesis is closed."""
        self._depth -= 1

    def wrong(self, wanted: str, *, back: int = 0) -> UsageError:
        """Return the error that at the next token, or ``back`` before it, ``wanted`` is missing."""
        token = self._tokens[self._at - back]
        found = "it ends" if token.kind == "end" else f"{shown(token.text)} stands"
        return UsageError(f"filter {shown(self._text)}: at {token.at} {found}, not {wanted}")

    def _split(self, pattern: re.Pattern[str], keywords: frozenset[str]) -> Iterator[Token]:
        pos, kind = 0, ""
        while kind != "end":
            found = pattern.match(self._text, pos)
            if found is None:
                rest = self._text[pos:].lstrip()
                where = f"at {len(self._text) - len(rest)}: {shown(rest[:REST_MAX])}"
                raise UsageError(f"filter {shown(self._text)} is not understood {where}")
            kind = found.lastgroup or "end"
            token, pos = found[kind], found.end()
            if kind == "sign" or (kind == "word" and token.lower() in keywords):
                kind = token.lower()
            yield Token(kind, token, pos - len(token))


def shown(text: str) -> str:
    """Return ``text`` as an error shows it."""
    return repr(text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…")

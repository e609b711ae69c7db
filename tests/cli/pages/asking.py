"""What a page answers, without a web server: each call runs an event loop of its own."""

import asyncio
from collections.abc import Awaitable

from topicast.cli.pages import answers
from topicast.cli.pages.answers import Answer, Sources
from topicast.cli.pages.parts.grid import Query
from topicast.cli.pages.parts.page import Page, Parts


def answer(sources: Sources, target: str, *, accepts: str = "") -> Answer:
    """Return the answer to a request for ``target``."""
    return asyncio.run(answers.answer(sources, target, accepts=accepts))


def parts(page: Page, rest: str, query: Query) -> Parts:
    """Return the parts of a page, given the rest of its path and the query."""

    async def read() -> Parts:
        found = page.read(rest, query)
        return await found if isinstance(found, Awaitable) else found

    return asyncio.run(read())

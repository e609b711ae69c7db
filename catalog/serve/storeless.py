"""Storeless: the answers of catalogd while its store cannot be written.

    a question about catalogd's status ──▶ its answer, of the last status and the store's problem
    another about catalogd itself, an order ──▶ refused, with the problem and what to do
    all else ──▶ waits for the store

Nothing that the store lacks leaves: the last status was made when everything was stored.
"""

from collections.abc import Callable
from typing import Any

from ...topics.errors import StoreError
from ...topics.keys.clients import Client
from ...topics.wire.messages.answers import Inspected
from ...topics.wire.messages.fields import Message
from ...topics.wire.messages.questions import (
    CATALOG_ANSWERS,
    Order,
    Question,
    ReadEventLog,
    ReadTableStates,
)
from ...topics.wire.refusal import Refusal, refuse
from .dispatcher import role_fault
from .replies import RETRY_MS
from .visibility import visible_part


def answer_without_store(
    message: Message,
    client: Client,
    *,
    problem: StoreError,
    answer: Callable[[Question[Any]], Inspected],
) -> Message | None:
    """Return the answer to ``message``; None: it waits until the store is written again.

    ``answer``: of the last status.
    """
    if role_fault(client, type(message)):
        return None
    match message:
        case Order() | ReadEventLog() | ReadTableStates():
            why = str(problem)
            return refuse(Refusal.RETRY, why, request=message.request, retry_ms=RETRY_MS)
        case Question() if isinstance(message, CATALOG_ANSWERS):
            return visible_part(answer(message), client.policy)
        case _:
            return None

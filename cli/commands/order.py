"""Order: the commands that make catalogd do something."""

import time
from typing import Any

import click

from ..flags import budget_option, settings, statestores_option, timeout_option
from ..output import EXIT_CODES, Output, output_option
from .look import catalog_at


@click.command(context_settings=settings(), epilog=EXIT_CODES)
@statestores_option()
@budget_option()
@timeout_option()
@output_option()
def sync(output: str, timeout_s: float, **where: Any) -> None:
    """Wait until everything that the metastore had committed is visible to a reader here."""
    with catalog_at(timeout_s=timeout_s, **where) as catalog:
        begun = time.monotonic()
        catalog.sync(timeout_s=timeout_s)
        took_s = round(time.monotonic() - begun, 3)
    Output(output).document(
        {"synced": True, "took_s": took_s}, text=f"everything committed is visible ({took_s} s)"
    )

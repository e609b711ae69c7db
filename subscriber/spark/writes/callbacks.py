"""Callbacks: whether what the JVM calls in this process arrives, now and later.

The callback server is Spark's, and never shut down by us; but anybody may take it or end it.
"""

from typing import Any, Final

PROOF_S: Final = 5  # for a callback; it takes 1 ms
ONLY: Final = "only from Python"
DEAF: Final = f"{ONLY}: the JVM's callbacks do not arrive (Py4J's callback server)"


class Deaf(Exception):
    """What the JVM executes is not heard of; says why."""


class Callbacks:
    """Proves that they arrive."""

    def __init__(self) -> None:
        self._called: Any = None

    def prove(self, session: Any) -> None:
        """Start the callback server of this process, if nobody has, and prove that it is heard.

        While a callback waits for its answer no other is made: each holds a thread of the JVM.

        Raises:
            Deaf: callbacks do not arrive.
        """
        from pyspark import java_gateway

        java_gateway.ensure_callback_server_started(session._sc._gateway)  # type: ignore[no-untyped-call]  # PySpark's
        if self._called is not None and not self._called.isDone():
            raise Deaf(DEAF)
        proof, concurrent = _Proof(), session._jvm.java.util.concurrent
        try:  # on another thread of the JVM: on this one's it would take the call's way back
            self._called = concurrent.CompletableFuture.runAsync(proof)
            self._called.get(PROOF_S, concurrent.TimeUnit.SECONDS)
        except Exception as exc:
            raise Deaf(DEAF) from exc
        if not proof.heard:
            raise Deaf(DEAF)


class _Proof:
    """Knows whether it was called."""

    def __init__(self) -> None:
        self.heard = False

    def run(self) -> None:
        """Take that it was called."""
        self.heard = True

    class Java:
        """What it is in the JVM."""

        implements = ("java.lang.Runnable",)

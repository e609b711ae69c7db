"""A server that speaks the metastore's protocol with made-up answers, for what no real one does."""

import socket
import threading
from collections.abc import Callable
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer, TTransportBase

from topicast.topics.backports import Self


def reply(name: str, result: bytes) -> bytes:
    """A REPLY message with the bytes of a result struct."""
    buffer = TMemoryBuffer()
    TBinaryProtocol(buffer).writeMessageBegin(name, TMessageType.REPLY, 0)
    return bytes(buffer.getvalue()) + result


def refusal(name: str, kind: int = TApplicationException.UNKNOWN_METHOD) -> bytes:
    """An EXCEPTION message, by default that of a server without the method."""
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin(name, TMessageType.EXCEPTION, 0)
    TApplicationException(kind, f"Invalid method name: '{name}'").write(protocol)
    return bytes(buffer.getvalue())


class Socket(TTransportBase):
    """What the server reads requests from."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def read(self, sz: int) -> bytes:
        return self._connection.recv(sz)


class ThriftServer:
    """Answers each call by ``answers[name]()``: bytes, or None to hang up.

    A call it has no answer for gets ``otherwise(name)``, and is refused as an unknown method if
    nothing is said. ``called`` lists the calls.
    """

    def __init__(
        self,
        answers: dict[str, Callable[[], bytes | None]],
        *,
        otherwise: Callable[[str], bytes | None] = refusal,
    ) -> None:
        self._answers = answers
        self._otherwise = otherwise
        self.called: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in self._open:
            connection.close()
        self._thread.join()

    def hang_up(self) -> None:
        """Close every connection, as a server that restarts does."""
        for connection in self._open:
            connection.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        protocol: Any = TBinaryProtocol(Socket(connection))
        while True:
            try:
                name, _, _ = protocol.readMessageBegin()
                protocol.skip(TType.STRUCT)
            except (OSError, EOFError):
                return
            self.called.append(name)
            known = self._answers.get(name)
            answer = known() if known else self._otherwise(name)
            try:
                if answer is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(answer)
            except OSError:  # whoever asked is gone, or this server is
                return

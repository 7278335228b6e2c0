"""Length-prefixed messages between the agent and its own helper processes.

Both ends run the same interpreter, so the body is `marshal`: no import, no schema, built-in types
only (tuples, lists, dicts, str, bytes, int, float, bool, None). Helpers are started by the agent
from its own installation; nothing from the network or from a probe is ever read this way.
"""

from __future__ import annotations

import marshal

TYPE_CHECKING = False  # `typing` costs a helper process 1.5 MB
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

FRAME_LIMIT: Final = 16 * 1024 * 1024
"""Longest body, in bytes, unless a Decoder is told otherwise."""

HEADER: Final = 4
_VERSION: Final = 4


class FrameError(Exception):
    """The bytes of the peer are no frames: the connection cannot be read any further."""


def encode(message: Any) -> bytes:
    """One frame: 4 bytes of length (little-endian), then the body.

    Raises FrameError where `message` holds something else than built-in types, or is too long.
    """
    try:
        body = marshal.dumps(message, _VERSION)
    except ValueError as error:
        raise FrameError(f"cannot be sent: {error}") from None
    if len(body) > FRAME_LIMIT:
        raise FrameError(f"a message of {len(body)} bytes; at most {FRAME_LIMIT}")
    return len(body).to_bytes(HEADER, "little") + body


class Decoder:
    """Takes bytes as they come and gives back whole messages, within a bound on memory."""

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Bytes of a message that is not complete yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Any]:
        """Add `data`; give each message that is now complete, in order.

        The bytes are taken when the iterator is consumed. Raises FrameError for a length over
        the limit or a body that is not one message.
        """
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= HEADER:
                length = int.from_bytes(self._buffer[start : start + HEADER], "little")
                if length > self._limit:
                    raise FrameError(f"a message of {length} bytes; at most {self._limit}")
                end = start + HEADER + length
                if len(self._buffer) < end:
                    break
                body = bytes(self._buffer[start + HEADER : end])
                start = end
                yield _load(body)
        finally:
            del self._buffer[:start]


def _load(body: bytes) -> Any:
    try:
        return marshal.loads(body)
    except (ValueError, EOFError, TypeError) as error:
        raise FrameError(f"a body that is no message: {error}") from None

"""Messages to bytes and back (msgpack), with the protocol version each side may use."""

from typing import TypeVar

import msgspec

from dynres.wire.messages import OLDEST, VERSION, FromAgent, FromController, Hello

_FROM_AGENT: msgspec.msgpack.Decoder[FromAgent] = msgspec.msgpack.Decoder(FromAgent)
_FROM_CONTROLLER: msgspec.msgpack.Decoder[FromController] = msgspec.msgpack.Decoder(FromController)
_ENCODER = msgspec.msgpack.Encoder()
T = TypeVar("T")


class WireError(ValueError):
    """Bytes that are not a message of this protocol; the text says what was wrong."""


def encode(message: msgspec.Struct) -> bytes:
    """One message as msgpack bytes."""
    return _ENCODER.encode(message)


def decode(decoder: msgspec.msgpack.Decoder[T], body: bytes | memoryview) -> T:
    """Decode and validate. Raises WireError for everything that is not such a message."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(str(error)) from error


def from_agent(body: bytes | memoryview) -> FromAgent:
    """A message of an agent. Raises WireError."""
    return decode(_FROM_AGENT, body)


def from_controller(body: bytes | memoryview) -> FromController:
    """A message of the controller. Raises WireError."""
    return decode(_FROM_CONTROLLER, body)


def choose_version(hello: Hello) -> int | None:
    """The newest protocol version that both sides speak; None where there is none."""
    version = min(hello.newest, VERSION)
    return version if version >= max(hello.oldest, OLDEST) else None

"""What reading a folder gives, as bytes from the short-lived reader to the agent."""

import msgspec

from dynres.config.faults import Fault
from dynres.config.model import Configuration, Struct


class Loaded(Struct, frozen=True, kw_only=True):
    """A valid folder."""

    configuration: Configuration
    warnings: tuple[Fault, ...] = ()


class LoadResult(Struct, frozen=True, kw_only=True):
    """A valid folder, or its faults."""

    configuration: Configuration | None = None
    warnings: tuple[Fault, ...] = ()
    faults: tuple[Fault, ...] = ()


def write_result(result: LoadResult) -> bytes:
    """The result as bytes."""
    return msgspec.msgpack.encode(result)


def read_result(data: bytes) -> LoadResult:
    """The result from bytes. Raises msgspec.MsgspecError when they are none."""
    return msgspec.msgpack.decode(data, type=LoadResult)

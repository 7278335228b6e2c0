"""Reads the records of utmp: who has logged in, on which terminal, in which process."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # for the size of the plugin host, as in `load`
if TYPE_CHECKING:
    from typing import Final

    Record = tuple[str, str, int]
    """User name, terminal below /dev (may be empty), process id."""

_SIZES: Final = {"x86_64": 384, "aarch64": 400}
"""Bytes of a record; of other machines psutil knows it, for 3.6 MB."""
_USER_PROCESS: Final = 7
_PID, _LINE, _USER = slice(4, 8), slice(8, 40), slice(44, 76)


def logins(path: str) -> list[Record]:
    """The logins that the file holds. Raises OSError."""
    with open(path, "rb", buffering=0) as file:
        data = file.read()
    size = _SIZES.get(os.uname().machine) if sys.maxsize > 2**32 else None
    if size is None or len(data) % size:
        return _by_psutil()
    records = [data[at : at + size] for at in range(0, len(data), size)]
    return [_login(record) for record in records if _number(record[:2]) == _USER_PROCESS]


def _login(record: bytes) -> Record:
    return _text(record[_USER]), _text(record[_LINE]), _number(record[_PID])


def _number(field: bytes) -> int:
    return int.from_bytes(field, sys.byteorder, signed=True)


def _text(field: bytes) -> str:
    return os.fsdecode(field.partition(b"\0")[0])


def _by_psutil() -> list[Record]:
    import psutil

    return [(user.name, user.terminal or "", int(user.pid or 0)) for user in psutil.users()]

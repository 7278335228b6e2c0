"""Who is logged in: how many people, how many logins, their names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from dynres.probe import ProbeError
from dynres_probes.logins import Login, Logins

What = Literal["users", "logins", "names"]
_LONGEST: Final = 1000


@dataclass(frozen=True, slots=True)
class Options:
    """What is told, and who does not count."""

    what: tuple[What, ...] = ("users",)
    ignore: tuple[str, ...] = ()
    """Users that do not count, such as root."""

    def __post_init__(self) -> None:
        """Refuse options that can give nothing."""
        if not self.what:
            raise ValueError("what: at least one")


class Users:
    """Values named after `what`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._logins = Logins()

    def read(self) -> dict[str, float | str]:
        """One run. ProbeError when the machine does not tell."""
        try:
            logins = self._logins.read()
        except OSError as error:
            raise ProbeError(f"who is logged in cannot be read: {error}") from None
        return measure(logins, self._options)


def measure(logins: Sequence[Login], options: Options) -> dict[str, float | str]:
    """Distinct users, logins, and names in order of the alphabet, separated by blanks."""
    counted = [login for login in logins if login.user not in options.ignore]
    names = sorted({login.user for login in counted})
    values: dict[str, float | str] = {
        "users": float(len(names)),
        "logins": float(len(counted)),
        "names": _short(" ".join(names)),
    }
    return {what: values[what] for what in options.what}


def _short(text: str) -> str:
    """At most as long as a string value may be, cut between two names."""
    return text if len(text) <= _LONGEST else text[:_LONGEST].rpartition(" ")[0] + " …"

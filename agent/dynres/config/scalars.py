"""The tree that a YAML file becomes: text exactly as written, each piece knowing its place."""

from dataclasses import dataclass
from typing import TypeAlias

from dynres.config.model import Place


class Scalar(str):
    """One scalar as it stands in the file: never a guess at a type, only text."""

    __slots__ = ("_column", "_file", "_line", "plain")

    plain: bool
    """Written without quotes (and not as a block)."""
    _file: str
    _line: int
    _column: int

    @classmethod
    def at(cls, text: str, file: str, line: int, column: int, *, plain: bool = True) -> "Scalar":
        """A scalar at line and column, both counted from 1."""
        made = cls(text)
        made._file, made._line, made._column, made.plain = file, line, column, plain
        return made

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(self._file, self._line, self._column)

    @property
    def text(self) -> str:
        """The text as a plain `str`."""
        return str.__str__(self)

    @property
    def missing(self) -> bool:
        """Nothing was written: `key:` and then the end of the line."""
        return self.plain and not self


class Map(dict[str, "Scalar | Map | Items"]):
    """A mapping; its keys are `Scalar` too, so that a fault can point at a key."""

    __slots__ = ("place", "size")

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.size = 1

    def key(self, name: str) -> Scalar | None:
        """The key as it was written, with its place."""
        return next((k for k in self if k == name and isinstance(k, Scalar)), None)

    def mend(self, name: str, meant: str | None) -> None:
        """Let the unknown key `name` be `meant` where that is not there; else drop it."""
        key = self.key(name)
        if key is None:
            return
        value = self.pop(key)
        if meant is not None and meant not in self:
            place = key.place
            self[Scalar.at(meant, place.file, place.line, place.column)] = value

    def place_of(self, name: str) -> Place:
        """Where the value of `name` stands; without such a key, where the mapping begins."""
        value = self.get(name)
        return self.place if value is None else value.place


class Items(list["Scalar | Map | Items"]):
    """A list."""

    __slots__ = ("place", "size")

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.size = 1


@dataclass(frozen=True, slots=True)
class Document:
    """One file that could be read: its name as faults print it, and its tree (None: no node)."""

    file: str
    root: "Scalar | Map | Items | None"


Node: TypeAlias = Scalar | Map | Items

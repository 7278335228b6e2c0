"""Which files of a configuration folder are read, and what is wrong with those that cannot be."""

import os
import stat
from pathlib import Path
from typing import Final

from dynres.config.document import FILE_LIMIT, read_document
from dynres.config.faults import Fault
from dynres.config.model import Place
from dynres.config.scalars import Document

RESOURCES: Final = "resources.yaml"
DROP_INS: Final = "resources.d"


class Folder:
    """Reads files of one folder and gathers the faults of those that cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[Fault] = []
        self.present: set[str] = set()
        """Files that are there, readable or not."""

    def usable(self) -> bool:
        """Whether the folder is there; a fault is noted when it is not."""
        try:
            is_folder = stat.S_ISDIR(self.path.stat().st_mode)
        except (OSError, ValueError) as error:
            self._fault(
                str(self.path),
                "configuration folder",
                "a folder with resources.yaml",
                _reason(error),
                "name one with --config DIR",
            )
            return False
        if not is_folder:
            self._fault(
                str(self.path),
                "configuration folder",
                "a folder with resources.yaml",
                "a file",
                "name its folder",
            )
        return is_folder

    def resources(self) -> list[Document]:
        """resources.yaml, then resources.d/*.yaml and *.yml by name."""
        main = self.read(RESOURCES, required=True)
        documents = [main] if main else []
        for name in self._drop_ins():
            document = self.read(f"{DROP_INS}/{name}", required=True)
            documents += [document] if document else []
        return documents

    def _drop_ins(self) -> list[str]:
        try:
            names = [entry.name for entry in (self.path / DROP_INS).iterdir()]
        except FileNotFoundError:
            if (self.path / DROP_INS).is_symlink():
                self._fault(DROP_INS, "folder", "a folder", "a link to nothing", "remove the link")
            return []
        except NotADirectoryError:
            self._fault(DROP_INS, "folder", "a folder", "a file", "move it into the folder")
            return []
        except OSError as error:
            self._fault(DROP_INS, "folder", "a readable folder", _reason(error))
            return []
        return sorted(n for n in names if n.endswith((".yaml", ".yml")) and n[0] not in ".#~")

    def read(self, name: str, *, required: bool = False) -> Document | None:
        """The tree of one file; None when it is absent (a fault when required) or faulty."""
        before = len(self.faults)
        data = self._bytes(name, required=required)
        if data is not None or (len(self.faults) > before and not required):
            self.present.add(name)
        if data is None:
            return None
        if not data.strip(b"\xef\xbb\xbf \t\r\n"):
            self._fault(name, "file is empty", "settings", "nothing", "fill it, or remove it")
            return None
        document, faults = read_document(data, name)
        self.faults += faults
        return document

    def _bytes(self, name: str, *, required: bool) -> bytes | None:
        path = self.path / name
        try:
            # O_NONBLOCK: opening a FIFO must not wait for a writer.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            if path.is_symlink():
                got = f"a link to {path.readlink()}, which is not there"
                self._fault(name, "file", "a file", got, "mend or remove the link")
            elif required:
                self._fault(name, "file", "a file", "no such file", f"create {path}")
            return None
        except OSError as error:
            self._fault(name, "file", "a readable file", _reason(error), _remedy(error))
            return None
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            got = "a folder" if stat.S_ISDIR(mode) else "no regular file"
            self._fault(name, "file", "a file", got)
            return None
        with open(descriptor, "rb") as file:
            try:
                return file.read(FILE_LIMIT + 1)
            except OSError as error:
                self._fault(name, "file", "a readable file", _reason(error))
                return None

    def _fault(
        self, name: str, what: str, expected: str, got: str, hint: str | None = None
    ) -> None:
        place = Place(name, 1, 1)
        fault = Fault(place=place, what=what, expected=expected, got=got, hint=hint)
        self.faults.append(fault)


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)


def _remedy(error: OSError) -> str | None:
    return "let dynres's user read it" if isinstance(error, PermissionError) else None

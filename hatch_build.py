"""Compiles the one C file of dynres, where there is a C compiler; else Python does the same."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

MODULE = "dynres.worker._plain"
SOURCE = Path("agent/dynres/worker/_plain.c")


class CompileHook(BuildHookInterface):
    """Makes the wheel one for this Python and this machine, if the file could be compiled."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile beside the source, from where both kinds of wheel take it."""
        made = compiled(Path(self.root))
        if made is None:
            self.app.display_warning("dynres: no C compiler: large streams will cost more CPU")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"].append(f"/{made.relative_to(self.root)}")


def compiled(root: Path) -> Path | None:
    """The module, compiled anew; None: it cannot be, and an old one is gone."""
    for old in (root / SOURCE.parent).glob("_plain.*.so"):
        old.unlink()
    extension = Extension(MODULE, [str(root / SOURCE)], optional=True)
    command = build_ext(Distribution({"name": "dynres", "ext_modules": [extension]}))
    with tempfile.TemporaryDirectory() as folder:
        command.build_lib = command.build_temp = folder
        command.ensure_finalized()
        command.run()
        made = Path(command.get_ext_fullpath(MODULE))
        if not made.exists():
            return None
        return Path(shutil.copy(made, root / SOURCE.parent))

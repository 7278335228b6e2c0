"""Reads a folder in a process of its own and writes the result as bytes on descriptor 1."""

import os
import sys
from pathlib import Path

from dynres.config.faults import ConfigError
from dynres.config.load import load
from dynres.config.result import LoadResult, write_result


def main(arguments: list[str]) -> int:
    """`DIR --role agent|controller`; 0 also when the folder has faults: they are the result."""
    folder, role = arguments[0], arguments[2]
    try:
        loaded = load(Path(folder), "agent" if role == "agent" else "controller")
    except ConfigError as error:
        result = LoadResult(faults=error.faults)
    else:
        result = LoadResult(configuration=loaded.configuration, warnings=loaded.warnings)
    with os.fdopen(os.dup(1), "wb") as out:
        out.write(write_result(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

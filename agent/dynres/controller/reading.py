"""Reads the controller's folder in a child process, so that large files never hold up the loop."""

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Final

import msgspec

from dynres.config.faults import ConfigError, Fault
from dynres.config.result import Loaded, read_result

READING_TIME: Final = 60.0
"""Seconds that reading the folder may take."""


async def read_folder(folder: Path) -> Loaded:
    """The valid configuration of a folder. Raises ConfigError with every fault."""
    command = (sys.executable, "-P", "-m", "dynres.config", str(folder), "--role", "controller")
    child = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for us: we end it ourselves
    )
    try:
        async with asyncio.timeout(READING_TIME):
            data, _ = await child.communicate()
        result = read_result(data)
    except TimeoutError as error:
        raise _fault(f"{folder} could not be read within {READING_TIME:g} s") from error
    except msgspec.MsgspecError as error:
        how = f"exit status {child.returncode}"
        raise _fault(f"{folder} could not be read: its reader failed ({how})") from error
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    if result.configuration is None:
        raise ConfigError(result.faults)
    return Loaded(configuration=result.configuration, warnings=result.warnings)


def _fault(what: str) -> ConfigError:
    return ConfigError([Fault(place=None, what=what)])

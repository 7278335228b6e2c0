"""Runs `dynres` as a user does: as a process of its own."""

import os
import subprocess
import sys

import pytest

CLEAN = {key: text for key, text in os.environ.items() if not key.startswith(("DYNRES_", "COV"))}


@pytest.fixture
def dynres(tmp_path):
    """`dynres(*arguments, **environment)`: its exit code, stdout and stderr."""

    def run(*arguments, timeout=30, **environment):
        return subprocess.run(
            [sys.executable, "-m", "dynres", *map(str, arguments)],
            env=CLEAN | environment,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run

"""What the agent's process never imports, and that it works without."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    *("ssl", "_ssl", "_hashlib", "http", "http.client", "http.server", "email", "html"),
    *("urllib.request", "wsgiref", "wsgiref.simple_server", "prometheus_client.exposition"),
    *("argparse", "typing_extensions"),
    *("pydantic", "yaml", "ClusterShell", "psutil", "click", "rich", "numpy", "secrets", "hmac"),
}


def python(code: str) -> str:
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_agent_imports_nothing_that_it_never_needs():
    code = "from dynres.worker import lean; lean.keep_out()\nimport sys, dynres.worker.daemon\n"
    loaded = python(code + "print(*(name for name, module in sys.modules.items() if module))")
    assert set(loaded.split()) & HEAVY == set()


def test_hashes_are_the_same_without_openssl():
    code = (
        "import hashlib; from dynres.config.definition import digest;"
        "from dynres.config.builtin import resources;"
        "from dynres.worker.timetable import Cadence, Timetable;"
        "t = Timetable('h', 1); t.plan({'p': Cadence(10.0)}, 0.0, spread=True);"
        "print(hashlib.md5.__module__, digest(resources()[0]), t.next_at())"
    )
    without = python("from dynres.worker import lean; lean.keep_out()\n" + code).split()
    usual = python(code).split()
    assert without[1:] == usual[1:]
    assert without[0] != usual[0]


@pytest.mark.parametrize("missing", ["_md5", "_sha256"])
def test_where_python_has_not_all_hashes_itself_openssl_stays(missing):
    if sys.version_info >= (3, 12) and missing == "_sha256":
        missing = "_sha2"
    code = (
        "import sys; from dynres.worker import lean; found = lean._found;"
        f"lean._found = lambda name: name != {missing!r} and found(name); lean.keep_out();"
        "print('_hashlib' in sys.modules)"
    )
    assert python(code).strip() == "False"


def test_the_running_agent_is_lean(tmp_path: Path):
    """The module that `dynres agent` becomes begins with it, before asyncio is there."""
    code = "import runpy, sys; sys.argv[1:] = ['--help']\n"
    code += "try: runpy.run_module('dynres.worker', run_name='__main__')\n"
    code += "except SystemExit: print(sys.modules['ssl'])"
    assert python(code).splitlines()[-1] == "None"

"""Each example's README shows what its commands print: here they are run, and compared.

In a `console` block a line with `$` is a command, what follows is what it prints; `…` stands for
anything. A command that only looks is repeated until what has been measured meanwhile shows.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from cluster import Cluster, cluster, wait_for

EXAMPLES = Path(__file__).parents[2] / "examples"
LOOKS = ("dynres pools", "dynres values", "dynres hosts", "dynres explain", "dynres leases")
PATIENCE = 20.0


class Step(NamedTuple):
    """A command and the lines that it prints."""

    command: str
    prints: list[str]


def steps(page: str) -> Iterator[Step]:
    """The steps of all console blocks of a page, in order."""
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        step: Step | None = None
        for line in block.splitlines():
            if line.startswith("$ "):
                if step is not None:
                    yield step
                step = Step(line[2:], [])
            elif step is not None:
                step.prints.append(line)
        if step is not None:
            yield step


def folded(line: str) -> str:
    """A line without what makes its columns stand in line."""
    return re.sub(r"\s+", " ", line).strip()


def says(printed: str, lines: list[str]) -> bool:
    """Whether it printed these lines."""
    expected = "\n".join(re.escape(folded(line)).replace("…", ".*") for line in lines)
    return re.fullmatch(expected, "\n".join(map(folded, printed.splitlines()))) is not None


@contextmanager
def public_folder() -> Iterator[Path]:
    """A folder that probes can read, whoever they run as."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def shown(name: str, place: str, *hosts: str) -> Iterator[tuple[Cluster, str]]:
    """A cluster of an example, its files in a folder instead of at `place`; its README."""
    with public_folder() as folder, tempfile.TemporaryDirectory() as home:
        source = folder / "example"
        shutil.copytree(EXAMPLES / name, source)
        work = folder / "work"
        for file in (source / "resources.yaml", source / "README.md"):
            text = file.read_text().replace(f"examples/{name}", str(source))
            file.write_text(text.replace(place, str(work)))
        page = (source / "README.md").read_text()
        with cluster(source, Path(home)) as running:
            running.start_controller()
            first, rest = re.split(r"^```sh$", page, maxsplit=1, flags=re.MULTILINE)
            play(running, first)
            for host in hosts:
                running.start_agent(host)
            wait_for(lambda: len(running.ask("hosts")["hosts"]) == len(hosts), 30)
            yield running, rest


def play(running: Cluster, page: str) -> None:
    """Run the commands of a page; each must print what the page says."""
    bin_folder = str(Path(sys.executable).parent)
    env = {**os.environ, **running.env, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    for step in steps(page):
        until = time.monotonic() + (PATIENCE if step.command.startswith(LOOKS) else 0.0)
        while True:
            done = subprocess.run(
                ["/bin/bash", "-c", step.command],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
                check=False,
            )
            if says(done.stdout, step.prints):
                break
            if time.monotonic() > until:
                wanted = "\n".join(step.prints)
                raise AssertionError(f"$ {step.command}\n{done.stdout}\nexpected:\n{wanted}")
            time.sleep(0.2)


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        ("licences", ["login1"]),
        ("scratch", ["node1", "node2"]),
        ("static_replication", []),
    ],
)
def test_an_example_does_what_its_page_shows(name: str, hosts: list[str]) -> None:
    with shown(name, f"/tmp/dynres-{name}", *hosts) as (running, page):
        assert len(list(steps(page))) >= 4
        play(running, page)

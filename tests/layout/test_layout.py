"""The habits of the source tree that no linter holds: sizes, first sentences, who knows what."""

import ast
import re
import statistics
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {"dynres": ROOT / "agent/dynres", "dynres_probes": ROOT / "probes/dynres_probes"}
PRODUCT = sorted(path for folder in SOURCES.values() for path in folder.rglob("*.py"))
TESTS = sorted([*(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")])

PURE = [
    "worker/timetable",
    "worker/formats",
    "worker/reporter",
    "worker/latest",
    "wire/messages",
    "wire/codec",
    "controller/distribution",
    "controller/resvals",
    "controller/registry",
    "controller/pools",
    "controller/changes",
    "controller/history",
    "controller/folding",
    "config/covers",
    "config/definition",
]
IMPURE = {"asyncio", "zmq", "time", "logging", "os", "prometheus_client"}

ONLY_IN = {
    "zmq": {"wire/"},
    "prometheus_client": {"metrics.py"},
    "yaml": {"config/"},
    "pydantic": {"config/"},
    "ClusterShell": {"config/hosts.py"},
    "sqlite3": {"controller/ledger.py"},
    "numpy": {"controller/"},
    "click": {"cli/"},
    "rich": {"cli/"},
    "psutil": {"../../probes/dynres_probes/"},
}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, also inside functions; not those for types alone."""
    for node in walk_without_type_checking(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def walk_without_type_checking(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from walk_without_type_checking(child)


def module_file(name: str) -> Path | None:
    """The file of one of our modules; None for other names."""
    root, _, rest = name.partition(".")
    if root not in SOURCES or not rest:
        return None
    path = SOURCES[root].joinpath(*rest.split("."))
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.exists()), None)


@cache
def reached(path: Path) -> frozenset[str]:
    """All that is imported by a file and by our modules that it imports."""
    found: set[str] = set()
    todo, done = [path], set()
    while todo:
        here = todo.pop()
        if here in done:
            continue
        done.add(here)
        for name in imports(here):
            found.add(name.partition(".")[0])
            file = module_file(name)
            todo += [file] if file else []
    return frozenset(found)


def test_the_median_file_has_at_most_130_lines():
    sizes = [len(path.read_text().splitlines()) for path in PRODUCT if path.stat().st_size]
    assert statistics.median(sizes) <= 130


def test_no_file_has_more_than_400_lines():
    sizes = {shown(path): len(path.read_text().splitlines()) for path in [*PRODUCT, *TESTS]}
    assert {path: size for path, size in sizes.items() if size > 400} == {}


def test_no_function_has_more_than_40_lines():
    sizes = {
        f"{shown(path)}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in PRODUCT
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {place: size for place, size in sizes.items() if size > 40} == {}


def test_each_module_opens_with_one_sentence_that_says_what_it_does():
    wrong = {}
    for path in PRODUCT:
        first = " ".join((ast.get_docstring(tree(path)) or "").split("\n\n")[0].split())
        one = first.endswith(".") and not re.search(r"(?<!e\.g)(?<!i\.e)\. [A-Z]", first)
        if path.stat().st_size and not one:
            wrong[shown(path)] = first or "no docstring"
    assert wrong == {}


@pytest.mark.parametrize("name", PURE)
def test_pure_modules_know_neither_clock_nor_network_nor_process(name: str):
    path = SOURCES["dynres"] / f"{name}.py"
    if not path.exists():
        path = SOURCES["dynres"] / name / "__init__.py"
    assert reached(path) & IMPURE == frozenset()


@pytest.mark.parametrize("library", ONLY_IN)
def test_each_library_is_known_to_one_place_only(library: str):
    allowed = tuple(str((SOURCES["dynres"] / place).resolve()) for place in ONLY_IN[library])
    users = {p for p in PRODUCT if any(name.split(".")[0] == library for name in imports(p))}
    assert [shown(p) for p in users if not str(p.resolve()).startswith(allowed)] == []


def test_one_module_reads_yaml():
    users = [p for p in PRODUCT if any(name.split(".")[0] == "yaml" for name in imports(p))]
    assert len(users) <= 1


def test_the_long_lived_agent_process_does_not_know_what_its_memory_cannot_afford():
    heavy = {"pydantic", "yaml", "ClusterShell", "psutil", "click", "rich", "numpy"}
    assert reached(SOURCES["dynres"] / "worker/daemon.py") & heavy == frozenset()


def test_the_launcher_knows_next_to_nothing():
    known = reached(SOURCES["dynres"] / "worker/launcher.py")
    assert known & {"asyncio", "zmq", "msgspec", "logging", "subprocess", "typing"} <= {"typing"}


def test_one_broad_except_in_the_product_and_it_is_in_run():
    found = []
    for path in PRODUCT:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ExceptHandler):
                caught = ast.unparse(node.type) if node.type else "everything"
                if {"everything", "Exception", "BaseException"} & set(re.split(r"\W+", caught)):
                    found.append(f"{shown(path)}:{node.lineno}")
    assert [place for place in found if not place.startswith("agent/dynres/worker/run.py:")] == []
    assert len(found) <= 1


def test_only_the_command_line_prints():
    found = [
        f"{shown(path)}:{node.lineno}"
        for path in PRODUCT
        if "cli" not in path.relative_to(ROOT).parts
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
    ]
    assert found == []

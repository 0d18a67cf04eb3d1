"""The packages: which imports which, who reads the environment, and that importing does nothing."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.commands import finished

ROOT = Path(__file__).parents[2]
HOST, AGENT = "honeybadger_host", "honeybadger_agent"

# Packages and modules of the host from the top down: each may import what stands below it, never beside it.
LAYERS = [
    {"cli"},
    {"daemon", "web"},
    {"compose"},
    {"transfer", "cluster"},
    {"ops"},
    {"spool", "handlers"},
    {"curation", "context"},
    {"observe"},
    {"search"},
    {"work"},
    {"handler_kinds"},
    {"agents", "models"},
    {"memory"},
    {"documents"},
    {"journal"},
    {"files"},
    {"text"},
    {"configuration"},
    {"settings"},
    {"errors", "log", "threads"},
]
# What the host may take from the agents' package.
FROM_AGENT = {"quoting", "wire", "mailbox", "home", "wording", "sender_tokens"}
# Package -> what it may take besides: the host runs agents, and both programs print results the same way.
FOR_TURNS = {
    "handlers": {"client", "errors", "models", "tools", "turn"},
    "curation": {"models", "turn"},
    "agents": {"tools"},
    "models": {"models"},
    "ops": {"hooks", "models"},
    "transfer": {"hooks"},
    "cli": {"cli", "errors"},
    "cluster": {"relay"},
    "web": {"client", "errors", "exchange", "tools"},
}

PURE = [
    *(
        "work.times",
        "text.neutralise",
        "text.turn",
        "handler_kinds",
        "memory.markdown.notes",
        "memory.markdown.notes_together",
        "memory.markdown.budget",
    ),
    *("context.text", "memory.working_memory"),
    *(f"curation.{name}" for name in ("proposal", "said", "gates", "candidates")),
    *(f"search.{name}" for name in ("corpus", "asked", "ranking")),
    "spool.rate_limits",
    *(f"search.language.{name}" for name in ("analyzer", "dates")),
]
WORLDLY = {"os", "io", "pathlib", "sqlite3", "socket", "threading", "asyncio", "anyio", "time", "random", "subprocess"}


@cache
def modules(package: str) -> dict[str, list[ast.Import | ast.ImportFrom | ast.Attribute]]:
    """Return module name, without the package's -> its imports and its uses of the environment, wherever they stand."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT / package).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        found[name] = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            or (isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv", "getenvb"))
        ]
    return found


def imported(nodes: Sequence[ast.AST], known: dict[str, set[str]]) -> Iterator[str]:
    """Yield the full name of every imported module."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports say the whole name"
            module = node.module or ""
            package, _, rest = module.partition(".")
            for alias in node.names:
                inner = f"{rest}.{alias.name}".lstrip(".")
                yield f"{package}.{inner}" if inner in known.get(package, ()) else module


@pytest.fixture(scope="module")
def edges() -> dict[str, set[str]]:
    """Full module name -> full names of what it imports."""
    all_of = {package: modules(package) for package in (HOST, AGENT)}
    known = {package: set(found) for package, found in all_of.items()}
    return {
        f"{package}.{name}".rstrip("."): set(imported(nodes, known))
        for package, found in all_of.items()
        for name, nodes in found.items()
    }


def part_of(module: str) -> str:
    """Return the package or module of the host's first level."""
    return module.split(".")[1] if "." in module else ""


def test_imports_go_down_only(edges: dict[str, set[str]]) -> None:
    level = {part: number for number, parts in enumerate(LAYERS) for part in parts}
    wrong = [
        f"{module} imports {other}"
        for module, others in edges.items()
        for other in others
        if module.startswith(f"{HOST}.") and other.startswith(f"{HOST}.")
        if part_of(module) != part_of(other) and part_of(module) != "__main__"
        if level[part_of(module)] >= level[part_of(other)]
    ]
    assert wrong == []


def test_only_entry_points_know_the_command_line(edges: dict[str, set[str]]) -> None:
    cli = f"{HOST}.cli"
    outside = {module: others for module, others in edges.items() if module != cli and not module.startswith(f"{cli}.")}
    who_knows = {module for module, used in outside.items() if any(o == cli or o.startswith(f"{cli}.") for o in used)}
    assert who_knows <= {f"{HOST}.__main__"}
    assert not {module for module, others in outside.items() if f"{HOST}.daemon" in others}


def test_imports_go_in_no_circle(edges: dict[str, set[str]]) -> None:
    finished: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path, module])
        if module not in finished:
            for other in edges.get(module, ()):
                visit(other, (*path, module))
            finished.add(module)

    for module in edges:
        visit(module, ())


def test_the_agents_package_never_imports_the_host(edges: dict[str, set[str]]) -> None:
    assert [
        module
        for module, others in edges.items()
        if module.startswith(AGENT) and any(other.startswith(HOST) for other in others)
    ] == []


def test_the_host_imports_only_shared_agent_code(edges: dict[str, set[str]]) -> None:
    wrong = [
        f"{module} imports {other}"
        for module, others in edges.items()
        for other in others
        if module.startswith(HOST)
        and other.split(".")[0] == AGENT
        and other.split(".")[1] not in FROM_AGENT | FOR_TURNS.get(part_of(module), set())
    ]
    assert wrong == []


def test_what_is_pure_imports_nothing_that_reaches_the_world(edges: dict[str, set[str]]) -> None:
    for name in PURE:
        reached = {other.split(".")[0] for other in edges[f"{HOST}.{name}"]} & WORLDLY
        assert reached == set(), name


def test_only_the_configuration_reads_the_environment() -> None:
    readers = set()
    for name, nodes in modules(HOST).items():
        for node in nodes:
            if isinstance(node, ast.Attribute):
                readers.add(name)
            if isinstance(node, ast.ImportFrom) and node.module == "os":
                readers |= {name for alias in node.names if "env" in alias.name}
    assert readers == {"configuration"}


def test_importing_does_nothing(tmp_path: Path) -> None:
    script = f"""
import gc, importlib, os, pkgutil, signal, sys, threading

gc.disable()
did = []
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

def watch(event, arguments):
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES:
        did.append((event, arguments))
    if event.startswith(("os.mkdir", "os.remove", "os.rename", "os.putenv", "socket.", "sqlite3.", "subprocess.")):
        if event not in ("socket.__new__", "socket.gethostname", "sqlite3.enable_load_extension"):
            if arguments[:1] == (b"OPENBLAS_MAIN_FREE",):
                return  # numpy sets it while it loads its library, and takes it back
            did.append((event, arguments))

signals = {{number: signal.getsignal(number) for number in signal.valid_signals()}}
environment = dict(os.environ)
sys.addaudithook(watch)
for package in ({HOST!r}, {AGENT!r}):
    path = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(path, package + "."):
        if not module.name.endswith(("__main__", "langgraph_store", "openai_agents")):  # theirs try a socket
            importlib.import_module(module.name)
assert did == [], did
assert threading.enumerate() == [threading.main_thread()], threading.enumerate()
assert {{number: signal.getsignal(number) for number in signal.valid_signals()}} == signals
assert dict(os.environ) == environment
print("done")
"""
    command = [sys.executable, "-B", "-W", "error", "-c", script]
    run = finished(command, cwd=tmp_path, env={"PATH": "", "PYTHONPATH": str(ROOT)})
    assert (run.stdout, run.stderr) == ("done\n", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("cli", {"pydantic", "structlog", "rich", "asyncio", "sqlite3"}),
        ("settings", {"structlog", "rich"}),
        ("daemon", {"rich", "numpy"}),
    ],
)
def test_a_command_imports_only_what_it_needs(module: str, unneeded: set[str]) -> None:
    script = f"import sys, {HOST}.{module}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert unneeded.intersection(run.stdout.split()) == set()


def test_each_package_names_its_files_in_reading_order() -> None:
    folders = {file.parent for file in (ROOT / HOST).rglob("*.py")} - {ROOT / HOST, ROOT / HOST / "cli"}
    for folder in folders:
        page = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        unnamed = {file.stem for file in folder.glob("[!_]*.py")} - set(re.findall(r"`(\w+)`", page))
        assert unnamed == set(), folder

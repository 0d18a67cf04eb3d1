"""The two distributions: each has its own files, and both together are a host and its agents."""

import subprocess
import sys
import tomllib
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

from honeybadger_host import __version__
from tests.commands import finished
from tests.hosting import frozen_environment

ROOT = Path(__file__).parents[2]
NOT_PACKED = {"honeybadger_agent/pyproject.toml", "honeybadger_agent/README.md", "honeybadger_agent/LICENSE"}
PRINT_PLACES = """
import sys, honeybadger_agent.cli.commands, honeybadger_host.cli, honeybadger_host.daemon
ours = (module for name, module in sys.modules.items() if name.startswith("honeybadger_"))
print({module.__file__.partition("/honeybadger_")[0] for module in ours})
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each package, as pip builds it from a checkout."""
    built = {}
    for package, folder in (("honeybadger_host", ROOT), ("honeybadger_agent", ROOT / "honeybadger_agent")):
        target = tmp_path_factory.mktemp(package)
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=100)
        (built[package],) = target.glob("*.whl")
    return built


def files_in(wheel: Path) -> set[str]:
    return set(ZipFile(wheel).namelist())


def metadata_of(wheel: Path) -> Message:
    with ZipFile(wheel) as files:
        (name,) = (each for each in files.namelist() if each.endswith(".dist-info/METADATA"))
        return message_from_bytes(files.read(name))


def test_no_file_is_in_both_wheels(wheels: dict[str, Path]) -> None:
    assert not files_in(wheels["honeybadger_host"]) & files_in(wheels["honeybadger_agent"])
    for package, wheel in wheels.items():
        paths = (path for path in (ROOT / package).rglob("*") if path.is_file() and path.parent.name != "__pycache__")
        expected = {str(path.relative_to(ROOT)) for path in paths} - NOT_PACKED
        assert {name for name in files_in(wheel) if ".dist-info/" not in name} == expected


def test_the_host_depends_on_the_agent_of_its_version(wheels: dict[str, Path]) -> None:
    host, agent = map(metadata_of, (wheels["honeybadger_host"], wheels["honeybadger_agent"]))
    assert (host["Version"], agent["Version"]) == (__version__, __version__)
    assert f"honeybadger-agent=={__version__}" in host.get_all("Requires-Dist", [])


def test_the_bounds_of_what_both_need_are_the_same() -> None:
    files = (ROOT / "pyproject.toml", ROOT / "honeybadger_agent" / "pyproject.toml")
    host, agent = (tomllib.loads(file.read_text())["project"] for file in files)
    assert set(agent["dependencies"]) <= set(host["dependencies"])
    for extra in agent["optional-dependencies"]:
        assert host["optional-dependencies"][extra] == [f"honeybadger-agent[{extra}]"]


def test_both_wheels_together_are_a_host_and_agents(wheels: dict[str, Path], tmp_path: Path) -> None:
    site, home = tmp_path / "site", tmp_path / "home"
    for wheel in wheels.values():
        ZipFile(wheel).extractall(site)

    def python(*arguments: str) -> str:
        env = frozen_environment(PYTHONPATH=str(site), PYTHONDONTWRITEBYTECODE="1")
        done = finished([sys.executable, *arguments], cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert python("-c", PRINT_PLACES) == f"{ {str(site)} }\n"
    python("-m", "honeybadger_host", "init", str(home))
    assert python("-m", "honeybadger_agent.cli", "--version") == f"honeybadger-agent {__version__}\n"

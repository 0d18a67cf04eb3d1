"""The wheels as people install them, and the steps that build the image: `make packages`, since it needs an index."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from honeybadger_host import __version__
from tests.commands import finished
from tests.hosting import frozen_environment
from tests.house.test_image import ROOT, stages

DIST = ROOT / "dist"
pytestmark = [
    pytest.mark.skipif("HB_PACKAGES" not in os.environ, reason="it needs an index of packages: make packages"),
    pytest.mark.timeout(600),
]


def run(*command: str | Path, folder: Path) -> str:
    """Run a command as a new user would, in a folder that is also HOME; return what it prints."""
    env = os.environ | {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / ".config")}  # how to reach the index stays
    done = finished(command, cwd=folder, env=env, timeout=500)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def wheels() -> dict[str, Path]:
    return {name: DIST / f"honeybadger_{name}-{__version__}-py3-none-any.whl" for name in ("host", "agent")}


def test_uvx_runs_each_program_from_its_wheel(wheels: dict[str, Path], tmp_path: Path) -> None:
    uvx = shutil.which("uvx")
    assert uvx is not None
    for name, wheel in wheels.items():
        program = f"honeybadger-{name}"
        said = run(uvx, "--find-links", DIST, "--from", wheel, program, "--version", folder=tmp_path)
        assert said.strip() == f"{program} {__version__}"


def test_pipx_installs_each_wheel_and_both_work_together(wheels: dict[str, Path], tmp_path: Path) -> None:
    pipx = shutil.which("pipx")
    assert pipx is not None
    run(pipx, "install", f"--pip-args=--find-links {DIST}", wheels["host"], folder=tmp_path)
    run(pipx, "install", f"{wheels['agent']}[mcp]", folder=tmp_path)
    programs = tmp_path / ".local/bin"
    run(programs / "honeybadger-host", "init", "memory", folder=tmp_path)
    with subprocess.Popen(
        [programs / "honeybadger-host", "run", "--home", "memory"],
        cwd=tmp_path,
        env=frozen_environment(XDG_CONFIG_HOME=str(tmp_path / ".config")),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as host:
        try:
            run(programs / "honeybadger-agent", "--timeout", "60", "remember", "Tea, no sugar", folder=tmp_path)
        finally:
            host.terminate()
    assert "Tea, no sugar" in (tmp_path / "memory/groups/main/MEMORY.md").read_text()
    assert "still to do, if the model" not in run(
        programs / "honeybadger-agent", "install", "agent-plugin", folder=tmp_path
    )


def test_the_steps_that_build_the_image_make_both_programs(tmp_path: Path) -> None:
    build, target = stages()[0], tmp_path / "opt"
    extras = dict(build)["ARG"].partition("=")[2]
    for name, rest in build:
        if name == "COPY":
            *sources, _ = rest.split()
            for source in (ROOT / each for each in sources):
                if source.is_dir():
                    shutil.copytree(source, tmp_path / source.name, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(source, tmp_path)
        elif name == "RUN":
            step = rest.replace("/opt/honeybadger", str(target)).replace("${EXTRAS}", extras)
            run("sh", "-euc", re.sub(r"^python ", f"{sys.executable} ", step), folder=tmp_path)
    for program in ("honeybadger-host", "honeybadger-agent"):
        assert run(target / "bin" / program, "--version", folder=tmp_path).strip() == f"{program} {__version__}"
    assert "--http" in run(target / "bin/honeybadger-agent", "mcp", "--help", folder=tmp_path)

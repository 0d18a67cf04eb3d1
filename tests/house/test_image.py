"""The image and the compose file, as far as a machine without Docker can try them: what they say, and what they run.

`make packages` runs the steps that build the image.
"""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import yaml

from honeybadger_host import __version__
from tests.commands import finished
from tests.hosting import HostProcess, frozen_environment

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())


def stages() -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage of the Dockerfile, with its arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "deploy/Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    instructions = [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines if line.strip())]
    begins = [number for number, (name, _) in enumerate(instructions) if name == "FROM"]
    return [instructions[start:end] for start, end in zip(begins, [*begins[1:], None], strict=True)]


def program(home: Path, command: list[str], **environment: str) -> str:
    """Run what a container runs, with this environment's programs; return what it prints."""
    env = frozen_environment(PATH=f"{BIN}:/usr/bin:/bin", XDG_CONFIG_HOME=str(home.parent / "config"), **environment)
    done = finished(command, env=env, cwd=home.parent)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_the_image_runs_as_the_volumes_owner(host: HostProcess, home: Path) -> None:
    final = dict(stages()[-1])
    (owned,) = re.findall(r"install -d -o honeybadger -g honeybadger -m 700 (\S+)", final["RUN"])
    assert final["VOLUME"] == owned == final["WORKDIR"]
    assert re.search(rf"HONEYBADGER_HOME={owned}\s", final["ENV"])
    assert final["USER"].isdecimal()
    assert f"--uid {final['USER']} " in final["RUN"]
    assert json.loads(final["ENTRYPOINT"]) + json.loads(final["CMD"]) == ["honeybadger-host", "run"]
    check = json.loads(final["HEALTHCHECK"].partition("CMD ")[2])
    assert "answered in" in program(home, check, HONEYBADGER_HOME=str(home))


def test_the_image_is_built_of_files_that_are_sent() -> None:
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [shlex.split(rest)[:-1] for name, rest in stages()[0] if name == "COPY"]
    assert sorted(path for paths in copied for path in paths) == sorted(sent)
    assert all((ROOT / path).exists() for path in sent)


def test_each_container_is_closed_with_its_own_folder() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"prepare", "host", "researcher"}
    for name, service in services.items():
        assert service["image"] == f"honeybadger:{__version__}", name
        assert (service["read_only"], service["init"], service["network_mode"]) == (True, True, "none"), name
        assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"]), name
        assert not {"ports", "privileged", "cap_add", "user", "pid", "ipc"} & set(service), name
    assert (ROOT / "deploy" / services["prepare"]["build"]["context"]).resolve() == ROOT
    (mount,) = services["researcher"]["volumes"]
    assert mount["source"] in COMPOSE["volumes"]
    assert mount["volume"] == {"subpath": "data/ipc/main/researcher"}


def test_the_containers_make_a_home_that_remembers(tmp_path: Path) -> None:
    home = tmp_path / "home"
    services = COMPOSE["services"]
    (script,) = services["prepare"]["command"]
    for _ in range(2):  # `up` runs it each time
        program(home, [*services["prepare"]["entrypoint"], script.replace("$$", "$")], HONEYBADGER_HOME=str(home))
    mount = services["researcher"]["volumes"][0]
    box = home / mount["volume"]["subpath"]
    assert box.is_dir()
    environment = {
        name: value.replace(mount["target"], str(box)) for name, value in services["researcher"]["environment"].items()
    }
    with HostProcess(home) as host:
        host.start()
        program(home, ["honeybadger-agent", "remember", "The demo is on Friday"], **environment)
        assert services["researcher"]["healthcheck"]["test"][0] == "CMD"
        program(home, services["researcher"]["healthcheck"]["test"][1:], **environment)
    assert "researcher" in (home / "groups/main/MEMORY.md").read_text()

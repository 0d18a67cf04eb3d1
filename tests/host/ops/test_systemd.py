"""The systemd service: what is rendered, that systemd takes it, and that nothing is done before it is shown."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from honeybadger_host.errors import HomeError, HostError, JournalError, SettingsError
from honeybadger_host.files.home import make_home
from honeybadger_host.ops.systemd import (
    SYSTEM_HOME,
    Plan,
    check_visible,
    plan_system,
    plan_user,
    remove,
    run,
    show,
    write,
)
from tests.commands import finished
from tests.hosting import run_cli

ROOT = Path(__file__).parents[3]
SYSTEM_COMMAND = Path("/usr/local/bin/honeybadger-host")
UNIT = Path("/etc/systemd/system/honeybadger-host.service")
DROP_IN = UNIT.with_name("honeybadger-host.service.d") / "closed.conf"
CONTAINER = ("Dockerfile", "compose.yaml")
DEPLOYED = {
    "honeybadger-host.service": UNIT,
    "honeybadger-host.service.d/closed.conf": DROP_IN,
    "honeybadger.tmpfiles.conf": Path("/etc/tmpfiles.d/honeybadger.conf"),
    "honeybadger.sysusers.conf": Path("/etc/sysusers.d/honeybadger.conf"),
}
BARE = Path("/bin/true")  # A program that is there, for systemd's checks

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
needs_root_and_systemd = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("systemd-sysusers") is None, reason="needs root and systemd-sysusers"
)


@pytest.fixture(autouse=True)
def _config_below_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")


def options(text: str) -> dict[str, list[str]]:
    """Return option -> its values in a unit."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if match := re.match(r"(\w+)=(.*)", line):
            found.setdefault(match[1], []).append(match[2])
    return found


def system_unit(home: Path = SYSTEM_HOME, command: Path = SYSTEM_COMMAND) -> str:
    return dict(plan_system(home, command).files)[UNIT]


def user_plan(home: Path = Path("/home/ada")) -> Plan:
    return plan_user(home / ".local/share/honeybadger", home / "venv/bin/honeybadger-host", home, home / ".config")


def test_deploy_has_the_files_of_the_default_home() -> None:
    found = {str(path.relative_to(ROOT / "deploy")) for path in (ROOT / "deploy").rglob("*") if path.is_file()}
    assert {name for name in found if not name.startswith(("cluster/", *CONTAINER))} == DEPLOYED.keys()
    closed = dict(plan_system(SYSTEM_HOME, SYSTEM_COMMAND, is_closed=True).files)
    installed = closed | dict(plan_system(SYSTEM_HOME, SYSTEM_COMMAND).files)
    for name, path in DEPLOYED.items():
        assert (ROOT / "deploy" / name).read_text() == installed[path], name


def test_what_no_restart_mends_is_not_restarted() -> None:
    given_up = {int(code) for code in options(system_unit())["RestartPreventExitStatus"][0].split()}
    assert given_up == {2, *(error.exit_code for error in (SettingsError, HomeError, JournalError))}
    assert options(user_plan().files[0][1])["RestartPreventExitStatus"] == [" ".join(map(str, sorted(given_up)))]


def test_the_service_may_write_only_to_its_home() -> None:
    default, other = options(system_unit()), options(system_unit(Path("/srv/honey")))
    assert default["StateDirectory"] == ["honeybadger"]
    assert "ReadWritePaths" not in default
    assert other["ReadWritePaths"] == ["/srv/honey"]
    assert "StateDirectory" not in other
    for unit in (default, other):
        assert unit["ProtectSystem"] == ["strict"]
    assert other["ExecStart"] == ["/usr/local/bin/honeybadger-host run --home /srv/honey"]


@pytest.mark.parametrize("path", ["/home/ada/hb", "/root/hb", "/tmp/hb", "/var/tmp/hb", "/run/user/7/hb"])
def test_a_path_that_the_service_cannot_see_is_refused(path: str) -> None:
    with pytest.raises(HostError, match="the service cannot see"):
        plan_system(Path(path), SYSTEM_COMMAND)
    with pytest.raises(HostError, match="the service cannot see"):
        plan_system(SYSTEM_HOME, Path(path))
    with pytest.raises(HostError, match="the service cannot see"):
        check_visible(Path(path))  # where a venv's Python lies


@pytest.mark.parametrize(
    "path", ["/srv/my home", "/srv/50%", "/srv/a\nExecStartPre=/bin/x", "/srv/$X", "/srv/ü", "srv"]
)
def test_a_path_that_would_need_quoting_is_refused(path: str) -> None:
    with pytest.raises(HostError, match="a path in a unit must be absolute"):
        plan_system(Path(path), SYSTEM_COMMAND)
    with pytest.raises(HostError, match="a path in a unit must be absolute"):
        plan_user(Path(path), SYSTEM_COMMAND, Path("/home/ada"), Path("/home/ada/.config"))


def below(folder: Path, plan: Plan) -> Plan:
    """Return a plan of the same files below a folder, and of no commands."""
    return Plan(tuple((folder / path.relative_to("/"), text) for path, text in plan.files), ())


def laid_out(folder: Path, plan: Plan) -> Path:
    """Write units as systemd finds them; return the unit."""
    for path, text in plan.files:
        if path.suffix == ".service" or path.parent.suffix == ".d":
            target = folder / (path.name if path.suffix == ".service" else f"{path.parent.name}/{path.name}")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    return folder / UNIT.name


def exposure(unit: Path) -> float:
    done = finished(["systemd-analyze", "security", "--offline=true", "--no-pager", unit])
    match = re.search(r"Overall exposure level for .*: ([\d.]+)", done.stdout)
    if match is None:
        pytest.skip(f"this systemd-analyze rates no files: {(done.stderr or done.stdout).strip()[-200:]}")
    return float(match[1])


@needs_systemd
@pytest.mark.parametrize("is_closed", [False, True])
def test_the_exposure_is_at_most_one(is_closed: bool, tmp_path: Path) -> None:
    assert exposure(laid_out(tmp_path, plan_system(SYSTEM_HOME, BARE, is_closed=is_closed))) <= 1.0


@needs_systemd
@pytest.mark.parametrize("kind", ["system", "closed", "user"])
def test_systemd_finds_nothing_wrong_with_the_units(kind: str, tmp_path: Path) -> None:
    if kind == "user":
        plan = plan_user(Path("/srv/hb"), BARE, Path("/home/ada"), Path("/home/ada/.config"))
    else:
        plan = plan_system(SYSTEM_HOME, BARE, is_closed=kind == "closed")
    unit = laid_out(tmp_path, plan)
    options_ = ["--user"] if kind == "user" else []
    environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    done = finished(["systemd-analyze", *options_, "verify", "--man=no", unit], env=environment)
    about_us = [line for line in done.stderr.splitlines() if "honeybadger" in line]
    assert about_us == []
    assert done.returncode == 0, done.stderr


@needs_systemd
def test_an_instance_unit_serves_the_home_of_its_name(tmp_path: Path) -> None:
    unit = tmp_path / "honeybadger-host@.service"
    unit.write_text(system_unit(command=BARE))
    drop_ins = tmp_path / f"{unit.name}.d"
    drop_ins.mkdir()
    for name in ("honeybadger-host@.conf", "honeybadger-host.conf"):
        text = (ROOT / "deploy" / "cluster" / name).read_text()
        (drop_ins / name).write_text(text.replace(str(SYSTEM_COMMAND), str(BARE)))
    instance = str(unit.with_name("honeybadger-host@red.service"))
    done = finished(["systemd-analyze", "verify", "--man=no", instance])
    assert [line for line in done.stderr.splitlines() if "honeybadger" in line] == []
    assert done.returncode == 0, done.stderr
    changed = options((drop_ins / "honeybadger-host@.conf").read_text())
    for name, value in options(unit.read_text()).items():  # what names the home names that of the instance
        if any("/honeybadger" in one or one == "honeybadger" for one in value) and name not in ("User", "Group"):
            assert changed[name][-1].endswith("honeybadger/%i"), name


@needs_root_and_systemd
def test_user_and_home_are_made_as_the_files_say(tmp_path: Path) -> None:
    write(below(tmp_path, plan_system(SYSTEM_HOME, SYSTEM_COMMAND)))
    for tool, folder, more in (
        ("systemd-sysusers", "sysusers.d", []),
        ("systemd-tmpfiles", "tmpfiles.d", ["--create"]),
    ):
        done = finished([tool, f"--root={tmp_path}", *more, f"{tmp_path}/etc/{folder}/honeybadger.conf"])
        assert done.returncode == 0, done.stderr
    (entry,) = [line for line in (tmp_path / "etc/passwd").read_text().splitlines() if line.startswith("honeybadger:")]
    uid, home = entry.split(":")[2], entry.split(":")[5]
    assert home == str(SYSTEM_HOME)
    status = (tmp_path / "var/lib/honeybadger").stat()
    assert (status.st_uid, status.st_mode & 0o777) == (int(uid), 0o700)


def install(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    return run_cli("service", "install", *arguments, env={"HOME": str(folder), "XDG_CONFIG_HOME": ""})


def test_a_dry_run_prints_files_and_commands_only(tmp_path: Path) -> None:
    shown = install("--dry-run", "--command", SYSTEM_COMMAND, folder=tmp_path)
    plan = plan_system(SYSTEM_HOME, SYSTEM_COMMAND)
    assert shown.returncode == 0
    assert shown.stdout == show(plan)
    for path, text in plan.files:
        assert f"# {path}\n{text}" in shown.stdout
    assert shown.stdout.endswith(
        "$ systemd-sysusers /etc/sysusers.d/honeybadger.conf\n"
        "$ systemd-tmpfiles --create /etc/tmpfiles.d/honeybadger.conf\n"
        "$ runuser -u honeybadger -- /usr/local/bin/honeybadger-host init /var/lib/honeybadger\n"
        "$ systemctl daemon-reload\n"
        "$ systemctl enable honeybadger-host.service\n"
        "$ systemctl restart honeybadger-host.service\n"
    )
    assert install("--dry-run", "--user", folder=tmp_path).returncode == 0
    assert os.listdir(tmp_path) == []


def test_a_user_service_serves_the_default_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = tmp_path / "checkout"
    make_home(checkout)
    monkeypatch.chdir(checkout)
    environment = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": ""}
    for more, home in (
        (("--user",), tmp_path / ".local/share/honeybadger"),  # nobody made one before
        (("--user",), tmp_path / "memory"),
        (("--user", "--home", tmp_path / "work"), tmp_path / "work"),
        (("--command", SYSTEM_COMMAND), SYSTEM_HOME),
    ):
        done = install("--dry-run", *more, folder=tmp_path)
        assert f" init {home}\n" in done.stdout
        assert done.stderr == f"the service serves the home {home}\n"
        run_cli("init", tmp_path / "memory", env=environment)


def test_a_failed_command_stops_those_after_it(tmp_path: Path) -> None:
    run([["touch", str(tmp_path / "first")]])
    assert (tmp_path / "first").exists()
    behind = ["touch", str(tmp_path / "behind")]
    with pytest.raises(HostError, match=r"^ls /nowhere: .*No such file"):
        run([["ls", "/nowhere"], behind])
    with pytest.raises(HostError, match="cannot run no-such-program: No such file"):
        run([["no-such-program"], behind])
    assert not (tmp_path / "behind").exists()


def test_what_was_written_is_removed_and_an_earlier_file_kept(tmp_path: Path) -> None:
    plan = below(tmp_path, plan_system(SYSTEM_HOME, SYSTEM_COMMAND, is_closed=True))
    files = [path for path, _ in plan.files]
    files[0].parent.mkdir(parents=True)
    files[0].write_text("mine")
    assert write(plan) == files
    assert {path.stat().st_mode & 0o777 for path in files} == {0o644}
    assert write(plan) == []
    assert remove(files) == files
    assert remove(files) == []
    assert [path.read_text() for path in tmp_path.rglob("*") if path.is_file()] == ["mine"]
    done = run_cli("service", "uninstall", "--user", env={"HOME": str(tmp_path), "XDG_CONFIG_HOME": ""})
    assert done.stdout.startswith("there is nothing to remove\n")

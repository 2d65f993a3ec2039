"""`make setup` where Rust is missing, too old, or fails, or uv fails: one line says so, and what is used instead."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOLS = ("make", "sh", "awk", "find", "rm", "touch")


@pytest.mark.parametrize(
    ("cargo", "said"),
    [
        (None, "no Rust (cargo) 1.88 or newer here: the plain codec is used instead of the native one"),
        ("echo cargo 1.87.0", "no Rust (cargo) 1.88 or newer here: the plain codec is used instead of the native one"),
        ("exit 1", "no Rust (cargo) 1.88 or newer here: the plain codec is used instead of the native one"),
        ("echo cargo 1.88.0", "the native codec couldn't be built (see {venv}/native.log): the plain one is used"),
    ],
)
def test_setup_goes_on_without_the_native_codec(tmp_path: Path, cargo: str | None, said: str) -> None:
    tools, venv = tmp_path / "tools", tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    _link_tools(tools)
    if cargo is not None:
        _write_program(tools / "cargo", tools, cargo)
    # A Python that can't build, too.
    _write_program(venv / "bin" / "python", tools, "exit 1")
    installed = [venv / ".tools", venv / ".package"]
    for stamp in installed:
        stamp.touch()
    # With -o make takes the package for installed, so that only the native codec is set up.
    options = [f"-o{stamp}" for stamp in installed]
    ran = _make(tools, f"VENV={venv}", *options, str(venv / ".ready"))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == said.format(venv=venv)
    assert (venv / ".native").exists()
    assert ran.stderr == ""


def test_pip_installs_what_uv_cannot(tmp_path: Path) -> None:
    tools, programs = tmp_path / "tools", tmp_path / "bin"
    programs.mkdir()
    _link_tools(tools)
    for name, line in (("uv", "echo no route >&2; exit 2"), ("python", f'echo "$*" >>{tmp_path}/asked')):
        _write_program(programs / name, tools, line)
    (tmp_path / ".tools").touch()
    ran = _make(tools, "--silent", f"VENV={tmp_path}", f"-o{tmp_path}/.tools", f"{tmp_path}/.package")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"uv couldn't install all (see {tmp_path}/uv.log): pip does\n"
    assert (tmp_path / "uv.log").read_text() == "no route\n"
    packages, _ = (tmp_path / "asked").read_text().splitlines()
    assert packages.endswith("install --quiet --no-compile --no-deps --require-hashes -r requirements.lock")


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_servers_are_fetched_while_the_native_codec_is_built(tmp_path: Path, target: str) -> None:
    assert _meet(tmp_path, target, "sandbox fetch", installed=(".tools", ".package")) == "met\n"


@pytest.mark.parametrize("target", ["setup", "demo", "test"])
def test_packages_are_installed_while_the_native_codec_is_built(tmp_path: Path, target: str) -> None:
    assert _meet(tmp_path, target, "-r requirements.lock", installed=(".tools",)) == "met\n"


def _link_tools(folder: Path) -> None:
    """What `make` itself needs, and nothing else."""
    folder.mkdir()
    for name in TOOLS:
        program = shutil.which(name)
        assert program is not None
        (folder / name).symlink_to(program)


def _write_program(path: Path, tools: Path, text: str) -> None:
    path.write_text(f"#!{tools}/sh\n{text}\n")
    path.chmod(0o755)


def _make(tools: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `make` where nothing is on the path but these tools."""
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )


def _meet(folder: Path, target: str, step: str, *, installed: tuple[str, ...]) -> str:
    """What the build of the native codec logs: it and the step end only if both run at the same time."""
    tools, venv, meeting = folder / "tools", folder / "venv", folder / "meeting"
    (venv / "bin").mkdir(parents=True)
    _link_tools(tools)
    _write_program(tools / "cargo", tools, "echo cargo 1.88.0")
    # Who opens a named pipe waits for the other end.
    os.mkfifo(meeting)
    for name in ("python", "uv"):
        text = (
            'case "$*" in\n'
            f'*"{step}"*) echo met >{meeting} ;;\n'
            f"*native/cargo.py*) read -r word <{meeting}; echo $word ;;\n"
            "esac"
        )
        _write_program(venv / "bin" / name, tools, text)
    (venv / "dbt").mkdir()
    for stamp in (*installed, "dbt/.ready", "dbt/.suite"):
        (venv / stamp).touch()
    make = subprocess.Popen(
        ["make", f"VENV={venv}", target],
        cwd=ROOT,
        env={"PATH": str(tools)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, errors = make.communicate(timeout=120)
    finally:
        if make.poll() is None:
            # Those that wait for each other, too.
            os.killpg(make.pid, signal.SIGKILL)
            make.communicate()
    assert make.returncode == 0, errors
    return (venv / "native.log").read_text()


@pytest.mark.parametrize("ready", [False, True])
def test_the_demo_says_that_its_first_set_up_takes_minutes(tmp_path: Path, ready: bool) -> None:
    tools, venv = tmp_path / "tools", tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    _link_tools(tools)
    # One that is set up, and one in which each step fails.
    _write_program(venv / "bin" / "python", tools, "exit 1")
    if ready:
        for stamp in (".tools", ".package", ".native", ".ready"):
            (venv / stamp).touch()
    said = _make(tools, f"VENV={venv}", "PYTHON=false", "demo").stdout
    assert said.startswith(f"setting up {venv} (Spark") != ready
    assert ("about 5 minutes" in said) != ready

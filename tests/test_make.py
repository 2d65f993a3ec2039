"""`make setup` where Rust is missing, too old, or fails: one line says so, and the plain codec is used."""

from __future__ import annotations

import os
import shutil
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
    tools.mkdir()
    (venv / "bin").mkdir(parents=True)
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    if cargo is not None:
        (tools / "cargo").write_text(f"#!{tools}/sh\n{cargo}\n")
        (tools / "cargo").chmod(0o755)
    # A Python that can't build, too.
    (venv / "bin" / "python").write_text(f"#!{tools}/sh\nexit 1\n")
    (venv / "bin" / "python").chmod(0o755)
    installed = [venv / ".tools", venv / ".package"]
    for stamp in installed:
        stamp.touch()
    # With -o make takes the package for installed, so that only the native codec is set up.
    options = [f"-o{stamp}" for stamp in installed]
    ran = subprocess.run(
        ["make", "--no-print-directory", f"VENV={venv}", *options, str(venv / ".ready")],
        cwd=ROOT,
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == said.format(venv=venv)
    assert (venv / ".native").exists()
    assert ran.stderr == ""


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_servers_are_fetched_while_the_native_codec_is_built(tmp_path: Path, target: str) -> None:
    assert _meet(tmp_path, target, "sandbox fetch", installed=(".tools", ".package")) == "met\n"


@pytest.mark.parametrize("target", ["setup", "demo", "test"])
def test_packages_are_installed_while_the_native_codec_is_built(tmp_path: Path, target: str) -> None:
    assert _meet(tmp_path, target, "-r requirements.lock", installed=(".tools",)) == "met\n"


def _meet(folder: Path, target: str, step: str, *, installed: tuple[str, ...]) -> str:
    """What the build of the native codec logs: it and the step end only if both run at the same time."""
    tools, venv, meeting = folder / "tools", folder / "venv", folder / "meeting"
    tools.mkdir()
    (venv / "bin").mkdir(parents=True)
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    (tools / "cargo").write_text(f"#!{tools}/sh\necho cargo 1.88.0\n")
    (tools / "cargo").chmod(0o755)
    # Who opens a named pipe waits for the other end.
    os.mkfifo(meeting)
    (venv / "bin" / "python").write_text(
        f"#!{tools}/sh\n"
        'case "$*" in\n'
        f'*"{step}"*) echo met >{meeting} ;;\n'
        f"*./native*) read -r word <{meeting}; echo $word ;;\n"
        "esac\n"
    )
    (venv / "bin" / "python").chmod(0o755)
    for stamp in installed:
        (venv / stamp).touch()
    ran = subprocess.run(
        ["make", f"VENV={venv}", target],
        cwd=ROOT,
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return (venv / "native.log").read_text()

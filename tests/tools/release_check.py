"""`make release-check`: what a release has in dist/, installed into fresh environments; and the notes of a release.

`release_check.py` checks the files' names and contents, and runs the demo where the wheels are installed, and where the
archive of the sources is; `release_check.py notes 0.1.0` prints what the changelog says of a version.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST, FOLDER = ROOT / "dist", ROOT / "build" / "release-check"
PACKAGE, NATIVE = "pyspark_pravega", "pyspark_pravega_native"
IN_WHEEL = (
    *(f"jars/pyspark-pravega-spark-{spark}.jar" for spark in ("4.0", "4.1", "4.2", "4.3")),
    *(
        "jars/ivy-",
        "jars/pyspark-pravega-sandbox.jar",
        "py.typed",
        "_version.py",
        "live/page/index.html",
        "sandbox/artifacts/",
    ),
)
IN_SOURCES = (
    *("jvm/common/pyspark/pravega/PravegaCatalog.java", "jvm/jars.py", "setup.py"),
    *("NOTICE", "LICENSE", "pyspark_pravega/_version.py"),
)
UV = (str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet", "--no-progress")


def main() -> int:
    """Check, or print notes; 0 when all is well."""
    match sys.argv[1:]:
        case []:
            version = check_files()
            wheels = sorted(DIST.glob("*.whl"))
            sources = DIST / f"{PACKAGE}-{version}.tar.gz"
            (package,) = (wheel for wheel in wheels if wheel.name.startswith(f"{PACKAGE}-"))
            native = native_for_this_machine(wheels)
            try_out("wheels", version, package, native)
            try_out("sources", version, sources, native)
            print(f"{version}: the demo ran with the wheels, and with what was built from the sources")
        case ["notes", version]:
            print(notes(version))
        case _:
            print(__doc__)
            return 2
    return 0


def check_files() -> str:
    """Look whether the release is complete, and of one version.

    Returns:
        The version.
    """
    (archive,) = DIST.glob(f"{PACKAGE}-*.tar.gz")
    version = archive.name.removeprefix(f"{PACKAGE}-").removesuffix(".tar.gz")
    native_version = tomllib.loads((ROOT / "native" / "Cargo.toml").read_text())["package"]["version"]
    names = sorted(path.name for path in DIST.iterdir() if not path.name.startswith("."))
    wanted = [f"{PACKAGE}-{version}-py3-none-any.whl", f"{NATIVE}-{native_version}.tar.gz"]
    _refuse([f"dist has no {name}" for name in wanted if name not in names])
    ours = (f"{PACKAGE}-{version}.tar.gz", f"{PACKAGE}-{version}-", f"{NATIVE}-{native_version}")
    _refuse([f"{name} is no part of release {version}" for name in names if not name.startswith(ours)])
    inside = zipfile.ZipFile(DIST / wanted[0]).namelist()
    _refuse([f"{wanted[0]} lacks {name}" for name in IN_WHEEL if not any(f"{PACKAGE}/{name}" in own for own in inside)])
    _refuse([f"{wanted[0]} has {name}" for name in inside if not name.startswith((f"{PACKAGE}/", f"{PACKAGE}-"))])
    with tarfile.open(archive) as sources:
        held = set(sources.getnames())
    _refuse([f"{archive.name} lacks {name}" for name in IN_SOURCES if f"{archive.name[:-7]}/{name}" not in held])
    tag = _tag()
    if tag is not None:
        _refuse([f"the commit is tagged {tag}, and the package is {version}"] if tag != f"v{version}" else [])
        _refuse([f"native/Cargo.toml has version {native_version}"] if version != native_version else [])
        notes(version)
    return version


def native_for_this_machine(wheels: list[Path]) -> Path:
    """The native codec's wheel for this processor."""
    kind = os.uname().machine
    fitting = [wheel for wheel in wheels if wheel.name.startswith(NATIVE) and wheel.stem.endswith(f"_{kind}")]
    _refuse([f"dist has no wheel of the native codec for {kind}"] if len(fitting) != 1 else [])
    return fitting[0]


def try_out(name: str, version: str, *packages: Path) -> None:
    """Install packages into an environment of their own, and run the demo there.

    Args:
        name: of the environment.
        version: what it has to have then.
        packages: files of the release.
    """
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    bin_folder = folder / "environment" / "bin"
    python, constraints = str(bin_folder / "python"), folder / "constraints.txt"
    # The versions that were tested, without their hashes, which these files would need, too.
    pins = re.findall(r"^[a-z0-9][^ \n]*==[^\\\n]*", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    constraints.write_text("\n".join(pins) + "\n")
    first, *others = packages
    demo = shutil.copy2(ROOT / "examples" / "nyc_flights.py", folder)
    commands = {
        "environment": [sys.executable, "-m", "venv", "--without-pip", str(bin_folder.parent)],
        "install": [
            *UV,
            "--python",
            python,
            "-c",
            str(constraints),
            f"pyspark-pravega[demo,sandbox] @ {first.as_uri()}",
            *map(str, others),
        ],
        "version": [str(bin_folder / "pravega-spark"), "--version"],
        "doctor": [str(bin_folder / "pravega-spark"), "doctor", "--json"],
        "demo": [python, str(demo)],
    }
    outputs = {}
    for step, command in commands.items():
        print(f"{name}: {step}", file=sys.stderr, flush=True)
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        outputs[step] = ran.stdout
        # The doctor looks for servers, too, which aren't there.
        if ran.returncode and step != "doctor":
            sys.exit(f"{name}: {' '.join(command)} failed:\n{ran.stdout}{ran.stderr}")
    _refuse([f"{name}: it says {outputs['version']}"] if f"pyspark-pravega {version}" not in outputs["version"] else [])
    (codec,) = (finding for finding in json.loads(outputs["doctor"]) if finding["what"] == "codec")
    _refuse([f"{name}: the native codec isn't used: {codec}"] if codec["level"] != "ok" else [])
    print(outputs["demo"].splitlines()[-1], file=sys.stderr, flush=True)


def notes(version: str) -> str:
    """What the changelog says of a version.

    Args:
        version: such as `0.1.0`.
    """
    text = (ROOT / "CHANGELOG.md").read_text()
    section = re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if section is None:
        sys.exit(f"CHANGELOG.md has no section of {version} with its day")
    return section[1].strip()


def _tag() -> str | None:
    command = ["git", "describe", "--exact-match", "--tags", "--match", "v*"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.stdout.strip() or None


def _refuse(wrong: list[str]) -> None:
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    sys.exit(main())

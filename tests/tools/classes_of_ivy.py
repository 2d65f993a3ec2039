"""Fetches a file by Ivy, from a repository on this machine, so that Java writes the classes of that (`class_archives`).

Its Java ends when the file is here, and writes them then.
"""

import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pyspark_pravega.sandbox import Bundle, fetch
from pyspark_pravega.sandbox.files.manifests import describe

_PLACE = "org/example/one/1.0/one-1.0.jar"
_POM = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>one</artifactId>"
    "<version>1.0</version></project>"
)
_MODULE = (
    '<ivy-module version="2.0"><info organisation="x" module="y"/><configurations><conf name="default"/>'
    '</configurations><dependencies><dependency org="org.example" name="one" rev="1.0" conf="default->master"/>'
    "</dependencies></ivy-module>"
)


def _fetch(folder: Path) -> None:
    """Without places in the list of files Ivy looks for them, which needs more classes than to fetch them."""
    jar = folder / "repository" / _PLACE
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"one")
    jar.with_suffix(".pom").write_text(_POM)
    bundle = Bundle("one", folder / "one.xml", folder / "one.sha256")
    bundle.ivy_file.write_text(_MODULE)
    digest, _, _ = describe(jar, _PLACE).split()
    bundle.manifest.write_text(f"{digest}  {jar.name}\n")
    fetch(bundle, cache=folder / "cache")


if __name__ == "__main__":
    handler = partial(SimpleHTTPRequestHandler, directory="repository")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        os.environ["DEFAULT_ARTIFACT_REPOSITORY"] = f"http://127.0.0.1:{server.server_port}"
        os.environ.pop("PYSPARK_PRAVEGA_IVY_SETTINGS", None)
        _fetch(Path.cwd())
        server.shutdown()

"""Checkpoints in a bucket, by Spark's own way there; and the commands that read them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from object_store import BUCKET, ObjectStore, object_store

from pyspark_pravega import cli
from pyspark_pravega.client import Client
from pyspark_pravega.live.answers import Answers
from pyspark_pravega.live.queries import query_lines
from pyspark_pravega.sandbox import Bundle, Sandbox, fetch
from pyspark_pravega.sql.checkpoints import Folder

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.since_spark("4.3"), pytest.mark.in_turn(8)]

JARS = Path(__file__).parents[1] / "jars"
HADOOP_AWS = Bundle("hadoop-aws", JARS / "hadoop-aws.xml", JARS / "hadoop-aws.sha256")
PROGRAM = Path(__file__).with_name("s3a_program.py")


@pytest.fixture(scope="module")
def objects() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


def test_a_query_goes_on_from_a_checkpoint_in_a_bucket_and_commands_read_it(
    sandbox: Sandbox,
    client: Client,
    objects: ObjectStore,
    scope: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    namespace = scope.replace("-", "_")
    checkpoint = f"s3a://{BUCKET}/{scope}/checkpoints/copy"
    configuration = {
        "spark.jars": ",".join(str(jar) for jar in sorted(fetch(HADOOP_AWS).glob("*.jar"))),
        "spark.hadoop.fs.s3a.endpoint": objects.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
        "spark.hadoop.fs.s3a.access.key": objects.key,
        "spark.hadoop.fs.s3a.secret.key": objects.secret,
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), namespace, checkpoint],
        input=json.dumps(configuration) + "\n",
        env={**os.environ, **sandbox.environment()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-8000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [300, 300, 44850]
    assert objects.secret not in done.stdout + done.stderr

    for name, value in sandbox.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", objects.endpoint)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", objects.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", objects.secret)
    assert cli.main(["lag", checkpoint, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["stream"], figures["totalEventsBehindLatest"]) == (f"{scope}/source", 5)
    (line,) = query_lines(client, [Folder.parse(f"s3a://{BUCKET}/{scope}/checkpoints")])
    assert line.checkpoint == checkpoint
    assert [source.stream for source in line.sources] == [f"{scope}/source"]
    top = ["top", "--once", "--checkpoint", f"s3a://{BUCKET}/{scope}/checkpoints"]
    assert cli.main(top) == 0
    printed = capsys.readouterr()
    assert (f"{namespace}.source" in printed.out, printed.err) == (True, "")
    shown = Answers(client.settings, [Folder.parse(f"s3a://{BUCKET}/{scope}/checkpoints")]).queries()
    assert [(query["name"], query["checkpoint"], query["error"]) for query in shown["queries"]] == [
        ("copy", checkpoint, None)
    ]

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "guessed")
    assert cli.main(["lag", checkpoint]) == 1
    error = capsys.readouterr().err
    assert f"checkpoint {checkpoint}" in error
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in error
    assert "guessed" not in error
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", objects.secret)
    assert cli.main(["lag", f"s3a://nobodys/{scope}"]) == 1
    assert "it isn't there" in capsys.readouterr().err

"""What `pravega-spark` says of words that it doesn't know."""

from __future__ import annotations

import pytest

from pyspark_pravega.cli import main


def said_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "command", "meant"),
    [
        ("tial shop.orders", "", "tail"),
        ("sandbox strt", " sandbox", "start"),
        ("tail --folow shop.orders", " tail", "--follow"),
        ("tail shop.orders --logs", " tail", "--log"),
        ("sandbox start --detatch", " sandbox start", "--detach"),
        ("schema shop.orders --jsn", " schema", "--json"),
    ],
)
def test_a_typing_error_is_told_with_what_was_meant(
    words: str, command: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And with the usage of the command that has it."""
    errors = said_of(capsys, *words.split())
    assert errors.startswith(f"usage: pravega-spark{command} ")
    assert errors.endswith(f'; did you mean "{meant}"?\n')


def test_a_word_too_many_is_told_by_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert said_of(capsys, "tail", "shop.orders", "10").endswith('pravega-spark tail: error: unknown argument "10"\n')


@pytest.mark.parametrize(("words", "some"), [([], "thriftserver"), (["sandbox"], "wipe")])
def test_without_a_command_all_are_shown(words: list[str], some: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert f"\n    {some} " in capsys.readouterr().err


def test_help_names_what_an_argument_takes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tail", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "--controller URI where the controller is: tcp://host:port" in text
    assert "--scope SCOPE the scope of streams that are named without one (PRAVEGA_SCOPE)" in text
    assert "--username NAME who asks (PRAVEGA_USERNAME)" in text

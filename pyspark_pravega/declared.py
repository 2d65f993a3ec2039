"""What users give values to: settings, options and properties, each declared once, with its name and what it means.

Whoever parses values and whoever writes the reference takes them from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar, overload

from pyspark_pravega.errors import ConfigurationError, PravegaError

Value = TypeVar("Value")
_NOT_PARSED = (PravegaError, ValueError, TypeError, LookupError)
"""What `Property.parse` raises: kept texts may be JSON that others have written."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A setting, an option or a property, as the reference tells of it."""

    name: str
    """In its one spelling: lower case with dashes, or camel case of an option that is no table property."""
    value: str = ""
    """What may be given, in words or as code (Markdown)."""
    about: str = ""
    """What it does, in less than a line (Markdown)."""
    unset: str = ""
    """What holds where it isn't given; empty for nothing."""
    group: str = ""
    """What it is about: the heading of its part of the reference."""


@dataclass(frozen=True, kw_only=True)
class Property(Declared, Generic[Value]):
    """A property of tables: an attribute of a class of `Properties`, whose instances have its parsed value."""

    parse: Callable[[str, str], Value]
    """Makes the value of the property's name, for messages, and a text; raises ConfigurationError for a wrong one."""
    default: Value
    """The value where there is no text."""
    spell: Callable[[str], str] = str
    """Brings a text that can be parsed into its usual spelling, in which it is kept."""

    @overload
    def __get__(self, properties: None, owner: type) -> Self: ...

    @overload
    def __get__(self, properties: Properties, owner: type) -> Value: ...

    def __get__(self, properties: Properties | None, owner: type) -> Self | Value:
        """The declaration, of a class; the value, of an instance."""
        if properties is None:
            return self
        text = properties.get(self.name)
        if text is None:
            return self.default
        try:
            return self.parse(self.name, text)
        except _NOT_PARSED as error:
            if not properties.of:
                raise
            raise unreadable(properties.of, self.name, text, error) from None


class Properties(Mapping[str, str]):
    """Texts under the names of properties, with parsed values by attribute. Of names that mean nothing here the text is
    kept."""

    def __init__(self, texts: Mapping[str, str] | None = None, *, of: str = "") -> None:
        """Hold texts.

        Args:
            texts: by name; nothing of them is parsed before somebody asks.
            of: what they are kept with, as `stream "x/y"`: others may have put them there, such as a later release.
        """
        self.texts, self.of = dict(texts or {}), of

    def __getitem__(self, name: str) -> str:
        """A text."""
        return self.texts[name]

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self.texts)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.texts)

    def __repr__(self) -> str:
        """The class, and the texts."""
        return f"{type(self).__name__}({self.texts!r})"

    @classmethod
    def declared(cls) -> dict[str, Property[Any]]:
        """All that there are, by their names."""
        return {one.name: one for one in vars(cls).values() if isinstance(one, Property)}

    @classmethod
    def names(cls, *groups: str) -> frozenset[str]:
        """The names of all, or of those of some groups.

        Args:
            groups: which ones.
        """
        return frozenset(name for name, one in cls.declared().items() if not groups or one.group in groups)

    def not_parsed(self) -> dict[str, str]:
        """The texts that can't be parsed."""
        texts = {}
        for name, one in self.declared().items():
            try:
                one.__get__(self, type(self))
            except _NOT_PARSED:
                texts[name] = self.texts[name]
        return texts

    def spelled(self, *groups: str) -> dict[str, str]:
        """Texts in their usual spelling.

        Args:
            groups: of which properties; of all where none is named.

        Raises:
            ConfigurationError: one can't be parsed.
        """
        spelled = {}
        for name, one in self.declared().items():
            if name in self.texts and (not groups or one.group in groups):
                one.parse(name, self.texts[name])
                spelled[name] = one.spell(self.texts[name])
        return spelled


def name_among(name: str, known: Iterable[str]) -> str:
    """The declared name behind one whose words run together, as `primarykey` for `primary-key`.

    Args:
        name: in lower case, with dashes where words are apart.
        known: the declared names.

    Returns:
        The name itself where none is meant.
    """
    run_together = {one.replace("-", "").lower(): one for one in known}
    return run_together.get(name.replace("-", ""), name)


def unreadable(of: str, name: str, text: str, reason: Exception) -> ConfigurationError:
    """The error of a property that is kept with a value which means nothing here.

    Args:
        of: what it is kept with.
        name: the property.
        text: its value.
        reason: what is wrong with that.
    """
    unset = "" if name.startswith(("_", "spark.")) else f"ALTER TABLE ... UNSET TBLPROPERTIES ('{name}'), or "
    return ConfigurationError(
        f'table property "{name}" of {of} is "{text[:100]}", with which this release can do nothing ({reason}): '
        f"{unset}take the release that has set it"
    )

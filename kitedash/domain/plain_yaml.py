"""YAML as experiment files and price books need it: plain values only, and no surprises.

Differences to PyYAML's safe loader, each because of a trap: the words on, off, yes and no stay text (they are
booleans in YAML 1.1 only) and 1e3 is a number (it is text in YAML 1.1), as YAML 1.2 has it; a key that is there
twice is an error instead of the last one winning; aliases, tags and deep nesting are refused (a few hundred bytes
of aliases can unfold to gigabytes); dates stay text. `dump` writes by the same rules, so that text stays text.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import yaml

from kitedash.domain.errors import InvalidInput
from kitedash.domain.sentences import shown

MAX_CHARACTERS = 256_000
MAX_DEPTH = 20
MAX_VALUES = 20_000  # ten times what 64 written-out candidates hold; half a second of a slow processor

_RESOLVERS: tuple[tuple[str, str, str], ...] = (
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", "~nN\0"),
    ("tag:yaml.org,2002:int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
)


class _Refused(yaml.MarkedYAMLError):  # type: ignore[misc]  # PyYAML comes without types
    """Valid YAML that is not accepted here."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}
    depth = 0
    values = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise _Refused(None, None, "an alias (*name) is not accepted; write the value out", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise _Refused(None, None, "a tag (!...) is not accepted; write a plain value", event.start_mark)
        self.values += 1
        if self.values > MAX_VALUES:
            raise _Refused(None, None, f"there are more than {MAX_VALUES:,} values", event.start_mark)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _Refused(None, None, f"nesting is deeper than {MAX_DEPTH} levels", event.start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise _Refused(None, None, f"a key must be text, not {shown(key)}", key_node.start_mark)
            if key in found:
                raise _Refused(None, None, f"the key {shown(key)} is there twice", key_node.start_mark)
            found[key] = self.construct_object(value_node, deep=True)
        return found

    def number(self, node: Any) -> int | float:
        text = self.construct_scalar(node)
        try:
            if node.tag.endswith("int"):
                return int(text, 0 if text.startswith(("0x", "0o")) else 10)
            return float(re.sub(r"\.(inf|nan)", r"\1", text.lower()))
        except ValueError:
            raise _Refused(None, None, "a number has too many digits", node.start_mark) from None

    def mapping(self, node: Any) -> dict[Any, Any]:
        return self.construct_mapping(node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.number)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.number)
_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.mapping)


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def flat_list(self, values: list[Any]) -> Any:
        plain = all(not isinstance(value, list | dict) for value in values)
        return self.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=plain)


_Dumper.add_representer(list, _Dumper.flat_list)
for _tag, _pattern, _first in _RESOLVERS:
    for _one in (_Loader, _Dumper):
        _one.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), ["" if c == "\0" else c for c in _first])


def load(text: str, *, source: str = "") -> Any:
    """The one document of `text` as dicts with text keys, lists, text, numbers, booleans and None.

    Raises InvalidInput, naming the line, on anything else.
    """
    where = f"{source}: " if source else ""
    if len(text) > MAX_CHARACTERS:
        raise InvalidInput("", f"{where}the file has {len(text):,} characters; at most {MAX_CHARACTERS:,}")
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a subclass of the safe loader, stricter still
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        said = str(error.problem or error.context or "can't be read")
        said = said if isinstance(error, _Refused) else f"this is not valid YAML ({said})"
        raise InvalidInput("", f"{where}{place}{_one_line(said)}") from None
    except yaml.YAMLError as error:
        raise InvalidInput("", f"{where}this is not valid YAML ({_one_line(str(error))})") from None
    except (RecursionError, ValueError, OverflowError) as error:
        raise InvalidInput("", f"{where}this can't be read as YAML ({_one_line(str(error))})") from None


def dump(value: Any) -> str:
    """Block style, lists of plain values on one line, keys in the order given."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4_096)
    return text


def _one_line(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= 200 else line[:197] + "..."

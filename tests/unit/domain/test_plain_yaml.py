"""YAML without its traps."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitedash.domain import plain_yaml
from kitedash.domain.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("none", "none"),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("no", "no"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("1e3", 1000.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-7", -7),
        ("010", 10),  # octal in YAML 1.1
        ("0x10", 16),
        ("0o17", 15),
        ("1:30", "1:30"),  # 90 in YAML 1.1
        ("1_000", "1_000"),  # 1000 in YAML 1.1
        ("2026-11-30", "2026-11-30"),  # a date in YAML 1.1
        ("<<", "<<"),
        ("'1'", "1"),
        (".inf", float("inf")),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    read = plain_yaml.load(f"key: {text}")["key"]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("value", ["on", "1e3", "010", "none", "true", "~", "", "1:30", "a: b", "- x", "#", "é", " x "])
def test_text_stays_text(value: str) -> None:
    assert plain_yaml.load(plain_yaml.dump({"key": value})) == {"key": value}


@given(
    st.text(st.characters(blacklist_categories=("Cc", "Cs")))
    | st.floats(allow_nan=False)
    | st.integers()
    | st.booleans()
)
def test_every_value_survives(value: object) -> None:
    read = plain_yaml.load(plain_yaml.dump({"key": [value]}))["key"][0]
    assert read == value
    assert type(read) is type(value)


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60)]
    began = time.process_time()
    with pytest.raises(InvalidInput, match="an alias"):
        plain_yaml.load("\n".join(lines))
    assert time.process_time() - began < 1


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(InvalidInput, match="nesting is deeper than 20 levels"):
        plain_yaml.load("[" * 5_000)


@pytest.mark.parametrize(
    "text", ["a: [" + "1," * 120_000 + "]", "a: {" + ",".join(f"k{i}: 1" for i in range(15_000)) + "}"]
)
def test_more_values_than_an_experiment_can_have_are_refused_before_all_are_read(text: str) -> None:
    """Within the limit of characters: what takes time is the number of values, some 25,000 of them a second."""
    with pytest.raises(InvalidInput, match=r"line 1, column \d+: there are more than 20,000 values"):
        plain_yaml.load(text)


def test_a_number_of_many_digits_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a number has too many digits"):
        plain_yaml.load("key: " + "9" * 5_000)


def test_the_file_and_line_are_named() -> None:
    with pytest.raises(InvalidInput, match=r"mine\.yaml: line 3, column 1: the key 'a' is there twice"):
        plain_yaml.load("a: 1\nb: 2\na: 3\n", source="mine.yaml")


def test_one_document_only() -> None:
    with pytest.raises(InvalidInput, match="not valid YAML"):
        plain_yaml.load("a: 1\n---\na: 2\n")

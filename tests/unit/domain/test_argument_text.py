"""Arguments as text: every value comes back with its type."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitedash.domain.argument_text import (
    LONGEST,
    _items,
    environment_text,
    in_words,
    pairs_text,
    parse_environment,
    parse_pairs,
    parse_values,
    text_of,
    value_of,
    values_text,
)
from kitedash.domain.errors import InvalidInput

_TEXT = st.text(st.characters(blacklist_categories=("Cs",)), max_size=20)
_VALUES = st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXT
_NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,12}", fullmatch=True)


@given(st.lists(_VALUES, max_size=5))
def test_values_come_back_with_their_types(values: list[object]) -> None:
    read = parse_values(values_text(values), "f")  # type: ignore[arg-type]
    assert read == values
    assert [type(one) for one in read] == [type(one) for one in values]


@given(st.dictionaries(_NAMES, _VALUES, max_size=4), st.dictionaries(_NAMES, _TEXT, max_size=4))
def test_pairs_come_back_in_their_order(args: dict[str, object], environment: dict[str, str]) -> None:
    assert list(parse_pairs(pairs_text(args), "f").items()) == list(args.items())  # type: ignore[arg-type]
    assert list(parse_environment(environment_text(environment), "f").items()) == list(environment.items())


@given(_TEXT)
def test_any_text_is_read_or_refused_in_one_sentence(text: str) -> None:
    parse_values(text, "field")
    for parse in (parse_pairs, parse_environment):
        with contextlib.suppress(InvalidInput):
            parse(text, "field")
            continue
        with pytest.raises(InvalidInput) as caught:
            parse(text, "field")
        said = str(caught.value)
        assert said.startswith("field: ")
        assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("true", True),
        ("1.0", 1.0),
        ("1e-3", 0.001),
        ('"1"', "1"),
        ("'true'", "true"),
        ("fp8", "fp8"),
        (" fp8 ", "fp8"),
        ("none", "none"),
        ("null", None),
        ('"half', '"half'),
        ("3: 4", "3: 4"),
        ("true # no", "true # no"),
        ("[1]", "[1]"),
    ],
)
def test_what_is_typed_means_what_it_means_in_a_file(text: str, value: object) -> None:
    read = value_of(text)
    assert read == value
    assert type(read) is type(value)


def test_only_what_must_be_is_put_in_quotes() -> None:
    assert [text_of(value) for value in ("fp8", "a b", "1", "a,b", "", "true", True, 1, 0.001)] == [
        "fp8",
        "a b",
        '"1"',
        '"a,b"',
        '""',
        '"true"',
        "true",
        "1",
        "0.001",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("dtype", "f: write name=value, such as max-num-seqs=4, not 'dtype'"),
        ("dtype: float32", "f: write name=value, such as max-num-seqs=4, not 'dtype: float32'"),
        ("dtype=", "f: 'dtype' has no value: write name=value"),
        ("=4", "f: write name=value, such as max-num-seqs=4, not '=4'"),
        ("seed=1, seed=2", "f: 'seed' is there twice"),
    ],
)
def test_what_is_no_pair_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_pairs(text, "f")
    assert str(caught.value).startswith(sentence)


def test_a_variable_is_text_and_a_comma_in_it_needs_quotes() -> None:
    assert parse_environment('A=2\nB="0,2", C=true', "f") == {"A": "2", "B": "0,2", "C": "true"}
    with pytest.raises(InvalidInput, match="a value with commas in quotes"):
        parse_environment("B=0,2", "f")


_ITEM = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"|[^,\n])+')  # what an item is, in one expression: slow for long texts


@given(st.text(st.sampled_from('"\\,a= \n'), max_size=40))
def test_items_are_parted_by_the_commas_that_are_not_in_quotes(text: str) -> None:
    assert _items(text, "f") == [item for found in _ITEM.findall(text) if (item := found.strip())]


@pytest.mark.parametrize("text", ['a=\\"' * 25_000, 'a="' * 33_333, '"\\' * 50_000, '\\"' * 50_000, "1" * 100_000])
def test_a_long_text_takes_no_longer_than_its_length_asks_for_and_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = time.process_time()
    assert value_of(text) == text
    for parse in (parse_pairs, parse_values, parse_environment):
        with pytest.raises(InvalidInput, match=r"^f: holds \d+,\d+ characters; at most 20,000$"):
            parse(text, "f")
    monkeypatch.setattr("kitedash.domain.argument_text.LONGEST", 10**6)
    assert _items(text, "f")
    assert time.process_time() - begun < 1.0  # the slow expression takes a minute and more for the first


def test_what_is_not_too_long_is_read() -> None:
    text = "a" * LONGEST
    assert parse_values(text, "f") == [text]


def test_a_value_is_shown_as_it_is_typed_but_text_stands_without_quotes() -> None:
    assert [in_words(value) for value in (True, False, 16, 0.9, "fp8", "1", "a,b")] == [
        "true",
        "false",
        "16",
        "0.9",
        "fp8",
        "1",
        "a,b",
    ]

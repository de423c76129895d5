"""What counts as the right answer, and above all what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.scorers import name, score, value


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("30", "30"),
        (" `30` ", "30"),
        ("30.", "30"),
        ("30", "30.0"),
        ("1_000", "1000"),
        ("0x10", "16"),
        ("'a'", '"a"'),
        ('("a", 2)', "('a', 2)"),
        ("-1", "-1"),
        ("True", "True"),
        ("None", "None"),
        ("a  +  b", "a + b"),  # no literal: the same tokens
    ],
)
def test_values_that_are_the_same(answer: str, reference: str) -> None:
    assert value(answer, reference, {}) == 1.0


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("", "30"),
        ("``", '"a"'),
        ("31", "30"),
        ("5 or 6", "5"),
        ("5, 6", "5"),
        ("the value is 5", "5"),
        ("1", "True"),
        ("True", "1"),
        ("0", "False"),
        ("a", '"a"'),  # a name is not a string
        ('"A"', '"a"'),
        ("[1]", "(1,)"),
        ("x < limit", "x > limit"),
        ("3.", "30"),
        ("9" * 500, "9"),
        ("((((", "1"),
        ("None", "0"),
    ],
)
def test_values_that_are_not(answer: str, reference: str) -> None:
    assert value(answer, reference, {}) == 0.0


@pytest.mark.parametrize(
    "answer", ["BaseModel", "pydantic.BaseModel", "`BaseModel`.", "the class BaseModel", "is BaseModel"]
)
def test_names_that_are_named(answer: str) -> None:
    assert name(answer, "BaseModel", {}) == 1.0
    assert name(answer, "pydantic.BaseModel", {}) == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Base",
        "BaseModels",
        "MyBaseModel",
        "BaseModel.Config",
        "BaseModel, Strict",  # a list hedges
        "BaseModel or Base",
        "BaseModel BaseModel",
        "basemodel",
        "BaseModel " + "and so on " * 6,
    ],
)
def test_names_that_are_not(answer: str) -> None:
    assert name(answer, "BaseModel", {}) == 0.0


def test_any_reference_will_do_and_an_unknown_scorer_is_an_error() -> None:
    assert score("value", {}, ("1", "2"), "2") == 1.0
    with pytest.raises(KeyError):
        score("similar", {}, ("1",), "1")


@given(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=40), st.tuples(st.integers(), st.booleans()))
)
def test_every_literal_is_its_own_answer_and_empty_never_is(literal: object) -> None:
    text = repr(literal)
    if "`" not in text:
        assert value(text, text, {}) == 1.0
    assert value("", text, {}) == 0.0


@given(st.text(max_size=60))
def test_no_answer_makes_a_scorer_fail(answer: str) -> None:
    assert value(answer, "12", {}) in (0.0, 1.0)
    assert name(answer, "Base", {}) in (0.0, 1.0)

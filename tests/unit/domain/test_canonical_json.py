"""Canonical JSON: one text for one content, whatever order, type of float or time zone it came in."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitedash.domain.canonical_json import canonical, decimal_text, sha256_of, written
from kitedash.domain.experiment import Targets
from kitedash.domain.results import Estimate, LevelStatus


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"),
        (564.2, "564.2"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e-7, "0.0000001"),
        (1e22, "10000000000000000000000.0"),
        (-0.0, "-0.0"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        (float("nan"), "nan"),
    ],
)
def test_a_fraction_is_the_shortest_decimal_text(number: float, text: str) -> None:
    assert canonical(number) == f'"{text}"'
    assert canonical(np.float64(number)) == f'"{text}"'


@given(st.floats(allow_nan=False))
def test_decimal_text_reads_back_to_the_same_double(number: float) -> None:
    text = decimal_text(number)
    assert float(text) == number
    assert "e" not in text


def test_whole_numbers_stay_numbers_and_booleans_stay_booleans() -> None:
    assert canonical([1, True, None, 10**30, np.int64(4)]) == f"[1,true,null,{10**30},4]"


def test_keys_are_sorted_by_code_point_and_text_is_as_it_is() -> None:
    value = {"ü": "≤ 1", "a": 'quote " and \\ and \n', "Z": "\U0001f600", "\uffff": 1, "\U00010000": 2}
    expected = '{"Z":"\U0001f600","a":"quote \\" and \\\\ and \\n","ü":"≤ 1","\uffff":1,"\U00010000":2}'
    assert canonical(value) == expected
    assert canonical(dict(reversed(value.items()))) == expected


def test_times_are_utc_and_end_in_z() -> None:
    noon = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    assert canonical(noon) == '"2026-11-30T12:00:00Z"'
    assert canonical(noon.astimezone(timezone(timedelta(hours=2)))) == canonical(noon)
    assert canonical(noon.replace(microsecond=5)) == '"2026-11-30T12:00:00.000005Z"'
    assert canonical(date(2026, 11, 30)) == '"2026-11-30"'


def test_dataclasses_models_and_enumerations_are_their_fields() -> None:
    assert (
        canonical(Estimate(1.5, None, 2.0, 3)) == '{"high":"2.0","low":null,"more":null,"n":3,"note":"","value":"1.5"}'
    )
    targets = Targets(ttft_p90_ms=800, cost_per_1000_requests_usd=0.1, pass_rate=0.5)
    assert canonical(targets) == '{"cost_per_1000_requests_usd":"0.1","pass_rate":"0.5","ttft_p90_ms":"800.0"}'
    assert canonical((LevelStatus.OK,)) == '["ok"]'


@dataclass
class _Holder:
    value: object


@pytest.mark.parametrize(
    "value",
    [{1: "a"}, {1, 2}, b"bytes", datetime(2026, 11, 30), _Holder(object()), np.bool_(True)],
)
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        canonical(value)


def test_text_that_no_utf8_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        canonical("\ud800")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
)


@given(JSON)
def test_what_was_parsed_is_written_as_it_was(value: object) -> None:
    text = canonical(value)
    assert written(json.loads(text)) == text
    assert sha256_of(text) == hashlib.sha256(text.encode("utf-8")).hexdigest()

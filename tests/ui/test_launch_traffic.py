"""The launch form's traffic: one kind of requests, a mix, or a recorded trace."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from kitedash.domain.experiment_file import parse_experiment
from kitedash.domain.form_fields import with_value
from kitedash.services.actor import LOCAL
from kitedash.services.traces import import_trace, traces
from kitedash.ui.escape import markdown
from tests.ui.conftest import texts
from tests.ui.launching import QUICKSTART, form, fresh, quickstart, red, to_yaml_of, typed

pytestmark = [pytest.mark.ui, pytest.mark.usefixtures("no_rows")]
CSV = b"arrival,input_tokens,output_tokens\n0,100,10\n1,300,20\n3,50,5\n"


def clicked(at: AppTest, name: str) -> AppTest:
    at.button(key=f"_launch_{name}").click().run()
    assert not at.exception
    return at


def test_a_mix_begins_with_what_was_typed_and_goes_back_to_it() -> None:
    at = clicked(typed(quickstart(), "workload.output_tokens", "13"), "mix_add")
    assert [(row.name, row.output_tokens) for row in form(at).mix] == [("chat", "13")]
    assert "_launch_workload.input_tokens" not in {one.key for one in at.text_input}, "it counts for nothing now"
    at = clicked(at, "mix_add")
    at = typed(typed(at, "mix[1].name", "tab completion"), "mix[1].weight", "3")
    at.selectbox(key="_launch_mix[1].kind").select("completion").run()
    assert red(at) == []
    yaml = to_yaml_of(at)
    assert "name: tab completion" in yaml
    assert "kind: completion" in yaml
    assert "weight: 3" in yaml


def test_what_is_wrong_with_a_kind_stands_below_it() -> None:
    at = typed(clicked(quickstart(), "mix_add"), "mix[0].input_tokens", "5")
    assert f"**{markdown('Kind 1, input tokens')}** {markdown('must be at least 8, not 5')}" in red(at)
    assert clicked(at, "mix_0_remove").text_input(key="_launch_workload.input_tokens").value == "5", "nothing is lost"


def test_a_trace_is_imported_chosen_and_launchable() -> None:
    at = fresh()
    assert at.selectbox(key="_launch_trace").options == ["none"]
    import_trace(LOCAL, "monday", CSV, source="m.csv")
    at = quickstart()
    assert at.selectbox(key="_launch_trace").options == ["none", "monday: 3 requests, 0.667/s"]
    at.selectbox(key="_launch_trace").select("monday").run()
    assert not at.exception
    assert form(at).workload.trace == "monday"
    assert "trace: monday" in to_yaml_of(at)
    assert [head.name for head in traces()] == ["monday"]


def test_a_file_that_names_a_trace_which_is_not_there_is_refused_at_the_field() -> None:
    at = quickstart()
    state = at.session_state["_launch"]
    changed = with_value(form(at), "workload.trace", "tuesday")
    for name, text in (("input_tokens", "6000"), ("shared_prefix_tokens", "64"), ("output_tokens", "400")):
        changed = with_value(changed, f"workload.{name}", text)
    at.session_state["_launch"] = type(state)(**{**vars(state), "form": changed})
    at.run()
    assert not at.exception
    sentence = markdown("'tuesday' is not imported")
    assert f"**Recorded trace** {sentence}" in "\n".join(red(at))


def test_a_rate_search_is_switched_on_with_its_fields_and_the_preview_says_how_many_blocks_it_may_take() -> None:
    at = quickstart()
    assert "load blocks a run" not in texts(at)
    at.checkbox(key="_launch_search").check().run()
    assert not at.exception
    at = typed(typed(at, "load.search_precision", "0.2"), "load.search_most_blocks", "17")
    load = parse_experiment(QUICKSTART).load
    listed = len(load.rates_per_s) * load.blocks
    assert f"At most {listed + 17} load blocks a run, 17 of them for the rate search." in texts(at)
    assert (form(at).load.search, form(at).load.search_precision) == ("true", "0.2")
    at = typed(at, "load.search_precision", "0.001")
    assert f"**Precision** {markdown('must be at least 0.02, not 0.001')}" in red(at)
    at = typed(at, "load.search_precision", "0.2")
    yaml = to_yaml_of(at)
    assert "search: true" in yaml
    assert "search_most_blocks: 17" in yaml

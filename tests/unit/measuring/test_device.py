from __future__ import annotations

import psutil
import pytest

from kitedash.domain.errors import InvalidInput
from kitedash.measuring import device


def test_the_processor_is_described() -> None:
    found = device.detect(())
    assert (found.kind, found.ids, found.driver) == ("cpu", ("cpu",), "")
    assert found == device.detect(("cpu",))
    assert found.memory_gib == pytest.approx(psutil.virtual_memory().total / 2**30)
    assert found.name
    assert found.cpu_flags


@pytest.mark.parametrize(
    ("cores", "text"), [({0}, "0"), ({0, 1}, "0-1"), ({5, 0, 1, 2}, "0-2,5"), ({1, 3}, "1,3"), (set(), "")]
)
def test_cores_are_listed_as_vllm_reads_them(cores: set[int], text: str) -> None:
    assert device._core_list(cores) == text


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"slots: '99' is no device of this machine"):
        device.detect(("99",))

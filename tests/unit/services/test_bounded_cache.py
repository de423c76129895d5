"""What a cache keeps and what it forgets."""

from __future__ import annotations

from kitedash.services.bounded_cache import BoundedCache


def test_it_forgets_first_what_was_not_asked_for_the_longest() -> None:
    cache: BoundedCache[str] = BoundedCache(10)
    for key, weight in (("a", 4), ("b", 4)):
        assert cache.put(key, key.upper(), weight) == key.upper()
    assert cache.get("a") == "A"
    cache.put("c", "C", 4)
    assert [cache.get(key) for key in "abc"] == ["A", None, "C"]


def test_a_value_put_again_counts_once_and_one_too_heavy_is_not_kept() -> None:
    cache: BoundedCache[str] = BoundedCache(10)
    cache.put("a", "A", 4)
    for _ in range(5):
        cache.put("b", "B", 5)
    assert cache.get("a") == "A"
    assert cache.put("c", "C", 11) == "C"
    assert [cache.get(key) for key in "abc"] == ["A", "B", None]
    cache.put("a", "A", 11)  # too heavy now: what was kept under the key is gone too
    assert cache.get("a") is None

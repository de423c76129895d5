from __future__ import annotations

import pytest

from kitedash.measuring.server_metrics import Maxima, Snapshot, parse, parse_gauges

TEXT = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 7.0
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 7.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",engine="0",kv_cache_size_tokens="93184"} 1.0
# TYPE vllm:request_queue_time_seconds histogram
vllm:request_queue_time_seconds_bucket{engine="0",le="0.3",model_name="m"} 4.0
vllm:request_queue_time_seconds_bucket{engine="0",le="+Inf",model_name="m"} 4.0
vllm:request_queue_time_seconds_count{engine="0",model_name="m"} 4.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="m"} 0.125
# TYPE vllm:request_prefill_time_seconds histogram
vllm:request_prefill_time_seconds_bucket{engine="0",le="+Inf",model_name="m"} 4.0
vllm:request_prefill_time_seconds_count{engine="0",model_name="m"} 4.0
vllm:request_prefill_time_seconds_sum{engine="0",model_name="m"} 2.5
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 1024.0
# TYPE vllm:prefix_cache_hits_created gauge
vllm:prefix_cache_hits_created{engine="0",model_name="m"} 1.7e+09
"""


def test_counters_gauges_and_the_cache_s_sizes_are_read() -> None:
    snapshot = parse(TEXT)
    assert (snapshot.block_size, snapshot.kv_cache_tokens) == (128, 93_184)
    assert parse(TEXT.replace("93184", "None")).kv_cache_tokens is None
    assert snapshot.values == {
        "running": 5.0,
        "waiting": 7.0,
        "queue_s": 0.125,
        "prefill_s": 2.5,
        "finished": 4.0,
        "prefix_cache_hits": 1024.0,
    }
    assert snapshot.in_system == 12.0


def test_the_quick_scan_agrees_with_the_full_parser() -> None:
    assert parse_gauges(TEXT) == {"running": 5.0, "waiting": 7.0}


def test_deltas_are_of_counters_only() -> None:
    before, after = parse(TEXT), parse(TEXT.replace('_sum{engine="0",model_name="m"} 2.5', "_sum 3.75"))
    assert after.since(before) == {"queue_s": 0.0, "prefill_s": 1.25, "finished": 0.0, "prefix_cache_hits": 0.0}


def test_a_counter_that_went_back_is_a_restart() -> None:
    with pytest.raises(ValueError, match="restarted"):
        Snapshot({"finished": 1.0}).since(Snapshot({"finished": 2.0}))


def test_maxima_keep_the_largest() -> None:
    maxima = Maxima()
    for running in (1.0, 4.0, 2.0):
        maxima.take({"running": running})
    assert (maxima.values, maxima.polls) == ({"running": 4.0}, 3)

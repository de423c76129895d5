from __future__ import annotations

import os

from kitedash.measuring.server_facts import cache_config, tree_memory_gib


def test_labels_of_the_cache_configuration_are_read() -> None:
    metrics = (
        "# HELP vllm:cache_config_info Information\n"
        'vllm:cache_config_info{block_size="16",cache_dtype="auto",kv_cache_size_tokens="46592"} 1.0\n'
    )
    assert cache_config(metrics) == {"block_size": "16", "cache_dtype": "auto", "kv_cache_size_tokens": "46592"}
    assert cache_config("vllm:num_requests_running 0\n") == {}


def test_memory_of_a_tree_is_that_of_living_processes() -> None:
    used = tree_memory_gib(os.getpid())
    assert used is not None
    assert 0.005 < used < 64
    assert tree_memory_gib(2**22 + 1) is None  # above the kernel's highest process id

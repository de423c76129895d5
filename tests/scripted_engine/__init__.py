"""A scripted engine: speaks vLLM's HTTP and takes its time by a script, so that tests know the exact answer.

Ground truth for tests, never a way to get results. `python -m tests.scripted_engine --port N` starts it; it takes
vLLM's argument names as well (those that mean nothing to it are ignored), so a worker can start it in vLLM's place.

  script.py    the knobs, from arguments and from the variable SCRIPTED_ENGINE (JSON)
  timeline.py  when each token is due: slots, queue, prefix cache; arithmetic only, no clock
  kv_cache.py  whole blocks of the KV cache: who waits, who is preempted
  counters.py  what the engine counts, as Prometheus text under vLLM's names
  tokens.py    token counts by the model's own tokenizer and template, or by words without one
  answers.py   what it says: configured texts, fixed-length filler, log-probabilities
  http_api.py  the routes
"""

"""The parts of a record's Markdown that speak of the candidates: numbers, what is given up, how to reproduce them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kitedash.domain import plain_yaml, wording
from kitedash.domain.argument_text import in_words
from kitedash.domain.command import shell_line
from kitedash.domain.madr_text import (
    amount,
    bullets,
    code,
    estimate,
    fenced,
    line,
    number_of,
    paragraphs,
    points,
    table,
)

Option = Mapping[str, Any]

STATUSES = (("P90 TTFT", "ttft_p90"), ("deployed cost", "cost"), ("pass rate", "pass_rate"))


def candidates_table(options: Sequence[Option]) -> str:
    """One row a candidate, at the highest rate that it held."""
    headings = (
        "candidate",
        "rate held",
        "P90 TTFT",
        "P90 TPOT",
        "deployed cost, USD per 1,000 requests",
        "saturated cost, USD per 1,000 requests",
        "replicas",
        "pass rate",
        "status",
        "front",
    )
    return table(headings, [_row(option) for option in options])


def _row(option: Option) -> list[str]:
    numbers = option["numbers"]
    cost = numbers["cost"] or {"deployed_usd": None, "saturated_usd": None, "replicas": None}
    probability = number_of(option["front_probability"])
    front = "yes" if option["on_front"] else "no"
    return [
        line(option["name"]),
        estimate(numbers["rate_held_per_s"], wording.rate),
        estimate(numbers["ttft_p90_ms"], wording.milliseconds),
        estimate(numbers["tpot_p90_ms"], wording.milliseconds),
        estimate(cost["deployed_usd"], wording.number),
        estimate(cost["saturated_usd"], wording.number),
        wording.UNKNOWN if cost["replicas"] is None else f"{cost['replicas']:,}",
        estimate(numbers["pass_rate"], wording.percent),
        line(option["statuses"]["overall"]),
        front if probability is None else f"{front} (probability {100 * probability:.0f} %)",
    ]


def what_is_given_up(document: Mapping[str, Any]) -> list[str]:
    """The chosen candidate against each other member of the front, and against the baseline."""
    compared = [option for option in document["options"] if option["gives_up"]]
    if not compared:
        return []
    parts = ["What it gives up, and what it gains (changes with 95 % intervals, of the pass rate 90 %):"]
    for option in compared:
        sentences = [f"against {line(option['name'])}: {line(one['sentence'])}" for one in option["gives_up"]]
        sentences += [
            f"against {line(option['name'])}, items of {line(one['suite'])}: {line(one['sentence'])}"
            for one in option["items"]
        ]
        parts.append(bullets(sentences))
    return parts


def option_sections(document: Mapping[str, Any]) -> list[str]:
    sections = []
    for option in document["options"]:
        sections += [f"### {line(option['name'])}", *_option(option)]
    return sections


def _option(option: Option) -> list[str]:
    statuses = ", ".join(f"{name} {line(option['statuses'][key])}" for name, key in STATUSES)
    verdicts = [[*_suite(suite)] for suite in option["suites"]]
    levels = [[*_level(level)] for level in option["levels"]]
    return [
        "Chosen." if option["role"] == "chosen" else "",
        f"Not chosen, because: {paragraphs(option['reason'])}" if option["reason"] else "",
        f"What the numbers say against it: {line(option['product_reason'])}" if option["product_reason"] else "",
        f"Targets: {statuses}; overall {line(option['statuses']['overall'])}.",
        f"What would settle it: {line(option['settles'])}" if option["settles"] else "",
        bullets([line(note) for note in option["notes"]]),
        table(("suite", "pass rate", "passed", "truncated", "failed", "change (90 %)", "margin", "verdict"), verdicts)
        if verdicts
        else "",
        table(
            ("rate", "held", "P50 TTFT", "P90 TTFT", "P99 TTFT", "P90 TPOT", "errors", "requests"),
            levels,
        )
        if levels
        else "",
    ]


def _suite(suite: Mapping[str, Any]) -> list[str]:
    change = suite["change"]
    return [
        line(f"{suite['name']} {suite['version'][:12]}"),
        estimate(suite["pass_rate"], wording.percent),
        f"{suite['passed']:,} of {suite['items']:,}",
        f"{suite['truncated']:,}",
        f"{suite['failed']:,}",
        wording.UNKNOWN if change is None else estimate(change, points, "90 %", noted=False),
        amount(suite["margin"], wording.percent),
        line(_verdict(suite)),
    ]


def _verdict(suite: Mapping[str, Any]) -> str:
    verdict, sentence = suite["verdict"], suite["sentence"]
    return sentence if sentence.lower().startswith(verdict) else f"{verdict}: {sentence}"


def _level(level: Mapping[str, Any]) -> list[str]:
    held = "yes" if level["held"] else f"no ({line(level['reason'] or level['status'])})"
    return [
        amount(level["rate_per_s"], wording.rate),
        held,
        *(estimate(level[name], wording.milliseconds) for name in ("ttft_p50_ms", "ttft_p90_ms", "ttft_p99_ms")),
        estimate(level["tpot_p90_ms"], wording.milliseconds),
        amount(level["error_rate"], wording.percent),
        f"{level['requests']:,} ({level['failed']:,} failed)",
    ]


def provenance(document: Mapping[str, Any], sha256: str) -> list[str]:
    """How to reproduce it, and the hashes that it can be checked by."""
    experiment = document["experiment"]
    supersedes = document["supersedes"]
    runs = [
        [line(option["name"]), code(run["run_id"]), code(run["sha256"])]
        for option in document["options"]
        for run in option["evidence"]
    ]
    parts = [
        f"It supersedes record {supersedes}." if supersedes is not None else "",
        f"SHA-256 of this record's canonical JSON: {code(sha256)}" if sha256 else "",
        f"SHA-256 of the record before it: {code(document['previous_sha256'])}" if document["previous_sha256"] else "",
        "Evidence: what each run stored, as a hash.",
        table(("candidate", "run", "SHA-256 of its evidence"), runs),
    ]
    for option in document["options"]:
        parts += [f"Settings, engine and machine of {line(option['name'])}:", *_server(option)]
    return [
        *parts,
        f"The experiment as it was launched (SHA-256 of its JSON: {code(experiment['spec_sha256'])}). Saved as a file, "
        "`kitedash launch FILE` measures it again.",
        fenced(plain_yaml.dump(_without_empty(json.loads(experiment["spec_json"]))), "yaml"),
    ]


def _without_empty(value: Any) -> Any:
    """Leaves out what an experiment file leaves out: absent means the same."""
    if isinstance(value, dict):
        return {key: _without_empty(one) for key, one in value.items() if one not in ({}, [], "", None)}
    return [_without_empty(one) for one in value] if isinstance(value, list) else value


def _server(option: Option) -> list[str]:
    settings, server, price = option["settings"], option["server"], option["price"]
    rows = [["model", line(settings["model"])], ["number format", line(settings["quantization"])]]
    rows += [["devices", f"{settings['devices']:,}"]]
    rows += [
        [f"engine argument {line(name)}", line(in_words(value))] for name, value in settings["engine_args"].items()
    ]
    if price["usd_per_hour"] is not None:
        per_hour = amount(price["usd_per_hour"], wording.usd)
        rows.append(["price", f"{per_hour} per device-hour ({line(price['source'])}, {line(price['date'])})"])
    elif price["missing"]:
        rows.append(["price", line(price["missing"])])
    if server is None:
        rows.append(["engine", "it was never ready, so it said nothing of itself"])
        return [table(("what", "value"), rows)]
    rows += [
        ["device", line(f"{server['device_name']} ({server['device_kind']})")],
        ["driver", line(server["driver"])],
        ["engine package", line(f"{server['engine_package']} {server['vllm_version']}")],
        ["PyTorch", line(server["torch_version"])],
        ["checkpoint", line(server["checkpoint"])],
        ["SHA-256 of the model", code(server["model_sha256"])],
        ["weights", line(server["weight_dtype"])],
        ["kernels", line(", ".join(filter(None, (server["linear_kernel"], server["attention_backend"]))))],
        ["note", line(server["kernel_note"])],
    ]
    # As it was started; the key that it was given is not in it. Parsed JSON keeps no order, so there is one here.
    command = shell_line(server["argv"], dict(sorted(server["environment"].items())))
    return [table(("what", "value"), [row for row in rows if row[1]]), fenced(command, "sh")]

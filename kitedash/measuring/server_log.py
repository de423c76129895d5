"""Reads vLLM's log: how far a start has come, what the engine says of itself, and why it died.

The lines are those of vLLM 0.32; what a log does not say stays empty and is never guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# "(EngineCore pid=24) ERROR 11-30 16:10:28 [async_llm.py:906] text"; either part may be missing
_PREFIX = re.compile(
    r"^(?:\([^)]*?pid=\d+\)\s?)?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+\d\d-\d\d\s+[\d:.]+\s+\[[^\]]*\]\s?)?"
)
_EXCEPTION = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Unavailable))(?::\s*(.*))?$")
_ARGUMENT_ERROR = re.compile(r"^[\w./-]+: error: (.+)$")
_NOT_STARTED = re.compile(r"^([\w./-]+): (No such file or directory|Permission denied)$|^\S*python\S*: (No module .+)$")
# said of another process's end: the reason is further up
_SECOND_HAND = re.compile(
    r"See root cause above|[Ss]ee stack trace|check the stack trace above|WorkerProc initialization failed"
    r"|EngineCore encountered an issue|leaked|cancelled|Worker .*died|Executor failed"
)
_VALIDATION_DETAIL = re.compile(r"^\s+(?:Value error, |Assertion failed, )?(.+?)\s*\[type=\w+.*$")
_WHITE = re.compile(r"\s+")
_PATH = re.compile(r"(?<![\w.])/(?:[^\s/'\"]+/)+([^\s/'\"]+)")
_SENTENCE_END = re.compile(r"[.!] (?=[A-Z])")
SENTENCE_LIMIT = 400
SHORTEST_SENTENCE = 60

_PROGRESS = (
    (re.compile(r"Starting vLLM server|Application startup complete"), "opening the port"),
    (re.compile(r"init engine .* took"), "warmed up"),
    (re.compile(r"KV cache size: [\d,]+ tokens"), "warming up"),
    (re.compile(r"Capturing CUDA graphs|Graph capturing"), "capturing CUDA graphs"),
    (re.compile(r"Dynamo bytecode transform|Compiling a graph|torch\.compile takes"), "compiling"),
    (re.compile(r"Loading weights took|Model loading took"), "profiling memory"),
    (re.compile(r"Starting to load model|Loading safetensors"), "loading weights"),
    (re.compile(r"Initializing a V1 LLM engine"), "starting the engine core"),
    (re.compile(r"non-default args|version \d"), "reading the model's configuration"),
)


@dataclass(frozen=True)
class LogFacts:
    """What the log says. Numbers are None and texts "" where it does not."""

    linear_kernels: tuple[str, ...] = ()  # "Selected K for LAYER" -> K, in order of appearance
    moe_backends: tuple[str, ...] = ()
    attention_backend: str = ""
    kv_cache_tokens: int | None = None
    kv_cache_gib: float | None = None
    weights_gib: float | None = None
    max_concurrency: float | None = None
    dtype: str = ""
    quantization: str = ""
    prefix_caching: bool | None = None
    max_model_len: int | None = None
    engine_init_s: float | None = None
    weight_only: bool = False  # vLLM warns that this GPU lacks the format and computes in a wider one
    warnings: tuple[str, ...] = ()


def size_of(path: Path) -> int:
    """Bytes so far: where the part of the next start begins."""
    return path.stat().st_size if path.exists() else 0


def read_from(path: Path, offset: int) -> str:
    """What was written since the file had `offset` bytes."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def plain(line: str) -> str:
    """The line without the process, level, time and source that vLLM writes in front."""
    return _PREFIX.sub("", line.rstrip("\n"), count=1)


def progress(log: str) -> str:
    """How far a start has come, in a few words."""
    best = "starting Python"
    rank = len(_PROGRESS)
    for line in log.splitlines():
        for position, (pattern, words) in enumerate(_PROGRESS[:rank]):
            if pattern.search(line):
                best, rank = words, position
                break
    return best


def tail(log: str, lines: int = 20) -> str:
    """The last lines that hold anything."""
    return "\n".join([line for line in log.splitlines() if line.strip()][-lines:])


def facts(log: str) -> LogFacts:
    """What the engine said of itself while it started."""
    lines = [plain(line) for line in log.splitlines()]
    text = "\n".join(lines)
    config = next((line for line in lines if line.startswith("Initializing a V1 LLM engine")), "")
    caching = _first(r"\benable_prefix_caching=(True|False)", config)
    return LogFacts(
        linear_kernels=_unique(re.findall(r"^Selected (\w+) for \w+", text, re.MULTILINE)),
        moe_backends=_unique(re.findall(r"^Using '?([\w-]+)'? [\w ]*MoE backend", text, re.MULTILINE)),
        attention_backend=_first(r"^Using (?:AttentionBackendEnum\.)?(\w+) (?:attention )?backend\b(?! for vit)", text),
        kv_cache_tokens=_integer(_first(r"KV cache size: ([\d,]+) tokens", text)),
        kv_cache_gib=_number(
            _first(r"Available KV cache memory: ([\d.]+) GiB", text)
            or _first(r"set \(([\d.]+)/[\d.]+\) GiB for KV cache", text)
        ),
        weights_gib=_number(_first(r"Model loading took ([\d.]+) GiB", text)),
        max_concurrency=_number(_first(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x", text)),
        dtype=_first(r"\bdtype=torch\.(\w+)", config),
        quantization=_first(r"\bquantization=([\w-]+)", config).replace("None", ""),
        prefix_caching=None if not caching else caching == "True",
        max_model_len=_integer(_first(r"\bmax_seq_len=(\d+)", config)),
        engine_init_s=_number(_first(r"^init engine .*? took ([\d.]+) s", text)),
        weight_only="does not have native support for" in text,
        warnings=_unique(re.findall(r"^\([^)]*\) WARNING \S+ \S+ \[[^\]]*\] (.+)$", log, re.MULTILINE)),
    )


def failure_reason(log: str, returncode: int | None = None) -> str:
    """vLLM's own reason for its death, as one sentence without paths; "" where the log holds none.

    The engine's processes die one after the other and the later ones only point back, so the reason is the last
    exception that does not.
    """
    lines = [plain(line) for line in log.splitlines()]
    found = ""
    for position, line in enumerate(lines):
        if argument := _ARGUMENT_ERROR.match(line):
            found = argument[1]
        elif missing := _NOT_STARTED.match(line):
            found = missing[3] or f"{missing[1]}: {missing[2]}"
        elif exception := _EXCEPTION.match(line):
            reason = _reason_of(exception[1], exception[2] or "", lines[position + 1 :])
            if reason and not _SECOND_HAND.search(reason):
                found = reason
    if not found and returncode is not None and (returncode == 137 or returncode == -9):
        found = "it was killed (signal 9), as the system does when memory runs out"
    return _sentence(found)


def _reason_of(kind: str, message: str, after: list[str]) -> str:
    name = kind.rpartition(".")[2]
    if name in ("SystemExit", "KeyboardInterrupt", "CancelledError", "EngineDeadError"):
        return ""
    if name == "ValidationError":
        return "; ".join(_validation_details(after[:20])) or message
    if not message:
        return name
    if message.rstrip().endswith(":"):  # the reasons follow on their own lines
        message = f"{message.rstrip()} {'; '.join(line.strip() for line in after[:3] if line.strip())}"
    informative = name in ("ValueError", "RuntimeError", "AssertionError", "Exception")
    return message if informative else f"{name}: {message}"


def _validation_details(after: list[str]) -> list[str]:
    """pydantic's report: the field on a line of its own (left out for a whole model), what is wrong below it."""
    details = []
    above = ""
    for line in after:
        if match := _VALIDATION_DETAIL.match(line):
            details.append(f"{above}: {match[1]}" if re.fullmatch(r"[\w.]+", above) else match[1])
        above = line.strip()
    return details


def _sentence(text: str) -> str:
    """The first sentence (with the next where it is a mere title), on one line, without paths of this machine."""
    line = _PATH.sub(r"\1", _WHITE.sub(" ", text)).strip()
    if end := _SENTENCE_END.search(line, SHORTEST_SENTENCE):
        line = line[: end.start() + 1]
    if len(line) > SENTENCE_LIMIT:
        line = line[:SENTENCE_LIMIT].rsplit(" ", 1)[0] + " ..."
    return line


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else ""


def _integer(text: str) -> int | None:
    return int(text.replace(",", "")) if text else None


def _number(text: str) -> float | None:
    return float(text) if text else None


def _unique(texts: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))

"""How a job's Pipes messages travel to the step: a file in the run folder or marked log lines.

Stdlib and dagster_pipes only: the job writes with it, the step reads with it.

A message is one JSON line. Where job and step share the run folder, it stands in
`messages.jsonl`. Where they don't, the job prints it behind `MARK` and the step finds it in the
log that Ray's job server hands out. Both are append-only, so a step that attaches late reads
everything from the start.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from dagster_pipes import (
    PipesDefaultMessageWriter,
    PipesMessage,
    PipesMessageWriter,
    PipesMessageWriterChannel,
    PipesParams,
)

from prx_resources.contract import Meta

MARK = "::prx-message::"
"""Stands before a Pipes message in a job's log."""

PROGRESS = "progress"
RESULT = "result"
"""Keys of the two custom messages a job sends: `{"progress": {...}}`, `{"result": {...}}`."""

MARKED_LINES: dict[str, Any] = {PipesDefaultMessageWriter.STDIO_KEY: "stdout"}
"""The Pipes parameters that ask a job for marked lines."""


class _LineChannel(PipesMessageWriterChannel):
    def write_message(self, message: PipesMessage) -> None:
        sys.stdout.flush()
        # One system call: lines that other threads and workers print can't cut it in two.
        line = memoryview(f"{MARK}{json.dumps(message)}\n".encode())
        while line:
            line = line[os.write(sys.stdout.fileno(), line) :]


class MessageWriter(PipesMessageWriter[PipesMessageWriterChannel]):
    """Writes messages to the file, or as marked lines, whichever the step asked for."""

    @contextmanager
    def open(self, params: PipesParams) -> Iterator[PipesMessageWriterChannel]:
        """Opens the channel that `params` names."""
        if PipesDefaultMessageWriter.STDIO_KEY in params:
            yield _LineChannel()
        else:
            with PipesDefaultMessageWriter().open(params) as channel:
                yield channel


class MessageSource(Protocol):
    """Where a step finds a job's messages."""

    def poll(self) -> list[dict[str, Any]]:
        """Returns the messages that came since the last call, in order."""
        ...


class FileSource:
    """Messages in the run folder's `messages.jsonl`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def poll(self) -> list[dict[str, Any]]:
        """Returns the messages that came since the last call, in order."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        # The last line may still be half written.
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [message for line in whole.splitlines() if (message := _parse(line.decode()))]


class LogSource:
    """Messages in a log that can only be fetched as a whole.

    Args:
        fetch: Returns the job's log from its start.
    """

    def __init__(self, fetch: Callable[[], str]) -> None:
        self._fetch = fetch
        self._seen = 0

    def poll(self) -> list[dict[str, Any]]:
        """Returns the messages that came since the last call, in order."""
        log = self._fetch()
        end = log.rfind("\n") + 1
        found = [
            message
            for line in log[self._seen : end].splitlines()
            if (start := line.find(MARK)) >= 0 and (message := _parse(line[start + len(MARK) :]))
        ]
        self._seen = max(self._seen, end)
        return found


def _parse(text: str) -> dict[str, Any] | None:
    try:
        message, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return None
    return message if isinstance(message, dict) and "method" in message else None


def custom(message: Mapping[str, Any], key: str) -> Any:
    """Returns what a custom message carries under `key`, or None if it is another message."""
    if message["method"] != "report_custom_message":
        return None
    payload = (message.get("params") or {}).get("payload")
    return payload.get(key) if isinstance(payload, dict) else None


def compact(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns `messages` with only the last progress, which says all that the others did."""
    last = max((i for i, m in enumerate(messages) if custom(m, PROGRESS)), default=-1)
    return [m for i, m in enumerate(messages) if i == last or not custom(m, PROGRESS)]


def pipes_metadata(metadata: Mapping[str, Meta]) -> dict[str, Any]:
    """Returns metadata in the form that Pipes messages carry."""
    return {key: _pipes_value(value) for key, value in metadata.items()}


def _pipes_value(meta: Meta) -> dict[str, Any]:
    value = meta.value
    if meta.type == "table":
        value = {"records": list(value), "schema": _table_schema(value)}
    return {"raw_value": value, "type": meta.type}


def _table_schema(records: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    first: dict[str, Any] = {}
    for record in records:
        for name, value in record.items():
            if first.get(name) is None:
                first[name] = value
    types = {bool: "bool", int: "int", float: "float"}
    return [{"name": n, "type": types.get(type(v), "string")} for n, v in first.items()]

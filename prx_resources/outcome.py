"""How a job ended, as `result.json` says it. Stdlib only."""

from __future__ import annotations

import json
import os
import re
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prx_resources.contract import JobResult
from prx_resources.errors import PrxError
from prx_resources.object_store import disk_full

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)')
_NOT_OURS = re.compile(r"[/\\](ray|runpy\.py|importlib|concurrent)[/\\.]|<frozen |[/\\]runpy\.py")


@dataclass(frozen=True)
class JobFailure:
    """The exception that ended a job, without the frames of what ran it.

    Attributes:
        kind: Name of the exception's class.
        what: What happened.
        where: File, source, version or code line concerned; may be empty.
        fix: The command or edit that helps; may be empty.
        stopped: A person or the machine asked the job to end.
    """

    kind: str
    what: str
    where: str = ""
    fix: str = ""
    stopped: bool = False

    def __str__(self) -> str:
        text = f"{self.kind}: {self.what}"
        if self.where:
            text += f" ({self.where})"
        return f"{text}\n  fix: {self.fix}" if self.fix else text

    @classmethod
    def of_stop(cls) -> JobFailure:
        """Describes the end of a job that was asked to end."""
        return cls("Stopped", "the job was stopped; finished chunks are kept", stopped=True)

    @classmethod
    def of(cls, error: BaseException) -> JobFailure:
        """Describes `error` by the user's own exception inside it."""
        cause = user_error(error)
        if isinstance(cause, PrxError):
            return cls(type(cause).__name__, cause.what, cause.where, cause.fix)
        if isinstance(cause, KeyboardInterrupt):
            return cls.of_stop()
        if disk_full(cause):
            return cls(
                "StoreRefused",
                "the disk is full; what was finished before is kept",
                str(getattr(cause, "filename", None) or ""),
                "free some space, then run it again",
            )
        text = "".join(traceback.format_exception_only(cause)).strip()
        _, _, what = text.partition(": ")
        what = what.splitlines()[0] if what else "no message"
        return cls(type(cause).__name__, what, _place(error, cause))


def user_error(error: BaseException) -> BaseException:
    """Returns the exception of the user's code that Ray wrapped, or `error` itself."""
    while True:
        # RayTaskError keeps what the task raised in `cause`; Ray Data chains by `__cause__`.
        inner = getattr(error, "cause", None)
        if not isinstance(inner, BaseException) and type(error).__module__.startswith("ray."):
            inner = error.__cause__
        if not isinstance(inner, BaseException) or inner is error:
            return error
        error = inner


def _place(outer: BaseException, cause: BaseException) -> str:
    frames = [(f.filename, f.lineno, f.name) for f in traceback.extract_tb(cause.__traceback__)]
    if not frames:
        # A task's traceback crosses processes as text only.
        found = _FRAME.finditer(str(getattr(outer, "traceback_str", "")))
        frames = [(m["file"], int(m["line"]), m["name"]) for m in found]
    ours = [f for f in frames if not _NOT_OURS.search(f[0])]
    if not ours:
        return ""
    file, line, name = ours[-1]
    return f"{'/'.join(Path(file).parts[-3:])}:{line} in {name}"


@dataclass(frozen=True)
class Outcome:
    """The end of a job: a result or a failure.

    Attributes:
        result: What the job left behind, if it succeeded.
        failure: Why it didn't.
    """

    result: JobResult | None = None
    failure: JobFailure | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns the outcome as plain JSON."""
        return {
            "result": self.result.to_json() if self.result else None,
            "failure": asdict(self.failure) if self.failure else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcome:
        """Rebuilds an outcome from `to_json`'s dict."""
        result, failure = data["result"], data["failure"]
        return cls(
            JobResult.from_json(result) if result else None,
            JobFailure(**failure) if failure else None,
        )

    def write(self, run_dir: Path) -> None:
        """Writes `result.json` so that a reader sees all of it or nothing."""
        write_json(run_dir / "result.json", self.to_json())

    @classmethod
    def read(cls, run_dir: Path) -> Outcome | None:
        """Returns what `result.json` says, or None if the job left none."""
        data = read_json(run_dir / "result.json")
        return None if data is None else cls.from_json(data)


def write_json(path: Path, data: Any) -> None:
    """Replaces a small JSON file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(data, indent=1), encoding="utf-8")
    temporary.replace(path)


def read_json(path: Path) -> Any:
    """Returns a small JSON file's value, or None if there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None

"""The one error tree.

```
PrxError                 what, where, fix; exit code 1
├── UsageError           the command line or launchpad was filled in wrongly (exit 2)
├── RefusedError         asked for something that must not happen (exit 3)
│   ├── ManifestError    a source manifest or settings file is wrong
│   ├── UnknownError     no such source, asset, column, image or job
│   ├── StoreRefused     a store that can't do what safety needs (conditional put, disk space)
│   ├── BusyError        a live job or another writer is in the way
│   └── CostRefused      the work would cost more than `max_cost_per_run`
├── StageError           a stage could not finish
│   ├── SourceReadError  a source or one of its files can't be read at all
│   ├── TableError       a Lance table, chunk or pointer isn't as it must be
│   ├── ConflictError    another writer won; try again
│   ├── InvariantError   what was about to be committed breaks an invariant; nothing was committed
│   └── EngineError      a captioning or labelling engine can't start or died
└── JobError             a Ray job failed, was lost or stopped
    ├── JobFailed        the job ended with an error of its own
    ├── JobLost          the job's process is gone without a result
    └── ClusterUnreachable  Ray's job server or keeper doesn't answer
```

Per-row problems are never exceptions: they are rows with a reason.
"""

from __future__ import annotations


class PrxError(Exception):
    """Something a person must know: what happened, where, and what to do about it.

    Args:
        what: One sentence without a final full stop.
        where: File, source, version or job concerned; may be empty.
        fix: The command or edit that helps; may be empty.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        text = f"{self.what} ({self.where})" if self.where else self.what
        return f"{text}\n  fix: {self.fix}" if self.fix else text

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross Ray processes by pickle; keyword-only arguments need this.
        return (_rebuild, (type(self), self.what, self.where, self.fix))


def _rebuild(kind: type[PrxError], what: str, where: str, fix: str) -> PrxError:
    return kind(what, where=where, fix=fix)


class UsageError(PrxError):
    """The command line or launchpad was filled in wrongly."""

    exit_code = 2


class RefusedError(PrxError):
    """Asked for something that must not happen."""

    exit_code = 3


class ManifestError(RefusedError):
    """A source manifest or settings file is wrong."""


class UnknownError(RefusedError):
    """No such source, asset, column, image or job."""


class StoreRefused(RefusedError):
    """A store that can't do what safety needs."""


class BusyError(RefusedError):
    """A live job or another writer is in the way."""


class CostRefused(RefusedError):
    """The work would cost more than `max_cost_per_run`."""


class StageError(PrxError):
    """A stage could not finish."""


class SourceReadError(StageError):
    """A source or one of its files can't be read at all."""


class TableError(StageError):
    """A Lance table, chunk or pointer isn't as it must be."""


class ConflictError(StageError):
    """Another writer won; try again."""


class InvariantError(StageError):
    """What was about to be committed breaks an invariant; nothing was committed."""


class EngineError(StageError):
    """A captioning or labelling engine can't start or died."""


class JobError(PrxError):
    """A Ray job failed, was lost or stopped."""


class JobFailed(JobError):
    """The job ended with an error of its own."""


class JobLost(JobError):
    """The job's process is gone without a result."""


class ClusterUnreachable(JobError):
    """Ray's job server or keeper doesn't answer."""

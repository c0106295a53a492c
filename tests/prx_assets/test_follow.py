from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from prx_assets import follow
from prx_resources.errors import ClusterUnreachable
from prx_resources.jobs import JobState
from prx_resources.ray_jobs import Submission


class FlakyJob:
    """A job whose server fails `failures` times in a row, then says that it succeeded."""

    id = "prx-dummy-cats-0123456789abcdef-1"

    def __init__(self, failures: int) -> None:
        self._left = failures

    def state(self) -> JobState:
        if self._left:
            self._left -= 1
            raise ClusterUnreachable("no answer")
        return JobState.SUCCEEDED

    def messages(self) -> Any:
        return MagicMock(poll=list)


def follower(failures: int, monkeypatch: pytest.MonkeyPatch) -> follow.Follower:
    monkeypatch.setattr(follow.time, "sleep", lambda _: None)
    return follow.Follower(MagicMock(), Submission(FlakyJob(failures), False), MagicMock())


def test_nineteen_polls_without_an_answer_are_borne(monkeypatch: pytest.MonkeyPatch) -> None:
    assert follower(19, monkeypatch).follow() is JobState.SUCCEEDED


def test_twenty_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterUnreachable):
        follower(20, monkeypatch).follow()

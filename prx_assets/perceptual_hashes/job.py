"""A 64-bit perceptual hash, a colour signature and a flatness mark for every image.

Copies of one picture share the hash even if they were re-encoded or rescaled. Different pictures
may share it too (diagrams of one layout), so a match also needs agreeing signatures, and flat
images never match. Only rows without a hash are computed; `duplicates` compares the result.
"""

from __future__ import annotations

from functools import partial

from prx_assets.perceptual_hashes.hasher import Hasher
from prx_assets.perceptual_hashes.spec import CODE_VERSION, STAGE, PerceptualHashesSpec
from prx_assets.runtime import Job, run_job
from prx_resources.column_stage import ColumnStage, run
from prx_resources.columns import PERCEPTUAL_HASHES
from prx_resources.contract import JobResult

HASHES = ColumnStage(group=PERCEPTUAL_HASHES, reads=("image",), where="set_aside IS NULL")
"""Every image that decodes is hashed, eligible or not: a small copy is a duplicate too."""

SECONDS_PER_ROW = 0.005
"""One core's time for a JPEG of 2 MP with the time to read it; for the estimate only."""


def work(job: Job) -> JobResult:
    """Hashes the source's images that have no hash yet."""
    return run(
        job,
        HASHES,
        partial(Hasher, PerceptualHashesSpec(**job.spec.params)),
        seconds_per_row=SECONDS_PER_ROW,
        identity=f"64-bit DCT, version {CODE_VERSION}",
    )


if __name__ == "__main__":
    run_job(STAGE, work)

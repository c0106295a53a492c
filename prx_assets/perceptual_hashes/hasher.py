"""Rows with image bytes to rows with hashes: what each worker runs."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import pyarrow as pa

from prx_assets.image.decode import DecodeError
from prx_assets.perceptual_hashes.dct import phash
from prx_assets.perceptual_hashes.reduced import read
from prx_assets.perceptual_hashes.signature import is_flat, signature
from prx_assets.perceptual_hashes.spec import PerceptualHashesSpec
from prx_resources.columns import PERCEPTUAL_HASHES

_FIELDS = tuple(f for f in PERCEPTUAL_HASHES.fields if f.name != PERCEPTUAL_HASHES.fp)


@dataclass(frozen=True)
class Hashed:
    """One row's values; all but `error` are None if it failed."""

    phash: int | None = None
    signature: bytes | None = None
    phash_flat: bool | None = None
    phash_error: str | None = None


class Hasher:
    """Computes the columns `phash`, `signature`, `phash_flat` and `phash_error`.

    Args:
        spec: How images are hashed.
    """

    def __init__(self, spec: PerceptualHashesSpec) -> None:
        self.spec = spec
        # One worker a core: OpenCV's own threads would only fight over it.
        cv2.setNumThreads(1)

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Returns one row for each of `rows`, in their order.

        Args:
            rows: Has the column `image` with the files' bytes.
        """
        hashed = [self.hash(image.as_py()) for image in rows["image"]]
        return pa.table(
            {f.name: pa.array([getattr(h, f.name) for h in hashed], f.type) for f in _FIELDS}
        )

    def hash(self, data: bytes | None) -> Hashed:
        """Returns the values of one image, or why there are none: `<reason>: <sentence>`."""
        try:
            picture = read(data or b"", min_side=self.spec.min_side)
            return Hashed(
                phash=phash(picture),
                signature=signature(picture),
                phash_flat=is_flat(picture, self.spec.flat_std),
            )
        except DecodeError as error:
            return Hashed(phash_error=error.reason)
        except Exception as error:  # a row that fails is data, whatever the decoder throws
            return Hashed(phash_error=f"internal: {type(error).__name__}: {error}"[:300])

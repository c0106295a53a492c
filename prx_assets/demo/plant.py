"""Makes the demo's three sources out of its photographs, with the problems that real sources have.

Every byte is a function of the photographs and this file, and modification times are fixed, so
planting twice changes nothing.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageDraw, ImageFont

PHOTOS = Path(__file__).parent / "photos"
_MTIME = 1_700_000_000
_EXIF_ORIENTATION = 0x0112
_ROTATED_90_CLOCKWISE = 6

SNAPSHOTS = [
    "bridge-cables",
    "dragonfly",
    "fig-in-bowl",
    "paint-brushes",
    "picos-trail",
    "sunrise-thumb",
    "ridge-panorama",
    "two-spaniels",
    "wall-clock",
    "clock-detail",
]
ARCHIVE = [
    "autumn-hills",
    "bark",
    "dandelion-portrait",
    "dandelions",
    "forest-stream",
    "waterfall-tall",
    "wine-and-drum",
]
CRAWL = [
    "budgie-and-lamps",
    "nuthatch",
    "snow-peaks-wide",
    "spaniel-portrait",
    "summit-sunrise",
    "fig-close-up",
]


@dataclass(frozen=True)
class Picture:
    """One image of a demo source.

    Attributes:
        name: What `planted.yaml` calls it; unique within its source.
        data: The file's bytes.
        suffix: File name's ending.
        caption: The source's own caption.
    """

    name: str
    data: bytes
    suffix: str
    caption: str


def plant(folder: Path) -> dict[str, Path]:
    """Writes the demo's sources below `folder`.

    Args:
        folder: Where to write; made if missing, files that already have the right bytes stay.

    Returns:
        The place of each source: `snapshots` (folder of images with `.txt` sidecars), `archive`
        (Parquet with bytes, ids and captions), `crawl` (two WebDataset tars).
    """
    made = pictures()
    places = {name: folder / name for name in made}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    for picture in made["snapshots"]:
        _write(places["snapshots"] / f"{picture.name}{picture.suffix}", picture.data)
        _write(places["snapshots"] / f"{picture.name}.txt", picture.caption.encode())
    _write(places["archive"] / "part-0.parquet", _parquet(made["archive"]))
    half = len(made["crawl"]) // 2
    _write(places["crawl"] / "00000.tar", _tar(made["crawl"][:half]))
    _write(places["crawl"] / "00001.tar", _tar(made["crawl"][half:]))
    return places


def pictures() -> dict[str, list[Picture]]:
    """Returns the images of each demo source, in their order."""
    captions = {
        entry["file"].removesuffix(".jpg"): entry["caption"]
        for entry in json.loads((PHOTOS / "manifest.json").read_text())
    }
    return {
        "snapshots": [*_photos(SNAPSHOTS, captions), *_snapshot_plants(captions)],
        "archive": [*_photos(ARCHIVE, captions), *_archive_plants(captions)],
        "crawl": [*_photos(CRAWL, captions), *_crawl_plants(captions)],
    }


def _photos(names: list[str], captions: dict[str, str]) -> Iterator[Picture]:
    for name in names:
        yield Picture(name, (PHOTOS / f"{name}.jpg").read_bytes(), ".jpg", captions[name])


def _snapshot_plants(captions: dict[str, str]) -> Iterator[Picture]:
    whole = (PHOTOS / "autumn-hills.jpg").read_bytes()
    yield Picture("truncated", whole[: len(whole) // 3], ".jpg", captions["autumn-hills"])
    lying = _open("dandelion-portrait").resize((600, 750), Image.Resampling.LANCZOS)
    exif = Image.Exif()
    exif[_EXIF_ORIENTATION] = _ROTATED_90_CLOCKWISE
    turned = lying.transpose(Image.Transpose.ROTATE_90)
    yield Picture(
        "exif-rotated",
        _jpeg(turned, quality=90, exif=exif.tobytes()),
        ".jpg",
        captions["dandelion-portrait"],
    )


def _archive_plants(captions: dict[str, str]) -> Iterator[Picture]:
    yield Picture(
        "bridge-half",
        _jpeg(_open("bridge-cables").resize((960, 540), Image.Resampling.LANCZOS), quality=85),
        ".jpg",
        "A bridge.",
    )
    yield Picture("dragonfly-again", _jpeg(_open("dragonfly"), quality=70), ".jpg", "A dragonfly.")
    yield Picture(
        "cmyk", _jpeg(_open("brushes-square").convert("CMYK"), quality=92), ".jpg", "Brushes, print"
    )
    yield Picture(
        "scanned-page", _jpeg(_page(), quality=80), ".jpg", "A scanned page of a typed report."
    )
    yield Picture("same-id", _jpeg(_open("bark"), quality=60), ".jpg", captions["bark"])


def _crawl_plants(captions: dict[str, str]) -> Iterator[Picture]:
    yield Picture(
        "hills-three-quarters",
        _jpeg(_open("autumn-hills").resize((1350, 899), Image.Resampling.LANCZOS), quality=88),
        ".jpg",
        "<b>Hills</b> in autumn &amp; fog <script>alert(1)</script>",
    )
    yield Picture("alpha", _png(_vignette(_open("fig-in-bowl"))), ".png", captions["fig-in-bowl"])
    yield Picture("slide", _png(_slide()), ".png", "A slide with bullet points.")
    yield Picture("not-an-image", b"<html>404 Not Found</html>", ".jpg", "")


def _open(name: str) -> Image.Image:
    with Image.open(PHOTOS / f"{name}.jpg") as image:
        return image.convert("RGB")


def _jpeg(image: Image.Image, *, quality: int, exif: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality, exif=exif)
    return buffer.getvalue()


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=6)
    return buffer.getvalue()


def _vignette(photo: Image.Image) -> Image.Image:
    """Cuts a photograph out along an ellipse: 720x720 RGBA with transparent corners."""
    photo = photo.resize((720, 720), Image.Resampling.LANCZOS)
    mask = Image.new("L", photo.size, 0)
    ImageDraw.Draw(mask).ellipse((20, 20, 700, 700), fill=255)
    photo.putalpha(mask)
    return photo


def _page() -> Image.Image:
    page = Image.new("RGB", (850, 1100), (250, 249, 245))
    draw = ImageDraw.Draw(page)
    draw.text((80, 60), "Report on the condition of the bridge", (20, 20, 20), _font(34))
    sentence = (
        "The inspection of the cables found light corrosion at the lower anchors and none above "
        "the deck. Painting is due within two years; the drainage was cleaned during the visit. "
    )
    for number in range(5):
        text = "\n".join(textwrap.wrap(f"{number + 1}. " + sentence * 2, 74))
        draw.multiline_text((80, 140 + number * 180), text, (30, 30, 30), _font(19), spacing=8)
    return page


def _slide() -> Image.Image:
    slide = Image.new("RGB", (1280, 720), (255, 255, 255))
    draw = ImageDraw.Draw(slide)
    draw.rectangle((0, 0, 1280, 110), fill=(24, 60, 120))
    draw.text((60, 30), "Quarterly results", (255, 255, 255), _font(46))
    bullets = (
        "Revenue grew by eleven percent",
        "Two new sites opened in May",
        "Costs of transport fell again",
        "Outlook for the year unchanged",
        "Next review on 12 September",
    )
    for number, line in enumerate(bullets):
        draw.text((90, 170 + number * 95), f"- {line}", (25, 25, 25), _font(40))
    return slide


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _parquet(rows: list[Picture]) -> bytes:
    ids = ["bark" if row.name == "same-id" else row.name for row in rows]
    table = pa.table(
        {
            "id": pa.array(ids),
            "image": pa.array([row.data for row in rows], pa.binary()),
            "caption": pa.array([row.caption for row in rows]),
            "embedding": pa.FixedSizeListArray.from_arrays(
                pa.array([value for row in rows for value in _embedding(row)], pa.float32()), 16
            ),
            "camera": pa.array([f"demo-{number % 3}" for number in range(len(rows))]),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=4)
    return sink.getvalue()


def _embedding(row: Picture) -> list[float]:
    """Stands in for a vector that a source ships: mean grey of a 4x4 grid, not a CLIP embedding."""
    with Image.open(io.BytesIO(row.data)) as image:
        grid = image.convert("L").resize((4, 4), Image.Resampling.BOX)
    return [value / 255 for value in grid.tobytes()]


def _tar(rows: list[Picture]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for row in rows:
            # Text before image: members of one sample come in any order.
            for suffix, data in ((".txt", row.caption.encode()), (row.suffix, row.data)):
                member = tarfile.TarInfo(f"{row.name}{suffix}")
                member.size, member.mtime = len(data), _MTIME
                tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _write(path: Path, data: bytes) -> None:
    if not (path.exists() and path.read_bytes() == data):
        path.write_bytes(data)
    os.utime(path, (_MTIME, _MTIME))

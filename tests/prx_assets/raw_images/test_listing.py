from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prx_assets.raw_images.listing import current_fp, digest, list_files, local_path
from prx_resources.errors import ManifestError, SourceReadError


def touch(folder: Path, *names: str) -> None:
    for name in names:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(name.encode())


def paths(kind: str, folder: Path, glob: str) -> list[str]:
    return [file.path for file in list_files(kind, str(folder), glob, allow_empty=True)]


def test_a_folder_lists_images_only(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "a.txt", "b.JPG", "sub/c.png", "notes.md", ".hidden.jpg")
    touch(tmp_path, ".git/d.jpg", "__MACOSX/e.jpg", "sub/Thumbs.db")
    assert paths("folder", tmp_path, "**/*") == ["a.jpg", "b.JPG", "sub/c.png"]
    assert paths("folder", tmp_path, "*") == ["a.jpg", "b.JPG"]
    assert paths("folder", tmp_path, "**/*.md") == ["notes.md"]


@pytest.mark.parametrize(
    ("glob", "want"),
    [
        ("**/*.tar", ["0.tar", "x/1.tar", "x/y/22.tar"]),
        ("*.tar", ["0.tar"]),
        ("x/**", ["x/1.tar", "x/y/22.tar"]),
        ("x/**/*.tar", ["x/1.tar", "x/y/22.tar"]),
        ("**/?.tar", ["0.tar", "x/1.tar"]),
        ("**/[!0].tar", ["x/1.tar"]),
        ("**/[0-1].tar", ["0.tar", "x/1.tar"]),
        ("x/*/22.tar", ["x/y/22.tar"]),
    ],
)
def test_globs(tmp_path: Path, glob: str, want: list[str]) -> None:
    touch(tmp_path, "0.tar", "x/1.tar", "x/y/22.tar")
    assert paths("webdataset", tmp_path, glob) == want


@pytest.mark.parametrize("glob", ["../*", "/etc/*", "a/../../*", ""])
def test_a_glob_stays_below_the_folder(tmp_path: Path, glob: str) -> None:
    with pytest.raises(ManifestError, match="stay below"):
        list_files("folder", str(tmp_path), glob)


def test_missing_and_empty_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceReadError, match="doesn't exist"):
        list_files("folder", str(tmp_path / "no"), "**/*")
    touch(tmp_path, "readme.md")
    with pytest.raises(SourceReadError, match="no file that matches"):
        list_files("folder", str(tmp_path), "**/*")
    assert list_files("folder", str(tmp_path), "**/*", allow_empty=True) == []


def test_the_digest_follows_files_and_their_sidecars(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "b.jpg", "a.txt")

    def now() -> str:
        return digest(list_files("folder", str(tmp_path), "**/*"))

    seen = [now()]
    assert now() == seen[0]
    for name in ("a.txt", "b.json", "c.jpg", "b.jpg"):
        touch(tmp_path, name)
        os.utime(tmp_path / name, (1, len(seen)))
        seen.append(now())
    (tmp_path / "b.json").unlink()
    seen.append(now())
    assert len(set(seen)) == len(seen)
    touch(tmp_path, "unrelated.md")
    assert now() == seen[-1]


def test_the_current_fingerprint_is_the_listed_one(tmp_path: Path) -> None:
    touch(tmp_path, "a.b.jpg", "a.b.txt", "a.b.json", "c.jpg")
    for file in list_files("folder", str(tmp_path), "**/*"):
        assert current_fp("folder", str(tmp_path), file.path) == file.source_fp
    assert current_fp("folder", str(tmp_path), "gone.jpg") is None


def test_a_folder_named_like_a_caption_is_none(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "a.txt/b.jpg")
    for file in list_files("folder", str(tmp_path), "**/*"):
        assert current_fp("folder", str(tmp_path), file.path) == file.source_fp


def test_a_single_image_has_its_caption(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "a.txt", "b.jpg")
    uri = str(tmp_path / "a.jpg")
    (file,) = list_files("folder", uri, "**/*")
    assert file.path == "a.jpg"
    assert current_fp("folder", uri, file.path) == file.source_fp
    (tmp_path / "a.txt").write_text("another caption")
    assert list_files("folder", uri, "**/*") != [file]
    assert paths("webdataset", tmp_path / "a.jpg", "*") == ["a.jpg"]


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9 \xf0.jpg")
    (tmp_path / name).write_bytes(b"x")
    (file,) = list_files("folder", str(tmp_path), "**/*")
    file.path.encode()
    assert local_path(str(tmp_path), file.path).read_bytes() == b"x"


def test_links(tmp_path: Path) -> None:
    touch(tmp_path, "real/a.jpg")
    (tmp_path / "b.jpg").symlink_to(tmp_path / "real/a.jpg")
    (tmp_path / "broken.jpg").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert paths("folder", tmp_path, "**/*") == ["b.jpg", "real/a.jpg"]


def test_a_single_file_is_a_source(tmp_path: Path) -> None:
    touch(tmp_path, "a.parquet", "b.parquet")
    (file,) = list_files("parquet", str(tmp_path / "a.parquet"), "**/*.parquet")
    assert (file.path, local_path(str(tmp_path / "a.parquet"), file.path).name) == (
        "a.parquet",
        "a.parquet",
    )


def test_listing_imports_the_standard_library_only() -> None:
    code = (
        "import sys, prx_assets.raw_images.listing, prx_assets.raw_images.spec\n"
        "assert not {'pyarrow', 'lance', 'ray', 'numpy', 'PIL', 'dagster'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

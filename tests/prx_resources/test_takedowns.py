from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prx_resources import takedowns
from prx_resources.takedowns import Takedown

REQUEST = Takedown("a/1", "a", "sha", 2**63 + 5, bytes(48), "asked by mail")


def test_nobody_asked_yet(tmp_path: Path) -> None:
    uri = str(tmp_path / "takedowns.lance")
    assert takedowns.read(uri).num_rows == 0
    assert takedowns.digest(uri) == takedowns.digest(uri)


def test_a_request_is_put_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "takedowns.lance")
    assert takedowns.put(uri, [REQUEST, REQUEST]) == 1
    before = takedowns.digest(uri)
    assert takedowns.put(uri, [replace(REQUEST, reason="asked again")]) == 0
    assert takedowns.digest(uri) == before
    (row,) = takedowns.read(uri).to_pylist()
    assert (row["phash"], row["signature"], row["source"]) == (2**63 + 5, bytes(48), "a")
    assert row["requested_at"] is not None


def test_a_picture_with_new_content_is_another_request(tmp_path: Path) -> None:
    uri = str(tmp_path / "takedowns.lance")
    takedowns.put(uri, [REQUEST])
    before = takedowns.digest(uri)
    assert takedowns.put(uri, [replace(REQUEST, content_sha256="other", phash=None)]) == 1
    assert takedowns.read(uri).num_rows == 2
    assert takedowns.digest(uri) != before


def test_the_digest_is_independent_of_the_order(tmp_path: Path) -> None:
    other = replace(REQUEST, image_id="a/2")
    uris = [str(tmp_path / f"{number}.lance") for number in range(2)]
    takedowns.put(uris[0], [REQUEST])
    takedowns.put(uris[0], [other])
    takedowns.put(uris[1], [other, REQUEST])
    assert takedowns.digest(uris[0]) == takedowns.digest(uris[1])

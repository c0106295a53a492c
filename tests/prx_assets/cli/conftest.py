import json
from dataclasses import dataclass

import pytest

from prx_assets.cli import main


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    def refused(self, code, what, fix):
        """Asserts the two lines of a refusal."""
        lines = self.err.strip().splitlines()
        assert self.code == code, self.err
        assert len(lines) == 2, self.err
        assert lines[0].startswith("error: "), lines[0]
        assert what in lines[0], lines[0]
        assert lines[1].startswith("  fix: "), lines[1]
        assert fix in lines[1], lines[1]
        assert "Traceback" not in self.err


@pytest.fixture
def prx(tmp_path, capsys, monkeypatch):
    """Runs a command line on a PRX_HOME of the test's own."""
    home = tmp_path / "home"
    for name in ("PRX_HOME", "DAGSTER_HOME"):
        monkeypatch.setenv(name, str(home))

    def call(*arguments):
        capsys.readouterr()
        code = main.run(main.options_first(["--home", str(home), *map(str, arguments)]))
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    call.home = home
    return call

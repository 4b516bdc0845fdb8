"""`patchbay audit` and `patchbay replay`: a hub's chain is exported, verified without the hub, pruned and replayed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from patchbay.access.audit.verification import verify
from patchbay.cid import canonical
from patchbay.cli.commands.patchbay import main
from tests.access.team import team_hub


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a hub that ended, with some calls in its chain."""
    folder = tmp_path_factory.mktemp("audited")
    hub = team_hub(folder, store="sqlite", access="personal", audit="on", activity_contents="keep")
    for number in range(5):
        assert hub.call("notes", "search", {"text": str(number)}).text == f"found {number}"
    hub.activity.close()
    hub.close()
    return folder


def data(folder: Path) -> tuple[str, ...]:
    return ("--data", str(folder / "data"), "--servers", str(folder / "servers"), "--isolation", "inline")


def export(folder: Path, file: Path, *options: str) -> Result:
    done = run("audit", "export", *data(folder), *options)
    assert done.exit_code == 0, done.output
    file.write_bytes(done.stdout_bytes)
    return done


def test_an_exported_chain_verifies_and_a_changed_row_is_named(folder: Path, tmp_path: Path) -> None:
    """ACCESS 7: `patchbay audit export` and `patchbay audit verify FILE`."""
    file = tmp_path / "chain.ndjson"
    done = export(folder, file)
    assert "rows 1 to 7; the first one is a signed head of " in done.stderr
    done = run("audit", "verify", str(file))
    verdict = verify(file.read_bytes().splitlines(keepends=True))
    assert done.exit_code == 0
    assert done.stdout.splitlines()[1:] == [f"key {verdict.key}", f"tip {verdict.tip}"]
    assert run("audit", "verify", str(file), "--key", verdict.key, "--tip", verdict.tip).exit_code == 0
    wrong = run("audit", "verify", str(file), "--key", "A" * 43 + "=")
    assert wrong.exit_code == 1 and "row 1 is signed by the key" in wrong.output
    assert run("audit", "verify", str(file), "--key", "x").exit_code == 2
    file.write_bytes(file.read_bytes().replace(b'"outcome":"ok"', b'"outcome":"no"', 1))
    done = run("audit", "verify", str(file))
    assert done.exit_code == 1 and done.output.startswith("patchbay: chain.ndjson: row 2 is changed: ")


def test_a_change_in_the_database_is_found(folder: Path, tmp_path: Path) -> None:
    """A row that someone deletes from the store is missing in the export."""
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "data").mkdir()
    for name in ("patchbay.sqlite3", "patchbay.sqlite3-wal", "key"):
        if (folder / "data" / name).exists():
            (copy / "data" / name).write_bytes((folder / "data" / name).read_bytes())
    connection = sqlite3.connect(copy / "data" / "patchbay.sqlite3")
    connection.execute(
        "DELETE FROM journal WHERE seq = (SELECT seq FROM journal WHERE topic = 'audit' ORDER BY seq LIMIT 1 OFFSET 1)"
    )
    connection.commit()
    connection.close()
    file = tmp_path / "chain.ndjson"
    export(copy, file)
    done = run("audit", "verify", str(file))
    assert done.exit_code == 1 and "row 2 is missing" in done.output
    direct = run("audit", "verify", *data(copy))
    assert direct.exit_code == 1 and "row 2 is missing" in direct.output
    assert str(copy / "data") in direct.stderr


def test_the_chain_of_the_data_folder_verifies_without_a_file(folder: Path, tmp_path: Path) -> None:
    """With the key of the hub: a chain that another key signed is wrong."""
    file = tmp_path / "chain.ndjson"
    export(folder, file)
    direct = run("audit", "verify", *data(folder))
    assert direct.exit_code == 0, direct.stderr
    assert direct.stdout == run("audit", "verify", str(file)).stdout
    assert run("audit", "verify", *data(folder), "--key", "A" * 43 + "=").exit_code == 1
    assert run("audit", "verify", "--data", str(tmp_path / "none")).exit_code == 2


def test_recorded_calls_are_repeated_and_compared(folder: Path, tmp_path: Path) -> None:
    """ACCESS 7: `patchbay replay RECORD`."""
    file = tmp_path / "chain.ndjson"
    export(folder, file)
    rows = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    calls = [row for row in rows if row["kind"] == "call"]
    done = run("replay", str(calls[0]["seq"]), calls[1]["record"], *data(folder))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        f"{calls[0]['seq']}  notes search  equal  {canonical(calls[0]['result'])}",
        f"{calls[1]['record']}  notes search  equal  {canonical(calls[1]['result'])}",
        "2 of 2 results are equal",
    ]
    done = run("replay", "1", *data(folder))
    assert done.exit_code == 2 and "no row 1 of a call with a record" in done.output
    export(folder, file)
    ways = [orjson.loads(line).get("way") for line in file.read_bytes().splitlines()]
    assert ways.count("replay") == 2, "a repeated call has a row too"


def test_old_rows_are_deleted_up_to_a_signed_head(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "chain.ndjson"
    done = run("audit", "prune", "--before", "0s", *data(folder))
    assert done.exit_code == 0 and "rows are deleted; the chain begins at row " in done.output
    export(folder, file)
    verdict = verify(file.read_bytes().splitlines(keepends=True))
    assert verdict.ok and verdict.first > 1
    done = run("audit", "verify", str(file))
    assert f"the {verdict.first - 1} rows before it are not in the file" in done.stdout


@pytest.mark.parametrize("option", ["yesterday", "9999999999999d", "7w"])
def test_a_wrong_time_is_refused(folder: Path, option: str) -> None:
    done = run("audit", "export", *data(folder), "--since", option)
    assert done.exit_code == 2 and "expected an age such as 7d" in done.output


def test_a_folder_without_a_chain_is_refused_and_stays_as_it_is(folder: Path, tmp_path: Path) -> None:
    done = run("audit", "export", "--data", str(tmp_path / "absent"))
    assert done.exit_code == 2 and "there is no data of a hub" in done.output and not (tmp_path / "absent").exists()
    hub = team_hub(tmp_path, store="sqlite", access="personal")
    hub.activity.close()
    hub.close()
    done = run("audit", "export", *data(tmp_path))
    assert done.exit_code == 2 and "the audit chain is empty" in done.output

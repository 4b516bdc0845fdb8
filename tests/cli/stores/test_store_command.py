"""`patchbay store copy`, `patchbay store migrate`, and what `patchbay doctor` says about a database."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from patchbay.access.audit.chain import AuditChain
from patchbay.access.hub_key import load_key
from patchbay.access.secrets.names import SecretRefused
from patchbay.access.secrets.records import Secrets
from patchbay.access.stored_key_id import open_key
from patchbay.cli.commands.patchbay import main
from patchbay.cli.doctor.database import check_database
from patchbay.rooms.record.canonical import Signer
from patchbay.settings import Settings
from patchbay.stores import open_store
from patchbay.stores.folder_lock import claim_folder
from patchbay.stores.postgresql import PostgresqlStore
from tests.databases import PostgresqlServer
from tests.redises import RedisServer


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["store", *arguments])
    return done.exit_code, done.output


def test_a_hub_is_moved_with_its_root_and_its_audit_chain(tmp_path: Path, database: str) -> None:
    """35.17: there and back."""
    with closing(open_store("sqlite", tmp_path / "data")) as store:
        root = store.blobs.put(b"{}")
        store.names.move({"root": root}, "me", "test")
        AuditChain(store.journal, Signer(b"k" * 32)).append([{"at": 1, "kind": "dropped", "count": 1, "reason": "x"}])
    code, said = run("copy", str(tmp_path / "data"), database)
    assert code == 0, said
    assert f"root {root}" in said and "rows are intact and in order" in said
    assert run("copy", database, str(tmp_path / "back")) == (0, said)
    assert run("copy", database, str(tmp_path / "back")) == (0, said)


def test_a_copy_carries_the_secrets_sealed_and_only_the_key_of_the_hub_opens_them(
    tmp_path: Path, database: str
) -> None:
    """Issue 56, 1."""
    with closing(open_store("sqlite", tmp_path / "data")) as store:
        Secrets(store, b"k" * 32).put("TOKEN", "a-very-secret-value", "local", ["github"])
    code, said = run("copy", str(tmp_path / "data"), database)
    assert code == 0, said
    with closing(PostgresqlStore(database)) as copied:
        assert Secrets(copied, b"k" * 32).find("TOKEN", "github") == "a-very-secret-value"
        with pytest.raises(SecretRefused, match="is for other servers"):
            Secrets(copied, b"k" * 32).find("TOKEN", "stranger")
        with pytest.raises(SecretRefused, match="stored with another key"):
            Secrets(copied, b"o" * 32).find("TOKEN", "github")


def test_a_copy_needs_a_source_and_a_folder_without_a_running_hub(tmp_path: Path, database: str) -> None:
    code, said = run("copy", str(tmp_path / "absent"), database)
    assert code == 2 and f"there is no data of a hub in {tmp_path / 'absent'}" in said
    open_store("sqlite", tmp_path).close()
    with closing(claim_folder(tmp_path)):
        code, said = run("copy", str(tmp_path), database)
    assert code == 2 and "is in use by another hub" in said


def test_the_schema_is_migrated_and_says_so(database: str) -> None:
    """35.18"""
    assert run("migrate", "--store", database) == (0, "the schema is 3; it was 0\n")
    assert run("migrate", "--store", database) == (0, "the schema is 3\n")
    code, said = run("migrate", "--store", "sqlite")
    assert code == 2 and "expected postgresql://user@host/db" in said


def verdicts(settings: Settings) -> dict[str, tuple[str, str]]:
    return {one.check: (one.grade, one.sentence) for one in check_database(settings)}


def test_the_doctor_says_what_a_database_is_like(tmp_path: Path, database: str) -> None:
    """35.18: version, rights, clock, connections, bus."""
    settings = Settings(data=tmp_path, store=database)
    found = verdicts(settings)
    assert {grade for grade, _ in found.values()} == {"ok"}, found
    assert list(found) == ["database", "schema", "rights", "clocks", "connections", "bus"]
    assert found["schema"][1] == "the database is empty; the first start makes the schema"
    PostgresqlStore(database).close()
    assert verdicts(settings)["schema"] == ("ok", "version 3")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE patchbay_schema SET version = 99")
    assert verdicts(settings)["schema"] == ("problem", "it is 99; this program knows 3")
    assert verdicts(Settings(data=tmp_path)) == {}


def test_the_doctor_names_a_user_without_rights(tmp_path: Path, database: str, postgresql: PostgresqlServer) -> None:
    """35.18"""
    PostgresqlStore(database).close()
    postgresql.execute("CREATE ROLE reader LOGIN")
    with psycopg.connect(database, autocommit=True) as connection:
        (schema,) = connection.execute("SELECT current_schema()").fetchone() or ("",)
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO reader".encode())
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader".encode())
    found = verdicts(Settings(data=tmp_path, store=database.replace("hub@", "reader@")))
    assert found["rights"] == ("problem", "reader may not write the tables")


def test_the_doctor_says_that_a_database_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchbay.stores.postgresql.database.READ_SECONDS", 0.0)
    found = verdicts(Settings(data=tmp_path, store="postgresql://hub@127.0.0.1:1/hub"))
    assert found == {"database": ("problem", "the database hub at 127.0.0.1 does not answer")}


def test_the_doctor_names_a_key_of_another_hub_and_changes_nothing(tmp_path: Path, database: str) -> None:
    """35.12"""
    load_key(tmp_path / "first")
    with closing(PostgresqlStore(database)) as store:
        open_key(store, tmp_path / "first")
    settings = Settings(data=tmp_path / "second", store=database)
    expected = "expected the key of the hubs in the database, but "
    assert verdicts(settings)["key"] == ("problem", expected + "this machine has no key")
    assert not settings.data.exists()
    (tmp_path / "key").write_text("ab" * 32)
    other = replace(settings, key_file=str(tmp_path / "key"))
    assert verdicts(other)["key"] == ("problem", expected + "it is that of another hub")
    assert "key" not in verdicts(replace(settings, key_file=str(tmp_path / "first" / "key")))
    assert not settings.data.exists()


def test_the_doctor_uses_the_bucket_and_misses_contents_that_should_be_there(
    tmp_path: Path, database: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """35.20"""
    with closing(PostgresqlStore(database, blobs=bucket)) as store:
        cid = store.blobs.put(bytes(2_000_000))
    settings = Settings(data=tmp_path, store=database, blobs=bucket)
    assert verdicts(settings)["bucket"] == ("ok", f"{bucket} takes, returns and deletes contents")
    other = replace(settings, blobs=f"{bucket}-other")
    assert verdicts(other)["bucket"] == ("problem", f"the content {cid} is not in {bucket}-other")
    without = replace(settings, blobs="")
    assert verdicts(without)["bucket"] == ("problem", "contents of this hub are in a bucket")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert "does not take contents" in verdicts(settings)["bucket"][1]


def test_a_copy_takes_the_large_contents_from_the_bucket(tmp_path: Path, database: str, bucket: str) -> None:
    """35.17"""
    with closing(PostgresqlStore(database, blobs=bucket)) as store:
        cid = store.blobs.put(bytes(2_000_000))
        store.names.move({"root": cid}, "me", "test")
    code, said = run("copy", database, str(tmp_path / "data"), "--blobs", bucket)
    assert code == 0 and f"root {cid}" in said, said
    code, said = run("copy", database, str(tmp_path / "without"))
    assert code != 0 and "the setting --blobs" in said


def test_the_doctor_sends_a_message_through_redis(tmp_path: Path, database: str, redis_server: RedisServer) -> None:
    """35.9"""
    settings = Settings(data=tmp_path, store=database, bus_address=redis_server.address)
    grade, sentence = verdicts(settings)["bus"]
    assert grade == "ok" and "a message through Redis takes" in sentence
    away = verdicts(replace(settings, bus_address="redis://127.0.0.1:1/0"))["bus"]
    assert away[0] == "problem" and "Redis does not answer" in away[1]
    assert redis_server.client.keys("patchbay:doctor:*") == []

"""The source for object stores, against a server of the S3 protocol (moto), a folder, and memory."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from patchbay.client.addresses.targets import AddressError
from patchbay.client.errors import Unreachable
from patchbay.client.profiles.layouts import parse_profile
from patchbay.client.source import SourceContext
from patchbay.client.sources import make_sources
from patchbay.errors import InvalidParams, ParseError, ResourceNotFound, TooLarge
from tests.client.peers import open_context, served

Record = dict[str, Any]
SOURCES = make_sources()
MOTO = r"Running on (http://127\.0\.0\.1:\d+)"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "se/cret", "AWS_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with served(MOTO, "--with", "moto[server]>=5,<6", "moto_server", "-p", "0") as url:
        client = fsspec.filesystem("s3", key="key", secret="se/cret", endpoint_url=url, skip_instance_cache=True)
        client.mkdir("warehouse")
        client.mkdir("scratch")
        for month, name in (("11", "a"), ("11", "b"), ("12", "c")):
            client.pipe(f"warehouse/raw/2024/{month}/{name}.csv", f"gene,n\n{name.upper()},1\n{name},2\n".encode())
        client.pipe("warehouse/summaries/all.json", b'[{"gene": "A", "n": 3}]')
        client.pipe("warehouse/summaries/lines.ndjson.gz", gzip.compress(b'{"n":1}\n\nnonsense\n{"n":2}\n'))
        yield url


@pytest.fixture
def context(tmp_path: Path, s3: str) -> Iterator[SourceContext]:
    with open_context(tmp_path, {**KEYS, "AWS_ENDPOINT_URL_S3": s3}) as found:
        yield found


def read(address: str, context: SourceContext) -> list[Record]:
    return list(SOURCES.find(address, context).reads(address, context))


def write(address: str, records: list[Record], context: SourceContext) -> Record:
    (found,) = SOURCES.find(address, context).writes(address, records, context)
    return found


def test_keys_and_patterns_are_read_as_records(context: SourceContext) -> None:
    """JN-67: CSV, JSON, NDJSON, compression; a pattern says which object a record is from."""
    assert read("s3://warehouse/raw/2024/11/a.csv", context) == [{"gene": "A", "n": "1"}, {"gene": "a", "n": "2"}]
    found = read("s3://warehouse/raw/2024/1[12]/*.csv", context)
    assert [one["gene"] for one in found] == ["A", "a", "B", "b", "C", "c"]
    assert found[-1]["_key"] == "warehouse/raw/2024/12/c.csv"
    assert read("s3://warehouse/summaries/all.json", context) == [{"gene": "A", "n": 3}]
    lines = read("s3://warehouse/summaries/lines.ndjson.gz", context)
    assert [one.get("n") for one in lines] == [1, None, 2]
    assert (lines[1]["type"], lines[1]["line"]) == ("json_decode_error", "nonsense")
    assert read("s3://warehouse/raw/2024/11/a.csv?format=text", context)[0]["text"] == "gene,n\nA,1\na,2\n"


def test_a_bucket_and_a_folder_are_listed(context: SourceContext) -> None:
    assert [one["key"] for one in read("s3://warehouse", context)] == ["warehouse/raw/", "warehouse/summaries/"]
    rows = read("s3://warehouse/raw/2024/11/", context)
    assert [(one["key"], one["size"]) for one in rows] == [
        ("warehouse/raw/2024/11/a.csv", 15),
        ("warehouse/raw/2024/11/b.csv", 15),
    ]
    assert rows[0]["modified"].startswith("20") and rows[0]["etag"]


def test_explore_gives_keys_patterns_and_samples_and_no_hash(context: SourceContext) -> None:
    """JN-54, JN-67."""
    source = SOURCES.find("s3://warehouse/", context)
    found = source.explores("s3://warehouse/", context)
    assert (found["plugin"], found["service"], found["version_hash"]) == ("s3", "warehouse", None)
    assert source.versions("s3://warehouse/", context) is None
    said = found["discoverable"]
    assert len(said["keys"]) == 5 and not said["truncated"]
    patterns = {row["pattern"]: row for row in said["patterns"]}
    assert patterns["warehouse/raw/YYYY/MM/*.csv"]["count"] == 3
    sample = next(one for one in said["sample_metadata"] if one["key"].endswith(".csv"))
    assert (sample["fields"], sample["size"]) == (["gene", "n"], 15)


def test_inspect_shows_objects_as_resources(context: SourceContext) -> None:
    """JN-33."""
    found = SOURCES.get("s3").inspects("s3://warehouse/summaries/", context)
    assert (found["server"], found["transport"], found["tools"]) == ("warehouse", "s3", [])
    assert found["resources"][0] == {
        "uri": "s3://warehouse/summaries/all.json",
        "name": "all.json",
        "description": "23 bytes",
        "mimeType": "application/json",
    }


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "json", "tsv", "csv.gz"])
def test_written_records_are_read_back_completely(context: SourceContext, suffix: str) -> None:
    """JN-12, JN-38, J-F8: keys that come later are columns too."""
    records: list[Record] = [{"a": "1", "_x": 1}, {"a": "2", "b": 'zwei, "und"\nmehr'}]
    done = write(f"s3://scratch/new/{suffix}/out.{suffix}", records, context)
    assert (done["type"], done["records"], done["key"]) == ("object_written", 2, f"scratch/new/{suffix}/out.{suffix}")
    found = read(f"s3://scratch/new/{suffix}/out.{suffix}", context)
    assert [{key: value for key, value in one.items() if value} for one in found] == [{"a": "1"}, {**records[1]}]


def test_a_failed_put_keeps_the_old_object(context: SourceContext, tmp_path: Path) -> None:
    def failing() -> Iterator[Record]:
        yield {"a": 1}
        raise InvalidParams("the producer failed")

    for address in ("s3://scratch/kept/a.ndjson", f"file://{tmp_path}/deep/a.ndjson"):
        write(address, [{"a": "before"}], context)
        with pytest.raises(InvalidParams, match="the producer failed"):
            list(SOURCES.find(address, context).writes(address, failing(), context))
        assert read(address, context) == [{"a": "before"}]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a.ndjson"]


@pytest.mark.parametrize(
    ("address", "kind", "words"),
    [
        ("s3://warehouse/none.csv", ResourceNotFound, "s3://warehouse/none.csv"),
        ("s3://warehouse/none/*.csv", ResourceNotFound, "no object matches"),
        ("s3://nowhere/a.csv", ResourceNotFound, "nowhere"),
        ("s3://warehouse/raw/2024/11/a.csv?format=xml", AddressError, "format=xml: expected one of ndjson, json"),
        ("s3://warehouse/raw/2024/11/a.csv?limit=3", AddressError, "limit=: expected format= or option.NAME="),
        ("s3://", AddressError, "expected a bucket"),
        ("s3://warehouse/raw/2024/11/a.csv?format=json", ParseError, "not JSON"),
        ("s3://warehouse/a.csv?option.endpoint_url=http://127.0.0.1:9", Unreachable, "s3://warehouse/a.csv"),
    ],
)
def test_an_unreadable_object_is_an_error(
    context: SourceContext, address: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words.replace(".", r"\.")):
        read(address, context)


def test_a_pattern_goes_on_after_an_object_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("nonsense")
    (tmp_path / "b.json").write_text('{"n": 1}')
    with open_context(tmp_path) as context:
        broken, good = read(f"file://{tmp_path}/*.json", context)
    assert (broken["type"], broken["_key"]) == ("object_error", str(tmp_path / "a.json"))
    assert good == {"n": 1, "_key": str(tmp_path / "b.json")}


def test_one_object_may_not_be_larger_than_the_limit_where_it_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(["x" * 1000]))
    (tmp_path / "b.ndjson").write_text('{"n": 1}\n' * 1000)
    with open_context(tmp_path, limit=500) as context:
        assert len(read(f"file://{tmp_path}/b.ndjson", context)) == 1000
        with pytest.raises(TooLarge, match="more than 500 bytes"):
            read(f"file://{tmp_path}/a.json", context)


def test_a_profile_names_parts_of_a_bucket(context: SourceContext, s3: str) -> None:
    """JN-64, JN-56: structure, region, credentials by `${VAR}`; valid as long as each pattern has objects."""
    content = {
        "plugin": "s3",
        "bucket": "warehouse",
        "connection": {
            "region": "us-east-1",
            "credentials": "${AWS_ACCESS_KEY_ID}/${AWS_SECRET_ACCESS_KEY}",
            "endpoint_url": s3,
        },
        "schema_hash": None,
        "structure": {"raw": {"pattern": "raw/YYYY/MM/*.csv", "format": "csv"}, "all": {"pattern": "summaries/*.json"}},
        "notes": "Large.",
        "tested_with": ["raw/2024/11/*.csv"],
    }
    context.get_profiles("s3").save(parse_profile("data", content, {}, "the test"))
    assert len(read("@data/raw", context)) == 6
    assert [one["gene"] for one in read("@data/raw?MM=12", context)] == ["C", "c"]
    assert len(read("@data/raw/2024/11/*.csv", context)) == 4
    assert [one["key"] for one in read("@data", context)] == ["warehouse/raw/", "warehouse/summaries/"]
    with pytest.raises(AddressError, match=r"DD=: expected format=, option.NAME= or a placeholder"):
        read("@data/raw?DD=1", context)
    source, kept = SOURCES.get("s3"), context.get_profiles("s3").load("data")
    assert source.validates(kept, context).status == "valid"
    content["structure"] = {"gone": {"pattern": "gone/*.csv"}}
    result = source.validates(parse_profile("data", content, {}, "the test"), context)
    assert (result.status, result.is_breaking) == ("changed", True)
    assert result.changes[0].sentence == "Structure 'gone': no object matches 'gone/*.csv'"


def test_a_profile_with_an_unreachable_store_is_not_valid(context: SourceContext) -> None:
    """JN-44: `error`."""
    content = {"plugin": "s3", "bucket": "b", "connection": {"endpoint_url": "http://127.0.0.1:9"}, "structure": {}}
    result = SOURCES.get("s3").validates(parse_profile("far", content, {}, "the test"), context)
    assert result.status == "error" and "@far" in result.message


def test_an_unset_variable_in_a_profile_is_an_error(context: SourceContext) -> None:
    """JN-15, J-F3."""
    content = {"plugin": "s3", "bucket": "b", "connection": {"credentials": "${NO_KEY}/${NO_SECRET}"}}
    result = SOURCES.get("s3").validates(parse_profile("x", content, {}, "the test"), context)
    assert (result.status, "Environment variable NO_KEY not set" in result.message) == ("error", True)


def test_every_store_of_fsspec_is_used_the_same_way(tmp_path: Path) -> None:
    """JN-67: memory and a folder."""
    with open_context(tmp_path) as context:
        for root in (f"file://{tmp_path}/objects", "memory://objects"):
            write(f"{root}/2024/01/x.ndjson", [{"n": 1}], context)
            write(f"{root}/2024/02/y.ndjson", [{"n": 2}], context)
            assert [one["n"] for one in read(f"{root}/**/*.ndjson", context)] == [1, 2]
            found = SOURCES.find(root, context).explores(f"{root}/", context)
            assert found["plugin"] == "objects"
            assert [row["pattern"].partition("objects")[2] for row in found["discoverable"]["patterns"]] == [
                "/YYYY/MM/*.ndjson"
            ]

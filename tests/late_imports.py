"""What is loaded later than at the start of a process, and by which event: one table for code and for hubs.

`LATE_IMPORTS` has every import inside a function; `LOADED_LATER` has what a hub has not loaded before the event. All
other imports are at the top of their files. Each event is one that a usual start, and a usual call, do not have.
"""

from __future__ import annotations

LATE_IMPORTS: dict[str, dict[str, tuple[str, ...]]] = {
    "a CID in another spelling": {
        "patchbay/cid.py": ("multiformats.CID",),
    },
    "a command with --keep": {
        "patchbay/cli/client_session.py": (
            "patchbay.client.kept.places.NotKept",
            "patchbay.client.kept.starting.open_kept",
        ),
    },
    "a connection that needs the official client": {
        "patchbay/client/connection/link.py": (
            "patchbay.client.auth.oauth.make_auth",
            "patchbay.client.connection.async_connection.AsyncConnection",
        ),
    },
    "a file whose argument takes a link": {
        "patchbay/client/sources/mcp.py": ("patchbay.client.uploads.upload",),
    },
    "a docstring with sections that was not read before": {
        "patchbay/python_functions/docstrings.py": ("griffe",),
    },
    "a list of hosts with a name outside ASCII": {
        "patchbay/processes/egress/egress_list.py": ("idna",),
    },
    "a collector of OpenTelemetry": {
        "patchbay/assembly.py": ("patchbay.activity.telemetry.Telemetry",),
    },
    "a line of the log": {
        "patchbay/serving/logs.py": ("patchbay.serving.log_lines.make_formatter",),
    },
    "a call with a token that is made of the caller's": {
        "patchbay/caller_accounts/obtained.py": ("patchbay.client.auth.token_exchange.TokenServer",),
    },
    "a mounted HTTP API": {
        "patchbay/catalogue/operating/named_sources.py": (
            "patchbay.client.openapi.documents.MAX_DOCUMENT_BYTES",
            "patchbay.client.openapi.documents.load_api_file",
        ),
        "patchbay/kinds/openapi/kind.py": (
            "patchbay.kinds.openapi.handler.api_handler",
            "patchbay.kinds.openapi.standing_api.ApiMount",
            "patchbay.kinds.openapi.standing_api.StandingApi",
            "patchbay.kinds.openapi.standing_api.list_entries",
            "patchbay.kinds.openapi.tools.ApiTools",
        ),
    },
    "a job": {
        "patchbay/stores/postgresql/__init__.py": ("patchbay.stores.postgresql.jobs.PostgresqlJobs",),
        "patchbay/stores/postgresql/schema.py": ("patchbay.stores.postgresql.jobs.prepare_jobs",),
    },
    "a schedule in another time zone than UTC": {
        "patchbay/occurrences/timetables.py": ("zoneinfo.ZoneInfo",),
    },
    "a webhook of an event": {
        "patchbay/protocol/webhooks/sending.py": ("httpx2", "patchbay.client.certificates.load_certificates"),
    },
    "a page": {
        "patchbay/app.py": ("patchbay.web.blueprints.register_pages",),
    },
    "a process of `patchbay stdio` beside no running hub": {
        "patchbay/cli/commands/stdio.py": ("patchbay.cli.stdio.server.serve_stdio",),
    },
    "a passkey": {
        "patchbay/access/people/passkeys.py": ("patchbay.access.people.webauthn_ceremonies",),
    },
    "a pinned contract": {
        "patchbay/cli/local_files.py": ("patchbay.stores.open_store",),
    },
    "a question of a server on a terminal": {
        "patchbay/cli/terminal/question_answers.py": ("patchbay.arguments.problems", "patchbay.arguments.validator"),
    },
    "a record of a person, a token or a sign-in": {
        "patchbay/access/credentials/validity.py": ("patchbay.access.credentials.people.PeopleCredentials",),
        "patchbay/coordination/records.py": ("pydantic.TypeAdapter",),
    },
    "a result that is not plain JSON": {
        "patchbay/outputs/conversion.py": (
            "pydantic_core.PydanticSerializationError",
            "pydantic_core.to_jsonable_python",
        ),
    },
    "a store in PostgreSQL": {
        "patchbay/stores/__init__.py": (
            "patchbay.stores.postgresql.PostgresqlStore",
            "patchbay.stores.postgresql.maintenance.examine_database",
            "patchbay.stores.postgresql.maintenance.migrate_database",
        ),
    },
    "a bucket, or a Redis, of a store in PostgreSQL": {
        "patchbay/stores/postgresql/__init__.py": (
            "patchbay.stores.postgresql.bucket.Bucket",
            "patchbay.stores.postgresql.redis_bus.RedisBus",
        ),
    },
    "a room, or an audited call": {
        "patchbay/rooms/record/canonical.py": (
            "cryptography.exceptions.InvalidSignature",
            "cryptography.hazmat.primitives.asymmetric.ed25519.Ed25519PrivateKey",
            "cryptography.hazmat.primitives.asymmetric.ed25519.Ed25519PublicKey",
            "cryptography.hazmat.primitives.serialization.Encoding",
            "cryptography.hazmat.primitives.serialization.PublicFormat",
        ),
    },
    "a script": {
        "patchbay/protocol/resuming.py": (
            "patchbay.scripting.cancelling.cancel_run",
            "patchbay.scripting.front.script_server",
            "patchbay.scripting.suspended.run_records.CANCELLED",
            "patchbay.scripting.suspended.run_records.DECIDED",
            "patchbay.scripting.suspended.run_records.EXPIRED",
            "patchbay.scripting.suspended.run_records.Outcome",
            "patchbay.scripting.suspended.run_records.SUSPENDED",
            "patchbay.scripting.suspended.suspended_runs.SuspendedRuns",
            "patchbay.scripting.suspended.tool_questions.open_questions",
        ),
        "patchbay/protocol/routing.py": ("patchbay.scripting.front.script_server",),
        "patchbay/protocol/run_tool.py": ("patchbay.scripting.front.script_server",),
        "patchbay/protocol/script_calls.py": (
            "patchbay.scripting.saved.run_saved",
            "patchbay.scripting.suspended.question_digests.digest_of_question",
        ),
        "patchbay/protocol/script_replays.py": (
            *("patchbay.scripting.front.runs_of", "patchbay.scripting.saved.script_arguments"),
            *("patchbay.scripting.replay.RecordedResult", "patchbay.scripting.replay.find_refused"),
            "patchbay.scripting.replay.replay_run",
        ),
        "patchbay/web/scripts/script_trials.py": (
            "patchbay.scripting.front.script_server",
            *("patchbay.scripting.modules.describe_tools", "patchbay.scripting.modules.modules_of"),
        ),
        "patchbay/scripting/front.py": ("patchbay.scripting.runs.ScriptRuns",),
    },
    "a search": {
        "patchbay/fulltext/forms.py": ("snowballstemmer",),
    },
    "a skill": {
        "patchbay/catalogue/reading/skills.py": ("patchbay.yaml_core.strict.parse_front_matter",),
    },
    "a source of another package": {
        "patchbay/client/source.py": ("importlib.metadata.entry_points",),
    },
    "a wrong document": {
        "patchbay/boot/grants.py": ("jsonschema",),
        "patchbay/boot/image.py": ("jsonschema",),
        "patchbay/config.py": ("jsonschema",),
    },
    "an HTTP API of the client": {
        "patchbay/client/sources/__init__.py": (
            "patchbay.client.sources.http.HttpSource",
            "patchbay.client.sources.http.is_described",
            "patchbay.client.sources.plain_urls.fetch_records",
        ),
    },
    "an account of a caller at a mounted server": {
        "patchbay/coordination/sealing.py": (
            "cryptography.exceptions.InvalidTag",
            "cryptography.hazmat.primitives.ciphers.aead.AESGCM",
            "cryptography.hazmat.primitives.hashes.SHA256",
            "cryptography.hazmat.primitives.kdf.hkdf.HKDF",
        ),
    },
    "an address that is taken": {
        "patchbay/cli/commands/serve.py": ("patchbay.cli.running_hub.find_running_hub",),
    },
    "an argument that is not plain JSON": {
        "patchbay/kinds/python/arguments.py": (
            "pydantic.ConfigDict",
            "pydantic.PydanticUserError",
            "pydantic.TypeAdapter",
            "pydantic.ValidationError",
            "pydantic_core.to_json",
            "typing_extensions",
        ),
    },
    "an object store": {
        "patchbay/client/sources/__init__.py": ("patchbay.client.sources.objects.ObjectSource",),
    },
    "an outside issuer": {
        "patchbay/app.py": ("patchbay.access.tokens.access_tokens.AccessTokens",),
    },
    "credentials of a mount in a room": {
        "patchbay/rooms/servers/mounting.py": ("patchbay.client.openapi.http_client.get_origin",),
    },
    "progress on a terminal": {
        "patchbay/cli/terminal/progress_display.py": (
            "patchbay.cli.terminal.progress_bar.ProgressBar",
            "patchbay.cli.terminal.progress_bar.Spinner",
        ),
    },
    "the application in a worker: the supervisor never loads it": {
        "patchbay/cli/commands/serve.py": ("patchbay.app.create_app",),
    },
}
"""The imports inside functions: by the event that they wait for, and by file."""

LOADED_LATER: dict[str, tuple[str, ...]] = {
    "a job": ("procrastinate", "patchbay.stores.postgresql.jobs"),
    "a page": (
        *("patchbay.web.blueprints", "patchbay.web.pages", "patchbay.web.rendering", "patchbay.web.site.site"),
        *("markdown_it", "nh3", "prometheus_client", "pygments"),
    ),
    "a sign-in": (
        *("patchbay.access.people.accounts", "patchbay.access.oauth", "patchbay.access.people.people"),
        *("argon2", "authlib", "joserfc", "webauthn"),
    ),
    "a line of the log": ("structlog", "rich"),
    "a record, or a value that is not plain JSON": ("pydantic", "pydantic_core"),
    "a room, or an account at a mounted server": ("cryptography",),
    "a connection to a server": ("patchbay.client.connection.async_connection", "mcp", "mcp_types"),
    "an HTTP API": ("patchbay.client.openapi.api_connection", "patchbay.kinds.openapi.handler", "httpx2"),
    "a wrong document": ("jsonschema",),
    "a search": ("snowballstemmer",),
    "a script": ("patchbay.scripting", "pydantic_monty"),
    "a library with documents, or a search by meaning": ("numpy", "safetensors", "tokenizers", "wordllama"),
}
"""Modules and packages that a hub loads after its start, by the event that loads them."""

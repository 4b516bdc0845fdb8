"""The state of a room: a JSON object that the log alone determines.

| Key         | Holds                                                                                     |
| ----------- | ----------------------------------------------------------------------------------------- |
| `name`, `creator`, `key`, `salt`, `predecessor` | the values of the first entry                                 |
| `policy`    | rights, requirements and visibility (`DEFAULT_POLICY`)                                      |
| `flags`     | switches of the room, such as `eval`                                                       |
| `members`   | by name: `membership`, `role`, `powers` beyond those of the role, `joined` and `invited` (seq) |
| `sessions`  | by id: `member`, `role`, `profile`, `caps`, `revision`, `joined`, `agent`, `key`            |
| `servers`   | by id: `kind`, `owner` (session), `member`, `status`, `tools` (digests), `resources`, `names`, ... |
| `calls`     | open calls by `callId`: `caller`, `member`, `serverId`, `name`, `tool` (digest) or `method`, `expires` |
| `rationales`| `<session>/<callId>` to the seq of an unused rationale                                      |
| `rules`     | the version of the rules of the fold (`acl.RULES`); absent in a room of the first version     |
| `redacted`  | seq of an entry whose contents are gone, to the seq of the redaction                        |
"""

from __future__ import annotations

from typing import Any

import orjson

from patchbay.rooms.record.envelope import Json

POWERS = ("mount", "announce", "call", "speak", "redact", "policy", "flags", "members", "fork")
"""The powers of roles. A member may always leave, cancel its own calls and redact its own messages."""

OWNER, HUMAN, AGENT, OBSERVER, MIXER = "owner", "human", "agent", "observer", "mixer"
"""The roles that each room has; a policy may add others."""

HISTORY = ("joined", "invited", "all")

DEFAULT_POLICY: Json = {
    "join": "public",
    "history": "joined",
    "profiles": ["persistent", "pseudonymous", "ephemeral", "ghost"],
    "roles": {
        OWNER: list(POWERS),
        HUMAN: ["mount", "announce", "call", "speak", "fork"],
        AGENT: ["announce", "call", "speak"],
        OBSERVER: [],
        MIXER: ["speak"],
    },
    "acl": [],
    "signatures": {"roles": [], "types": []},
    "cache": {"enabled": True, "ttlMs": 60_000},
    "gateway": True,
}
"""The policy of a new room.

`join` is `public` or `invite`; `history` says what a member sees of the time before it joined; `profiles` are the
privacy profiles that are accepted; `roles` gives each role its powers; `acl` has rules for servers (`servers`, `roles`,
`members`, `tools`, `resources`, each a list of patterns); `signatures` names roles and types whose envelopes must be
signed; `cache` lets calls of tools that only read be answered from the log for `ttlMs`; `gateway` lets MCP clients of
the hub call the room's tools.
"""


def empty_state() -> Json:
    """Return the state before the first entry."""
    return {
        **{"name": "", "creator": "", "key": "", "salt": "", "predecessor": None},
        **{"policy": {}, "flags": {}, "members": {}, "sessions": {}, "servers": {}, "calls": {}},
        **{"rationales": {}, "redacted": {}},
    }


def copied(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    return orjson.loads(orjson.dumps(value))

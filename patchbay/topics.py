"""The names and topics of the store: every name that is stored, and every topic of the journal and the bus.

A constant that ends in `/` is a prefix; its comment says what follows. `patchbay/store.py` describes names, journal and
bus. A change of a constant that the journal or the names use breaks existing stores.
"""

from __future__ import annotations

# Names, which point to CIDs

ROOT = "root"
"""The present state of the hub as one boot image."""

BOOT = "boot"
"""The boot image that was imported last."""

BUILT_IN = "built-in"
"""The servers of the default boot image, and whether /mcp lists them without being told so."""

HUB_KEY = "hub-key"
"""The public id of the hub's key."""

SERVERS = "servers/"
"""Rows of servers, by server."""

VARIABLES = "variables/"
"""Variables, by name."""

MCPS = "variables/mcps"
"""The variable with the configurations of servers."""

LISTING = "variables/listing"
"""The variable that configures the list of all servers' tools."""

ACCESS = "variables/access"
"""The variable with the grants: who may see and use what."""

ANNOUNCED_ACCESS = "announced/access"
"""The content of the variable `access` that clients were told about last."""

PAGE_TEMPLATES = "templates/"
"""Templates of pages, by name."""

SERVED = "served/"
"""The version that is served, by server."""

LISTS = "lists/"
"""The lists that clients saw last, by server; the name without a server is for the list of all servers' tools."""

DROP_INS = "dropins/"
"""Versions of files in the watched folder, by server."""

REVOKED = "revoked/"
"""Revocations, by the name that is revoked."""

UPSTREAMS = "upstreams/"
"""The lists of mounted servers, by server and mount."""

PINS = "pins/"
"""The pins of mounted servers and rooms: which descriptors are approved, by server."""

PINNED = "pinned/"
"""The descriptors that mounted servers and rooms list, by server, kind and name; their moves are the history."""

STATE = "state/"
"""The state of tools, by server and key."""

CONTRACTS = "contracts/"
"""Contracts of profiles, by CID; the name keeps the blob."""

ROOMS = "rooms/"
"""The first entries of rooms, by the name of the room."""

ROOM_REMOVALS = "room-removals/"
"""The first entries of rooms that are deleted and whose log is not deleted yet, by room."""

ROOM_MANIFESTS = "room-manifests/"
"""Scope manifests of mounts in rooms, by room and CID; the name keeps the blob."""

ROOM_OFFERS = "room-offers/"
"""What rooms offer to MCP clients, by the name of the room's server."""

# Topics of the bus

NAMES_CHANGED = "names"
"""Names in the store changed: every process loads its servers again."""

BUILT = "built"
"""This process has built servers again; only for this process."""

RERUN = "rerun/"
"""The transforms of a server have to run again, by server."""

RESTART = "restart"
"""The message of `RERUN` after which the processes of the server end first."""

CHANGED = "changed/"
"""The lists of a server changed, by server; without a server, the list of all servers' tools."""

UPDATED = "updated/"
"""The content of a resource changed, by server; the message is the URI."""

VARIABLE_CHANGED = "variable/"
"""A variable of the hub changed, by its name."""

ENDING = "ending"
"""This process stops: every stream of it ends."""

CANCELLED = "cancelled/"
"""A request was cancelled, by the owner of its id."""

ANSWERS = "answer/"
"""A client's answer to a question, by session and question."""

ACCESS_ENDED = "access/ended"
"""Credentials have ended, such as a revoked key or a removed person: what is open asks about its own."""

UPSTREAM_SIGN_INS_CHANGED = "upstream-sign-ins"
"""A principal connected an account at a mounted server, or disconnected it; the message is the key of the server."""

ROOTS_CHANGED = "roots-changed"
"""The roots of a client changed; the message is its session or connection."""

BUS_LAG = "bus-lag"
"""A process tells its name and its time, by which others measure how long messages take."""

METRICS_ASKED = "metrics/asked"
"""A process collects metrics; the message is the topic for the answers."""

METRICS_TOLD = "metrics/told/"
"""The metrics of one process, by request."""

USAGE_ASKED = "usage/asked"
"""A process collects what callers use now; the message is the topic for the answers."""

USAGE_TOLD = "usage/told/"
"""What callers use in the memory of one process, by request."""

ROOM_NEWS = "room/"
"""News of a room for its members, by room."""

ROOM_LIVE = "room-live/"
"""Messages of a room that are not stored, by room."""

ROOM_ALIVE = "room-alive/"
"""Signs of life of the members of a room, by room."""

ROOM_READERS = "room-readers/"
"""Connections that read a session of a room from now on, by room."""

ROOM_TOOLS = "room-tools/"
"""The tools of a room changed, by room."""

# Topics of the journal; the bus has the same topic for each, with a message for each new entry

ACTIVITY = "activity"
"""Records of calls."""

ACTIVITY_INDEX = "activity/index"
"""Summaries of ranges of records."""

AUDIT = "audit"
"""The rows of the audit chain."""

EVENTS = "events/"
"""The events that a server emitted, by server and event type."""

EVENT_IDS = "event-ids/"
"""An event with a given id was stored, by server, event type and hash of the id."""

EVENT_SUBSCRIPTIONS = "event-subscriptions/"
"""A sealed webhook subscription, by its id. On the bus, the topic without an id says that one of them changed."""

EVENT_SUBSCRIPTION_IDS = "event-subscription-ids"
"""The ids of the webhook subscriptions of the hub."""

EVENT_CALLBACKS = "event-callback/"
"""A callback URL that answered the challenge of a principal, by the hash of both."""

EVENT_DELIVERIES = "event-deliveries/"
"""How far the events of a webhook subscription are delivered, and its failures, by its id."""

DISCOVERED = "discovered/"
"""What was read from definitions, by version of the code that read them."""

CHANGES = "changes/"
"""Changes of lists, by server; without a server, changes of any list."""

SESSIONS = "session/"
"""Changes of a legacy session, by its nonce."""

SESSION_ENDED = b"ended"
"""The message on the topic of a session after it has ended, in any process; other messages there are of its streams."""

STREAMS = "stream/"
"""The events of a stream for replay, by session and stream."""

CHANNELS = "channel/"
"""The state of a stream of 2024-11-05, by its id; below it `messages`."""

CALLS = "call/"
"""The messages of a call that its caller can join again, by principal, endpoint and id of the call, as a digest."""

SCHEDULES = "schedule/"
"""The last runs of a tool by its schedule, by server and tool."""

TASK_CHANGES = "task/"
"""Changes of a task, by its id."""

ALIVE = "alive/"
"""Signs of life of a process that runs tasks, by process."""

REQUEST_STATES = "request-state/"
"""Used request states, by nonce."""

RESULTS = "results/"
"""Results that are too large for a message, by owner and CID."""

LEDGERS = "ledger/"
"""What a principal leaves in the store, by owner and account (`catalogue/contents/ledger.py`)."""

REQUESTED_HOSTS = "requested-hosts/"
"""The hosts that a mounted program asked its proxy for, by server."""

LAST_OUTPUTS = "last/"
"""The last output of a tool, by server and tool."""

APPROVALS = "access/approvals"
"""Approvals of calls: each entry is the newest state of one."""

SCRIPT_RUNS = "script-runs"
"""Runs of scripts that were suspended: each entry is the newest state of one, without its contents."""

SCRIPT_RUN = "script-run/"
"""What became of a suspended run of a script, by its id: its sealed snapshot, its claim, its calls, its end."""

NEWEST_PACKAGES = "packages/newest"
"""The newest versions of mounted packages that the page of updates found: each entry is one look."""

KEYS = "access/keys"
"""Personal keys: each entry makes or revokes one."""

KEY_USES = "access/key-uses/"
"""The last use of a personal key, by its name."""

LOGIN_LINKS = "operator/links/"
"""Used login links of the operator, by nonce."""

OPERATOR_SESSIONS = "operator/ended/"
"""Ended sessions of the operator, by nonce."""

ENDED_OPERATORS = "operator/ended-tokens/"
"""Ended tokens of operators, by generation, for the hubs of other machines."""

ACCESS_ENDS = "access/ends"
"""Notes that sessions, sign-ins or people have ended: every process looks at the newest number."""

PEOPLE = "person/"
"""The account of a person, by name."""

PEOPLE_NAMES = "people"
"""The names of accounts that were made and removed."""

PASSKEY_CHALLENGES = "passkey-challenge/"
"""Used challenges of passkeys, by challenge."""

SIGN_IN_STATES = "sign-in-state/"
"""Used states of sign-ins with an identity provider, by their hash."""

SIGN_IN_TOKENS = "sign-in-tokens/"
"""The sealed tokens of an identity provider for a session of a browser, by the id of the session."""

SIGN_IN_SESSIONS = "sign-in-session/"
"""The account of a session at an identity provider, by the hash of its issuer and its `sid`."""

SIGN_IN_INVITED = "sign-in-invited"
"""Who is invited to sign in with an identity provider."""

LOGOUT_TOKENS = "logout-token/"
"""Used logout tokens of identity providers, by the hash of issuer and id."""

AUTHORIZATION_CODES = "oauth-code/"
"""Authorization codes, by their hash; a second entry says that the code was used."""

TOKEN_FAMILIES = "oauth-family/"
"""The tokens of one sign-in of a client, by the hash of the family."""

APPROVED_CLIENTS = "oauth-client/"
"""Metadata documents of clients that a person approved, by the hash of the client id."""

ROOM_LOGS = "room-log/"
"""The log of a room, by room."""

ROOM_CONTENTS = "room-content/"
"""The contents of one envelope in the log of a room, by room and id of the envelope."""

UPSTREAM_TOKENS = "upstream-tokens/"
"""The sealed tokens of a principal at mounted servers, by the hash of the principal."""

SECRET_NAMES = "secret-names"
"""The names of the secrets; on the bus, the name that changed."""

SECRET_ENTRIES = "secret-entries/"
"""The times of a secret and the servers that may use it, by its name."""

SECRETS = "secrets/"
"""The sealed value of a secret, by its name."""

SECRET_USES = "secret-uses/"
"""When each server used a secret last, by the name of the secret."""

UPSTREAM_PRINCIPALS = "upstream-principals/"
"""The first principals that connected an account at a mounted server, by the key of the server."""

UPSTREAM_REQUESTS = "upstream-requests/"
"""A sign-in at a mounted server that has begun, sealed, by the hash of its state."""

UPSTREAM_CLIENTS = "upstream-clients/"
"""The sealed registration of this hub at an authorization server, by the hash of issuer and redirect URI."""

UPSTREAM_REFRESHES = "upstream-refreshes/"
"""A process refreshes the tokens of a principal at a mounted server, by the hash of both."""

CLIENT_ASSERTIONS = "assertions/"
"""Used assertions of programs at the authorization server, by the digest of client and id."""

DPOP_PROOFS = "dpop/"
"""Used DPoP proofs, by the digest of key and id."""

ROOM_CREATORS = "room-creators/"
"""Who created a room, as the ledger names a principal, by room."""

ROOM_WRITERS = "room-writers/"
"""How many bytes each caller has written into the log of a room, as the ledger names a principal, by room."""

ROOM_SNAPSHOTS = "room-snapshots/"
"""The newest snapshot of the folded log of a room, by room."""

LEASES = "leases/"
"""Which process does a piece of regular work for all hubs on a store, by the name of the work."""

LIVING = "living"
"""The processes of all hubs on a store that several machines use, each once a second."""

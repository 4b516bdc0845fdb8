"""Rooms: people, agents and hubs share MCP servers under one signed log. The core, without any transport.

Use by a transport (WebSocket, HTTP, MCP, command line):

    rooms = Rooms(store, key, Bounds.of(settings), GatewayContext(...))   # one for each process; rooms.close() ends it
    room = rooms.create("demo", principal, {"policy": {...}})             # or rooms.open("demo"), rooms.open(room_id)

A connection (WebSocket, SSE):

    session = room.join(principal, hello_payload, after=None)   # BadFrame: close with 1011; RoomRefused: 403
    session.attach(replaced)                       # a connection reads it; without one, it ends when idle
    for envelope in session.greeting: ...          # privacy.accepted, room.policy, presence.join, tool.advertise*
    receipt = session.receive(envelope)            # BadFrame: close with 1011; refusals are answered as envelopes
    for delivery in session.events(): ...          # waits; None is 15 s of silence: send a comment or a ping
    session.leave("the connection ended")

On an event loop use `session.listen(callback)` and `session.read(limit)` in place of `events`: the callback comes on
any thread whenever there may be something to read; `read` never waits and returns at most `limit` deliveries.
A `Delivery` has `envelope`, `data` (the envelope as JSON), `frame` (as a WebSocket frame) and `seq`, its place in the
log, None for a live envelope: it is the id of an SSE event, and `Last-Event-ID` returns it as `after`.
`parse_frame(text, bounds.envelope)` reads a WebSocket frame; `pong_bytes(ts)` answers a ping.

A connection that was lost: `room.rejoin(principal, session_id, hello_payload, after)` in place of `join`, and
`session.detach(replaced)` in place of `leave` if it may come back.

A transport without a connection (`POST`): `room.resume(principal, session_id)` finds the session again, in any
process; `receipt.seq`, `receipt.refusal` and `receipt.answers` have the outcome of an envelope at once.

MCP: `room.tools()` lists the tools (descriptors with digests); `room.call(server_id, tool, arguments,
principal, ttl)` yields the events of one activation and its ending. `patchbay.topics.ROOM_TOOLS` + room id is the
topic of the store's bus that says that the tools have changed.

Pages: `rooms.all()`, `room.state()`, `room.state_cid`, `room.seq`, `room.head`, `room.lines(after, principal)` (the
signed log as NDJSON; `record.verification.verify` checks these lines), `room.entries(after, limit)`,
`rooms.fork(room, seq, principal, name)`.

    record/    a log: canonical JSON, envelopes, entries and the contents beside them, appended and verified
    folding/   the state of a room, folded from its log; rights; policies
    servers/   announced and mounted servers, their calls, answers that are given again
"""

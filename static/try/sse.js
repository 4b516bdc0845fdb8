// Read server-sent events from the body of a response. Source: the HTML standard, event stream format.

/** Yield `{id, retry, data}` for each event; `data` is empty for an event that has an id only. */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      const blocks = rest.split(/\r\n\r\n|\n\n|\r\r/);
      rest = blocks.pop();
      for (const block of blocks) {
        const event = parseEvent(block);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parseEvent(block) {
  const event = { id: null, retry: null, data: "" };
  const data = [];
  let hasField = false;
  for (const line of block.split(/\r\n|\n|\r/)) {
    const colon = line.indexOf(":");
    if (colon === 0) continue;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") data.push(value);
    if (field === "id") event.id = value;
    if (field === "retry" && /^\d+$/.test(value)) event.retry = Number(value);
    hasField = hasField || field !== "";
  }
  event.data = data.join("\n");
  return hasField ? event : null;
}

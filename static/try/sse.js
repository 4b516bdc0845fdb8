// Server-sent events out of the body of an answer, as they arrive. Source: the HTML standard, event stream format.

/** Yields `{id, retry, data}` for each event; `data` is empty where an event only has an id. */
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
        const event = read(block);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function read(block) {
  const event = { id: null, retry: null, data: "" };
  const data = [];
  let said = false;
  for (const line of block.split(/\r\n|\n|\r/)) {
    const colon = line.indexOf(":");
    if (colon === 0) continue;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") data.push(value);
    if (field === "id") event.id = value;
    if (field === "retry" && /^\d+$/.test(value)) event.retry = Number(value);
    said = said || field !== "";
  }
  event.data = data.join("\n");
  return said ? event : null;
}

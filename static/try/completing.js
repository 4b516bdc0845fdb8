// Suggestions while an argument of a prompt or of a resource template is typed. Source: MCP specification, completion.

import { el, fresh } from "./dom.js";
import { Connection } from "./wire.js";

const PAUSE = 150;

/** Lets every field of a form suggest values: `reference` names the prompt or template, `revision()` the protocol. */
export function completing(form, endpoint, reference, revision) {
  for (const place of form.querySelectorAll("[data-name]")) {
    const input = place.querySelector("input");
    if (!input) continue;
    const list = el("datalist", { id: fresh("values") });
    place.append(list);
    input.setAttribute("list", list.id);
    let waiting = null;
    const suggest = () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => filled(list, endpoint, revision(), {
        ref: reference, argument: { name: place.dataset.name, value: input.value }, context: { arguments: others(form, place) } }), PAUSE);
    };
    input.addEventListener("focus", suggest);
    input.addEventListener("input", suggest);
  }
}

function others(form, own) {
  const pairs = [...form.querySelectorAll("[data-name]")].filter((each) => each !== own)
    .map((each) => [each.dataset.name, each.querySelector("input")?.value || ""]);
  return Object.fromEntries(pairs.filter(([, value]) => value));
}

async function filled(list, endpoint, revision, params) {
  const connection = new Connection(endpoint, revision);
  try {
    await connection.open();
    const { completion } = await connection.request("completion/complete", params);
    list.replaceChildren(...completion.values.map((value) => el("option", { value })));
  } catch {
    list.replaceChildren();
  } finally {
    await connection.close().catch(() => {});
  }
}

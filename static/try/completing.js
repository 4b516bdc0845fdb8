// Suggest values while the user types an argument of a prompt or of a resource template.
// Source: MCP specification, server/utilities/completion.

import { el, uniqueId } from "./dom.js";
import { Connection } from "./wire.js";

const TYPING_PAUSE_MS = 150;

/** Add suggestions to every field of a form. `reference` names the prompt or template; `revision()` returns the revision. */
export function addSuggestions(form, endpoint, reference, revision) {
  for (const fieldElement of form.querySelectorAll("[data-name]")) {
    const input = fieldElement.querySelector("input");
    if (!input) continue;
    const list = el("datalist", { id: uniqueId("values") });
    fieldElement.append(list);
    input.setAttribute("list", list.id);
    let waiting = null;
    let asked = 0;
    const ask = async () => {
      const number = ++asked;
      const values = await findSuggestions(endpoint, revision(), {
        ref: reference, argument: { name: fieldElement.dataset.name, value: input.value }, context: { arguments: otherArguments(form, fieldElement) } });
      // An answer can come after that to a later question.
      if (number === asked) list.replaceChildren(...values.map((value) => el("option", { value })));
    };
    const suggest = () => {
      clearTimeout(waiting);
      waiting = setTimeout(ask, TYPING_PAUSE_MS);
    };
    input.addEventListener("focus", suggest);
    input.addEventListener("input", suggest);
  }
}

function otherArguments(form, own) {
  const pairs = [...form.querySelectorAll("[data-name]")].filter((each) => each !== own)
    .map((each) => [each.dataset.name, each.querySelector("input")?.value || ""]);
  return Object.fromEntries(pairs.filter(([, value]) => value));
}

async function findSuggestions(endpoint, revision, params) {
  const connection = new Connection(endpoint, revision);
  try {
    await connection.open();
    const { completion } = await connection.request("completion/complete", params);
    return completion.values;
  } catch {
    return [];
  } finally {
    await connection.close().catch(() => {});
  }
}

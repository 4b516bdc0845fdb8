// The arguments of one call: as a form made from a schema, or as JSON for whoever wants to say something else.

import { button, el, fresh, parsed } from "./dom.js";
import { Misfit, checkNumbers, field } from "./fields.js";

/** `{element, read(), fill(value)}` for an object schema; `read` raises Misfit and puts the sentence beside the field. */
export function argumentsForm(schema, { lines = true } = {}) {
  const root = typeof schema === "object" && schema !== null ? schema : {};
  const filled = Object.keys(root.properties || {}).length > 0;
  const known = filled ? root : { ...root, properties: {} };
  const fields = field({ ...known, type: "object", anyOf: undefined, oneOf: undefined, description: undefined, default: undefined },
    { root, name: "arguments", required: true, bare: true, lines });
  const raw = el("textarea", { rows: "4", spellcheck: "false", "aria-label": "Arguments as JSON" });
  const asJson = el("div", { hidden: true }, raw);
  const toggle = button("As JSON", () => change(), "quiet slim");
  toggle.setAttribute("aria-pressed", "false");
  const problem = el("p", { class: "problem", role: "alert", id: fresh("problem"), hidden: true });
  const element = el("div", { class: "field" }, filled ? fields.element : el("div", {}), asJson, problem);
  let json = false;
  let begun = "";

  function change() {
    try {
      const value = read();
      // What was not touched goes back as it was, also where the form held what is no value.
      if (json && raw.value !== begun) fields.fill(value, true);
      if (!json) raw.value = JSON.stringify(value, null, 2);
    } catch (misfit) {
      if (json || !(misfit instanceof Misfit)) return;
      raw.value = "{}";
      clear();
    }
    json = !json;
    begun = raw.value;
    toggle.setAttribute("aria-pressed", String(json));
    asJson.hidden = !json;
    element.firstChild.hidden = json;
    if (json) raw.focus();
  }

  function clear() {
    problem.hidden = true;
    element.querySelectorAll("[aria-invalid]").forEach((each) => each.removeAttribute("aria-invalid"));
  }

  function told(misfit) {
    problem.textContent = misfit.message;
    problem.hidden = false;
    misfit.input.setAttribute("aria-invalid", "true");
    misfit.input.focus();
    throw misfit;
  }

  function written() {
    const value = parsed(raw.value);
    const object = typeof value === "object" && value !== null && !Array.isArray(value);
    if (!object) throw new Misfit("The arguments have to be a JSON object.", raw);
    checkNumbers(raw.value, "The arguments", raw);
    return value;
  }

  function read() {
    clear();
    try {
      return json ? written() : fields.read();
    } catch (misfit) {
      if (misfit instanceof Misfit) told(misfit);
      throw misfit;
    }
  }

  return { element, toggle, read, fill: (value) => fields.fill(value) };
}

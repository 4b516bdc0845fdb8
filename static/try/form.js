// The arguments of one call: a form made from a schema, or a JSON text.

import { button, el, uniqueId } from "./dom.js";
import { InvalidValue, checkNumbers, makeField } from "./fields.js";
import { parseJson } from "./numbers.js";

/** Make `{element, toggle, read(), fill(value)}` for an object schema. `read` throws InvalidValue and shows its message. */
export function argumentsForm(schema, { lines = true } = {}) {
  const root = typeof schema === "object" && schema !== null ? schema : {};
  const filled = Object.keys(root.properties || {}).length > 0;
  const known = filled ? root : { ...root, properties: {} };
  const fields = makeField({ ...known, type: "object", anyOf: undefined, oneOf: undefined, description: undefined, default: undefined },
    { root, name: "arguments", required: true, bare: true, lines });
  const raw = el("textarea", { rows: "4", spellcheck: "false", "aria-label": "Arguments as JSON" });
  const asJson = el("div", { hidden: true }, raw);
  const toggle = button("As JSON", () => toggleJson(), "quiet slim");
  toggle.setAttribute("aria-pressed", "false");
  const problem = el("p", { class: "problem", role: "alert", id: uniqueId("problem"), hidden: true });
  const element = el("div", { class: "field" }, filled ? fields.element : el("div", {}), asJson, problem);
  let showsJson = false;
  let initialJson = "";

  function toggleJson() {
    try {
      const value = read();
      // JSON that the user did not change leaves the form as it was, with its invalid values.
      if (showsJson && raw.value !== initialJson) fields.fill(value, true);
      if (!showsJson) raw.value = JSON.stringify(value, null, 2);
    } catch (invalid) {
      if (showsJson || !(invalid instanceof InvalidValue)) return;
      raw.value = "{}";
      clear();
    }
    showsJson = !showsJson;
    initialJson = raw.value;
    toggle.setAttribute("aria-pressed", String(showsJson));
    asJson.hidden = !showsJson;
    element.firstChild.hidden = showsJson;
    if (showsJson) raw.focus();
  }

  function clear() {
    problem.hidden = true;
    element.querySelectorAll("[aria-invalid]").forEach((each) => each.removeAttribute("aria-invalid"));
  }

  function showProblem(invalid) {
    problem.textContent = invalid.message;
    problem.hidden = false;
    invalid.input.setAttribute("aria-invalid", "true");
    invalid.input.focus();
    throw invalid;
  }

  function readJson() {
    const value = parseJson(raw.value);
    const object = typeof value === "object" && value !== null && !Array.isArray(value);
    if (!object) throw new InvalidValue("The arguments must be a JSON object.", raw);
    checkNumbers(raw.value, "The arguments", raw);
    return value;
  }

  function read() {
    clear();
    try {
      return showsJson ? readJson() : fields.read();
    } catch (invalid) {
      if (invalid instanceof InvalidValue) showProblem(invalid);
      throw invalid;
    }
  }

  return { element, toggle, read, fill: (value) => fields.fill(value) };
}

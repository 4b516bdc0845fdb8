// Form fields for values of a JSON Schema. Each field is `{element, read(), fill(value)}`. `read` returns `undefined`
// for an empty field, and throws InvalidValue, with its input element, for text that is not a value of the type.

import { button, el, uniqueId } from "./dom.js";
import { asText, findInexactNumber, isRaw, parseJson, readNumber } from "./numbers.js";
import { choices, resolveReference, fieldKind, withoutNull } from "./schema.js";

export class InvalidValue extends Error {
  constructor(message, input) {
    super(message);
    this.input = input;
  }
}

/** Throw InvalidValue when this browser would change a number of this JSON text. */
export function checkNumbers(text, name, input) {
  const found = findInexactNumber(text);
  if (found) throw new InvalidValue(`${name}: a browser cannot send ${found} exactly; call the tool from a program`, input);
}

/** Whether a schema says that its text has several lines. */
function hasLines(schema) {
  return /markdown|html|xml|^text\/|multi-?line|code/i.test(schema.contentMediaType || schema.format || "")
    || (schema.minLength ?? 0) > MAX_SHORT_CHARACTERS || String(schema.default ?? "").includes("\n");
}

// Without a prototype: a schema may have a format with the name of a method of every object.
const INPUTS = { __proto__: null, email: "email", uri: "url", date: "date", time: "time", "date-time": "datetime-local", password: "password" };
const MAX_SHORT_CHARACTERS = 200;

const CONTAINERS = new Set(["object", "array", "variants"]);
const MAX_DEPTH = 8;
const MAX_FIELDS = 1000;

/** How many fields the present action may still make. References of a schema to itself could make millions. */
let fieldsLeft = MAX_FIELDS;

/** Make a field for a schema. `context` is `{root, name, required, lines}`; `lines` allows text of several lines. */
export function makeField(schema, context) {
  fieldsLeft = MAX_FIELDS;
  const made = makeInnerField(schema, context);
  return { ...made, fill: (value, whole) => { fieldsLeft = MAX_FIELDS; made.fill(value, whole); } };
}

/** Make a field inside the present action; beyond MAX_FIELDS or MAX_DEPTH, a field for JSON in place of several fields. */
function makeInnerField(schema, given) {
  const known = withoutNull(resolveReference(schema, given.root), given.root);
  const context = { ...given, depth: (given.depth ?? -1) + 1 };
  const kind = fieldKind(known);
  fieldsLeft -= 1;
  const isTooMuch = CONTAINERS.has(kind) && (fieldsLeft < 0 || context.depth > MAX_DEPTH);
  const made = MAKERS[isTooMuch ? "json" : kind](known, context);
  if (known.default !== undefined && known.default !== null) made.fill(known.default);
  return made;
}

function labelledField(schema, { name, required }, input, ...more) {
  const id = uniqueId("field");
  const hint = schema.description ? el("p", { class: "hint", id: `${id}-hint` }, schema.description) : null;
  const control = input.matches("input, select, textarea") ? input : null;
  control?.setAttribute("id", id);
  if (hint) control?.setAttribute("aria-describedby", hint.id);
  const requiredMark = el("span", { class: "need" }, required ? "required" : "optional");
  const label = el("label", { for: id }, schema.title || name, requiredMark);
  return el("div", { class: "field", "data-name": name }, label, hint, input, more);
}

function fieldGroup(schema, { name, required, bare }, ...children) {
  if (bare) return el("div", { class: "group" }, children);
  const hint = schema.description ? el("p", { class: "hint" }, schema.description) : null;
  const legend = el("legend", {}, schema.title || name, el("span", { class: "need" }, required ? "required" : "optional"));
  return el("fieldset", { class: "field", "data-name": name }, legend, hint, el("div", { class: "group" }, children));
}

function examples(schema, fill) {
  const all = Array.isArray(schema.examples) ? schema.examples.slice(0, 6) : [];
  if (!all.length) return null;
  const buttons = all.map((each) =>
    button(typeof each === "string" ? each : JSON.stringify(each), () => fill(each), "quiet slim"));
  return el("div", { class: "examples", role: "group", "aria-label": "Examples" }, buttons);
}

function string(schema, context) {
  const type = INPUTS[schema.format];
  let input = type || !context.lines || !hasLines(schema)
    ? el("input", { type: type || "text", step: schema.format === "time" ? "1" : null, autocomplete: "off" })
    : el("textarea", { rows: "3", spellcheck: "false" });
  // A one-line field drops line ends, so a text with some gets a field of several lines; Shift+Enter makes one too.
  const widen = (text) => {
    if (input.localName === "textarea" || type || !context.lines) return;
    const area = el("textarea", { rows: "3", spellcheck: "false" });
    for (const name of ["id", "aria-describedby", "list"]) if (input.hasAttribute(name)) area.setAttribute(name, input.getAttribute(name));
    area.value = text;
    input.replaceWith(area);
    input = area;
  };
  /** Insert a text with line ends at the caret. */
  const insertLines = (text) => {
    const after = input.selectionStart + text.length;
    widen(input.value.slice(0, input.selectionStart) + text + input.value.slice(input.selectionEnd));
    input.focus();
    input.setSelectionRange(after, after);
  };
  const mayWiden = input.localName === "input" && !type && context.lines;
  if (mayWiden) {
    input.setAttribute("aria-keyshortcuts", "Shift+Enter");
    input.addEventListener("paste", (event) => {
      const text = (event.clipboardData?.getData("text/plain") ?? "").replace(/\r\n?/g, "\n");
      if (!text.includes("\n")) return;
      event.preventDefault();
      insertLines(text);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !event.shiftKey || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      event.preventDefault();
      insertLines("\n");
    });
  }
  const fill = (value) => {
    const text = value == null ? "" : (FORMATTERS[schema.format] || String)(value);
    if (text.includes("\n")) widen(text);
    else input.value = text;
  };
  const read = () => {
    if (input.value === "" && !(context.required && !type)) return schema.nullable && context.required ? null : undefined;
    if (schema.format === "date-time") return new Date(input.value).toISOString();
    if (schema.format === "time") return `${input.value.length === 5 ? `${input.value}:00` : input.value}Z`;
    return input.value;
  };
  return { element: labelledField(schema, context, input, examples(schema, fill)), read, fill };
}

/** Format an ISO 8601 time for a `datetime-local` field; empty for other text. */
function toLocalTime(value) {
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? "" : new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}

const FORMATTERS = { __proto__: null, "date-time": toLocalTime, time: (value) => String(value).replace(/(\.\d+)?(z|[+-]00:00)$/i, "") };

function number(schema, context) {
  const whole = schema.type === "integer";
  const bound = (value) => value === undefined ? null : asText(value);
  const input = el("input", { type: "number", step: whole ? bound(schema.multipleOf) ?? "1" : "any", min: bound(schema.minimum),
    max: bound(schema.maximum), inputmode: whole ? "numeric" : "decimal" });
  const fill = (value) => { input.value = value == null ? "" : asText(value); };
  const read = () => {
    if (input.validity.badInput) throw new InvalidValue(`${context.name} must be a number`, input);
    if (/^-?\d+$/.test(input.value)) checkNumbers(String(input.value).replace(/^(-?)0+(?=\d)/, "$1"), context.name, input);
    if (input.value !== "") return readNumber(input.value);
    if (context.required && !schema.nullable) throw new InvalidValue(`${context.name} is required: a number`, input);
    return context.required ? null : undefined;
  };
  return { element: labelledField(schema, context, input, examples(schema, fill)), read, fill };
}

function boolean(schema, context) {
  if (!context.required && schema.default === undefined) {
    return choice({ ...schema, enum: [true, false], enumNames: ["yes", "no"] }, context);
  }
  const input = el("input", { type: "checkbox" });
  const hint = schema.description ? el("p", { class: "hint" }, schema.description) : null;
  const element = el("div", { class: "field", "data-name": context.name },
    el("label", { class: "choice" }, input, schema.title || context.name), hint);
  return { element, read: () => input.checked, fill: (value = schema.default) => { input.checked = value === true; } };
}

function choice(schema, context) {
  const all = choices(schema);
  const options = all.map(({ label }, index) => el("option", { value: String(index) }, label));
  const input = el("select", {}, el("option", { value: "" }, context.required ? "choose one" : "not given"), options);
  const fill = (value) => {
    const index = all.findIndex((each) => JSON.stringify(each.value) === JSON.stringify(value));
    input.value = index < 0 ? "" : String(index);
  };
  const read = () => {
    if (input.value !== "") return all[Number(input.value)].value;
    if (context.required && !schema.nullable) throw new InvalidValue(`${context.name} is required: choose one`, input);
    return context.required ? null : undefined;
  };
  if (all.length === 1 && context.required) input.value = "0";
  return { element: labelledField(schema, context, input), read, fill };
}

function multipleChoice(schema, context) {
  const all = choices(schema.items);
  const boxes = all.map(() => el("input", { type: "checkbox" }));
  const rows = all.map(({ label }, index) => el("label", { class: "choice" }, boxes[index], label));
  const read = () => {
    const found = all.filter((_, index) => boxes[index].checked).map((each) => each.value);
    return found.length || context.required ? found : undefined;
  };
  const fill = (values) => boxes.forEach((box, index) => {
    box.checked = Array.isArray(values) && values.some((each) => JSON.stringify(each) === JSON.stringify(all[index].value));
  });
  return { element: fieldGroup(schema, context, rows), read, fill };
}

function array(schema, context) {
  const list = el("div", { class: "field" });
  const entries = [];
  const add = (value, whole) => {
    const name = `${context.name} ${entries.length + 1}`;
    const made = makeInnerField(schema.items, { ...context, name, required: true, bare: false });
    const row = el("div", { class: "entry" }, made.element);
    row.append(button("Remove", () => { entries.splice(entries.indexOf(made), 1); row.remove(); more.focus(); }, "quiet slim"));
    if (value !== undefined) made.fill(value, whole);
    entries.push(made);
    list.append(row);
    return row;
  };
  const addEmpty = () => {
    fieldsLeft = MAX_FIELDS;
    add().querySelector("input, select, textarea")?.focus();
  };
  const more = button(`Add to ${context.name}`, addEmpty, "quiet slim");
  const read = () => {
    const found = entries.map((each) => each.read());
    return found.length || context.required ? found : undefined;
  };
  const fill = (values, whole) => {
    entries.length = 0;
    list.replaceChildren();
    if (Array.isArray(values)) values.forEach((each) => add(each, whole));
  };
  for (let number = 0; number < Math.min(schema.minItems || 0, 10) && fieldsLeft > 0; number += 1) add();
  return { element: fieldGroup(schema, context, list, el("div", {}, more)), read, fill };
}

function object(schema, context) {
  const required = new Set(schema.required || []);
  const fields = Object.entries(schema.properties).map(([name, inner]) => [name, makeInnerField(inner, {
    ...context, name, required: required.has(name), bare: false })]);
  let extra = {};
  const read = () => {
    let found = {};
    let invalid = null;
    for (const [name, each] of fields) {
      try {
        const value = each.read();
        if (value !== undefined) Object.defineProperty(found, name, { value, enumerable: true, writable: true, configurable: true });
      } catch (problem) {
        if (!(problem instanceof InvalidValue)) throw problem;
        invalid = invalid || problem;
      }
    }
    found = { ...found, ...extra };
    if (invalid && (context.required || Object.keys(found).length)) throw invalid;
    return context.required || Object.keys(found).length ? found : undefined;
  };
  const fill = (value, whole) => {
    const given = value || {};
    for (const [name, each] of fields) {
      if (Object.hasOwn(given, name) || whole) each.fill(Object.hasOwn(given, name) ? given[name] : undefined, whole);
    }
    extra = Object.fromEntries(Object.entries(given).filter(([name]) => !fields.some(([known]) => known === name)));
  };
  return { element: fieldGroup(schema, context, fields.map(([, each]) => each.element)), read, fill };
}

function variants(schema, context) {
  const all = (schema.anyOf || schema.oneOf).map((each) => ({ ...resolveReference(each, context.root) }));
  const select = el("select", { "aria-label": `${context.name}: type of value` },
    all.map((each, index) => el("option", { value: String(index) }, each.title || each.type || fieldKind(each))));
  const place = el("div", {});
  let now = null;
  const show = () => {
    now = makeInnerField(all[Number(select.value)], { ...context, bare: false });
    place.replaceChildren(now.element);
  };
  select.addEventListener("change", () => {
    fieldsLeft = MAX_FIELDS;
    show();
  });
  show();
  const fill = (value, whole) => {
    const type = value === null ? "null" : Array.isArray(value) ? "array" : isRaw(value) ? "number" : typeof value;
    const index = all.findIndex((each) => each.type === type || (each.type === "integer" && type === "number"));
    select.value = String(Math.max(index, 0));
    show();
    now.fill(value, whole);
  };
  return { element: fieldGroup(schema, context, select, place), read: () => now.read(), fill };
}

function json(schema, context) {
  const input = el("textarea", { rows: "2", spellcheck: "false", placeholder: "JSON" });
  const hint = el("p", { class: "hint" }, schema.type === "object" ? "A JSON object." : "Any JSON value. Put text in double quotes.");
  const fill = (value) => { input.value = value === undefined ? "" : JSON.stringify(value, null, 2); };
  const read = () => {
    if (input.value.trim() === "") {
      if (context.required && !schema.nullable) throw new InvalidValue(`${context.name} is required: a JSON value`, input);
      return context.required ? null : undefined;
    }
    const value = parseJson(input.value);
    if (value === undefined) throw new InvalidValue(`${context.name} must be JSON; put text in double quotes`, input);
    checkNumbers(input.value, context.name, input);
    return value;
  };
  return { element: labelledField(schema, context, input, hint, examples(schema, fill)), read, fill };
}

const MAKERS = { string, number, integer: number, boolean, choice, choices: multipleChoice, array, object, variants, json };

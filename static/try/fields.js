// Fields for values of a JSON Schema. Each is `{element, read(), fill(value)}`; `read` answers `undefined` for
// "not said" and raises Misfit, with the field that is meant, for text that is no value.

import { button, el, fresh, miscounted, parsed } from "./dom.js";
import { choices, followed, kindOf, withoutNull } from "./schema.js";

export class Misfit extends Error {
  constructor(message, input) {
    super(message);
    this.input = input;
  }
}

/** Raises Misfit for a JSON text with a number that would be sent as another one. */
export function checkNumbers(text, name, input) {
  const found = miscounted(text);
  if (found) throw new Misfit(`${name}: ${found} is more than a browser counts exactly; call the tool from a program`, input);
}

const INPUTS = { email: "email", uri: "url", date: "date", time: "time", "date-time": "datetime-local", password: "password" };
const LONG = 200;

/** A field. `context` is `{root, name, required, lines}`: `lines` allows text of several lines. */
export function field(schema, context) {
  const known = withoutNull(followed(schema, context.root), context.root);
  const kind = kindOf(known);
  const made = MAKERS[kind](known, context);
  if (known.default !== undefined && known.default !== null) made.fill(known.default);
  return made;
}

function labelled(schema, { name, required }, input, ...more) {
  const id = fresh("field");
  const hint = schema.description ? el("p", { class: "hint", id: `${id}-hint` }, schema.description) : null;
  const control = input.matches("input, select, textarea") ? input : null;
  control?.setAttribute("id", id);
  if (hint) control?.setAttribute("aria-describedby", hint.id);
  const need = el("span", { class: "need" }, required ? "required" : "optional");
  const label = el("label", { for: id }, schema.title || name, need);
  return el("div", { class: "field", "data-name": name }, label, hint, input, more);
}

function grouped(schema, { name, required, bare }, ...children) {
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
  const short = type || !context.lines || schema.pattern || schema.format || (schema.maxLength ?? Infinity) <= LONG;
  const input = short
    ? el("input", { type: type || "text", step: schema.format === "time" ? "1" : null, autocomplete: "off" })
    : el("textarea", { rows: "1", spellcheck: "false" });
  const fill = (value) => { input.value = value == null ? "" : (FILLED[schema.format] || String)(value); };
  const read = () => {
    if (input.value === "" && !(context.required && !type)) return schema.nullable && context.required ? null : undefined;
    if (schema.format === "date-time") return new Date(input.value).toISOString();
    if (schema.format === "time") return `${input.value.length === 5 ? `${input.value}:00` : input.value}Z`;
    return input.value;
  };
  return { element: labelled(schema, context, input, examples(schema, fill)), read, fill };
}

/** A moment as its field shows it; empty for what is none. */
function local(value) {
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? "" : new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}

const FILLED = { "date-time": local, time: (value) => String(value).replace(/(\.\d+)?(z|[+-]00:00)$/i, "") };

function number(schema, context) {
  const whole = schema.type === "integer";
  const input = el("input", { type: "number", step: whole ? schema.multipleOf ?? "1" : "any", min: schema.minimum,
    max: schema.maximum, inputmode: whole ? "numeric" : "decimal" });
  const fill = (value) => { input.value = value == null ? "" : String(value); };
  const read = () => {
    if (input.validity.badInput) throw new Misfit(`${context.name} has to be a number`, input);
    if (/^-?\d+$/.test(input.value)) checkNumbers(String(input.value).replace(/^(-?)0+(?=\d)/, "$1"), context.name, input);
    if (input.value !== "") return Number(input.value);
    if (context.required && !schema.nullable) throw new Misfit(`${context.name} is required: a number`, input);
    return context.required ? null : undefined;
  };
  return { element: labelled(schema, context, input, examples(schema, fill)), read, fill };
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
    if (context.required && !schema.nullable) throw new Misfit(`${context.name} is required: choose one`, input);
    return context.required ? null : undefined;
  };
  if (all.length === 1 && context.required) input.value = "0";
  return { element: labelled(schema, context, input), read, fill };
}

function several(schema, context) {
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
  return { element: grouped(schema, context, rows), read, fill };
}

function array(schema, context) {
  const list = el("div", { class: "field" });
  const entries = [];
  const add = (value, whole) => {
    const name = `${context.name} ${entries.length + 1}`;
    const made = field(schema.items, { ...context, name, required: true, bare: false });
    const row = el("div", { class: "entry" }, made.element);
    row.append(button("Remove", () => { entries.splice(entries.indexOf(made), 1); row.remove(); more.focus(); }, "quiet slim"));
    if (value !== undefined) made.fill(value, whole);
    entries.push(made);
    list.append(row);
    return row;
  };
  const more = button(`Add to ${context.name}`, () => add().querySelector("input, select, textarea")?.focus(), "quiet slim");
  const read = () => {
    const found = entries.map((each) => each.read());
    return found.length || context.required ? found : undefined;
  };
  const fill = (values, whole) => {
    entries.length = 0;
    list.replaceChildren();
    if (Array.isArray(values)) values.forEach((each) => add(each, whole));
  };
  for (let number = 0; number < Math.min(schema.minItems || 0, 10); number += 1) add();
  return { element: grouped(schema, context, list, el("div", {}, more)), read, fill };
}

function object(schema, context) {
  const required = new Set(schema.required || []);
  if ((context.depth || 0) > 5) return json(schema, context);
  const fields = Object.entries(schema.properties).map(([name, inner]) => [name, field(inner, {
    ...context, name, required: required.has(name), bare: false, depth: (context.depth || 0) + 1 })]);
  let extra = {};
  const read = () => {
    let found = {};
    let misfit = null;
    for (const [name, each] of fields) {
      try {
        const value = each.read();
        if (value !== undefined) Object.defineProperty(found, name, { value, enumerable: true, writable: true, configurable: true });
      } catch (problem) {
        if (!(problem instanceof Misfit)) throw problem;
        misfit = misfit || problem;
      }
    }
    found = { ...found, ...extra };
    if (misfit && (context.required || Object.keys(found).length)) throw misfit;
    return context.required || Object.keys(found).length ? found : undefined;
  };
  const fill = (value, whole) => {
    const given = value || {};
    for (const [name, each] of fields) {
      if (Object.hasOwn(given, name) || whole) each.fill(Object.hasOwn(given, name) ? given[name] : undefined, whole);
    }
    extra = Object.fromEntries(Object.entries(given).filter(([name]) => !fields.some(([known]) => known === name)));
  };
  return { element: grouped(schema, context, fields.map(([, each]) => each.element)), read, fill };
}

function variants(schema, context) {
  const all = (schema.anyOf || schema.oneOf).map((each) => ({ ...followed(each, context.root) }));
  const select = el("select", { "aria-label": `${context.name}: which form` },
    all.map((each, index) => el("option", { value: String(index) }, each.title || each.type || kindOf(each))));
  const place = el("div", {});
  let now = null;
  const show = () => {
    now = field(all[Number(select.value)], { ...context, bare: false });
    place.replaceChildren(now.element);
  };
  select.addEventListener("change", show);
  show();
  const fill = (value, whole) => {
    const type = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
    const index = all.findIndex((each) => each.type === type || (each.type === "integer" && type === "number"));
    select.value = String(Math.max(index, 0));
    show();
    now.fill(value, whole);
  };
  return { element: grouped(schema, context, select, place), read: () => now.read(), fill };
}

function json(schema, context) {
  const input = el("textarea", { rows: "2", spellcheck: "false", placeholder: "JSON" });
  const hint = el("p", { class: "hint" }, schema.type === "object" ? "A JSON object." : "Any JSON value; text in double quotes.");
  const fill = (value) => { input.value = value === undefined ? "" : JSON.stringify(value, null, 2); };
  const read = () => {
    if (input.value.trim() === "") {
      if (context.required && !schema.nullable) throw new Misfit(`${context.name} is required: a JSON value`, input);
      return context.required ? null : undefined;
    }
    const value = parsed(input.value);
    if (value === undefined) throw new Misfit(`${context.name} has to be JSON; text stands in double quotes`, input);
    checkNumbers(input.value, context.name, input);
    return value;
  };
  return { element: labelled(schema, context, input, hint, examples(schema, fill)), read, fill };
}

const MAKERS = { string, number, integer: number, boolean, choice, choices: several, array, object, variants, json };

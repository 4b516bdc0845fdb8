// A server's page comes to life: what can be called gets a form when it is opened for the first time.

import { completing } from "./completing.js";
import { connecting } from "./connecting.js";
import { promptResult, readResult, toolResult } from "./pieces.js";
import { headersOf } from "./schema.js";
import { expanded, variables } from "./templates.js";
import { Trial } from "./trial.js";
import { headerText } from "./wire.js";

const MAKERS = { tool, resource, template, prompt };

/** The JSON that the page shows of a descriptor. */
function shownJson(place, mark) {
  const shown = place.closest(".inside").querySelector(`[data-${mark}]`);
  return JSON.parse(shown.textContent);
}

function tool(place, name, endpoint) {
  const schema = shownJson(place, "schema");
  return new Trial(place, {
    endpoint, schema, label: "Call", show: toolResult,
    request: (given) => ({ method: "tools/call", params: { name, arguments: given }, headers: repeated(schema, given) }),
  });
}

/** The headers that repeat arguments, where the schema wants that. */
function repeated(schema, given) {
  const pairs = headersOf(schema).map(([header, path]) => [header, path.reduce((value, key) => value?.[key], given)]);
  return Object.fromEntries(pairs.filter(([, value]) => value !== undefined && value !== null)
    .map(([header, value]) => [`Mcp-Param-${header}`, headerText(String(value))]));
}

function resource(place, uri, endpoint) {
  return new Trial(place, {
    endpoint, schema: { type: "object", properties: {} }, label: "Read", show: readResult,
    request: () => ({ method: "resources/read", params: { uri } }),
  });
}

function template(place, uri, endpoint) {
  const names = variables(uri);
  const schema = { type: "object", properties: words(names), required: names };
  const trial = new Trial(place, {
    endpoint, schema, label: "Read", show: readResult,
    request: (given) => ({ method: "resources/read", params: { uri: expanded(uri, given) } }),
  });
  completing(place, endpoint, { type: "ref/resource", uri }, () => trial.revision.value);
  return trial;
}

function prompt(place, name, endpoint) {
  const all = shownJson(place, "prompt").arguments || [];
  const properties = Object.fromEntries(all.map((each) => [each.name, { type: "string", maxLength: 200, title: each.title, description: each.description }]));
  const schema = { type: "object", properties, required: all.filter((each) => each.required).map((each) => each.name) };
  const trial = new Trial(place, {
    endpoint, schema, label: "Fill in", show: promptResult,
    request: (given) => ({ method: "prompts/get", params: { name, arguments: given } }),
  });
  completing(place, endpoint, { type: "ref/prompt", name }, () => trial.revision.value);
  return trial;
}

function words(names) {
  return Object.fromEntries(names.map((name) => [name, { type: "string", maxLength: 200 }]));
}

function live(item) {
  const place = item.querySelector("[data-try]");
  if (!place || place.dataset.live) return;
  place.dataset.live = "yes";
  MAKERS[place.dataset.try](place, place.dataset.key, place.dataset.endpoint);
}

/** Opens what the address names, also where a browser does not do that by itself. */
function opened() {
  const target = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  const item = target?.closest("details.item");
  if (!item) return;
  item.open = true;
  item.scrollIntoView();
}

for (const item of document.querySelectorAll("details.item")) {
  item.addEventListener("toggle", () => item.open && live(item));
  if (item.open) live(item);
}
document.querySelectorAll("form[data-connect]").forEach(connecting);
addEventListener("hashchange", opened);
opened();

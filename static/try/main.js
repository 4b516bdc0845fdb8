// Add a form to each tool, resource and prompt of a server's page when the reader first opens it.

import { addSuggestions } from "./completing.js";
import { addConnectionTest } from "./connecting.js";
import { addDock } from "./dock.js";
import { asText, readJson } from "./numbers.js";
import { promptResult, readResult, toolResult } from "./pieces.js";
import { headerArguments } from "./schema.js";
import "./master.js";
import { expandTemplate, variableNames } from "./templates.js";
import { Trial } from "./trial.js";
import { headerText } from "./wire.js";

const MAKERS = { tool, resource, template, prompt };

/** Read the JSON of a descriptor from the page. */
function embeddedJson(place, mark) {
  const shown = place.closest(".inside").querySelector(`[data-${mark}]`);
  return readJson(shown.textContent);
}

function tool(place, name, endpoint) {
  const schema = embeddedJson(place, "schema");
  return new Trial(place, {
    endpoint, schema, label: "Call", show: toolResult, app: place.dataset.app,
    request: (given) => ({ method: "tools/call", params: { name, arguments: given }, headers: repeatedHeaders(schema, given) }),
  });
}

/** Make the `Mcp-Param-*` headers that repeat arguments with `x-mcp-header` in their schema. */
function repeatedHeaders(schema, given) {
  const pairs = headerArguments(schema).map(([header, path]) => [header, path.reduce((value, key) => value?.[key], given)]);
  return Object.fromEntries(pairs.filter(([, value]) => value !== undefined && value !== null)
    .map(([header, value]) => [`Mcp-Param-${header}`, headerText(asText(value))]));
}

function resource(place, uri, endpoint) {
  return new Trial(place, {
    endpoint, schema: { type: "object", properties: {} }, label: "Read", show: readResult,
    request: () => ({ method: "resources/read", params: { uri } }),
  });
}

function template(place, uri, endpoint) {
  const names = variableNames(uri);
  const schema = { type: "object", properties: textProperties(names), required: names };
  const trial = new Trial(place, {
    endpoint, schema, label: "Read", show: readResult,
    request: (given) => ({ method: "resources/read", params: { uri: expandTemplate(uri, given) } }),
  });
  addSuggestions(place, endpoint, { type: "ref/resource", uri }, () => trial.revision.value);
  return trial;
}

function prompt(place, name, endpoint) {
  const all = embeddedJson(place, "prompt").arguments || [];
  const properties = Object.fromEntries(all.map((each) => [each.name, { type: "string", maxLength: 200, title: each.title, description: each.description }]));
  const schema = { type: "object", properties, required: all.filter((each) => each.required).map((each) => each.name) };
  const trial = new Trial(place, {
    endpoint, schema, label: "Get prompt", show: promptResult,
    request: (given) => ({ method: "prompts/get", params: { name, arguments: given } }),
  });
  addSuggestions(place, endpoint, { type: "ref/prompt", name }, () => trial.revision.value);
  return trial;
}

function textProperties(names) {
  return Object.fromEntries(names.map((name) => [name, { type: "string", maxLength: 200 }]));
}

async function activate(item) {
  const link = item.querySelector("[data-entry]");
  if (link && !(await load(item, link))) return;
  const place = item.querySelector("[data-try]");
  if (!place || place.dataset.live) return;
  place.dataset.live = "yes";
  MAKERS[place.dataset.try](place, place.dataset.key, place.dataset.endpoint);
}

/** Load the content of an item that the page has only as a line. Return whether this call replaced the line. */
async function load(item, link) {
  if (item.hasAttribute("aria-busy")) return false;
  item.setAttribute("aria-busy", "true");
  const address = new URL(link.href);
  address.searchParams.set("part", "entry");
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".item");
    item.querySelector(".gist").textContent = fresh.querySelector(".gist").textContent;
    item.querySelector(".inside").replaceWith(document.adoptNode(fresh.querySelector(".inside")));
  } catch {
    location.assign(link.href); // the whole page shows the entry, or the error
    return false;
  } finally {
    item.removeAttribute("aria-busy");
  }
  return true;
}

/** Open and show the item that the fragment of the URL names. */
function openTarget() {
  const target = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  const item = target?.closest("details.item");
  if (!item) return;
  item.open = true;
  item.scrollIntoView();
}

// The event does not bubble, so listen while it goes down: items that are added later count too.
document.addEventListener("toggle", ({ target }) => target.matches?.("details.item") && target.open && activate(target), true);
document.querySelectorAll("details.item[open]").forEach(activate);
document.querySelectorAll("form[data-connect]").forEach(addConnectionTest);
addEventListener("hashchange", openTarget);
addDock();
openTarget();

// The request as an example for a terminal or a program: curl, Python, `patchbay call`.

import { asText, isRaw } from "./numbers.js";
import { MODERN, buildRequest } from "./wire.js";

/** Make `[[label, text]]` for one request. `url` is absolute; with `elsewhere` it is the address of an inspected server. */
export function requestExamples({ url, elsewhere, revision, method, params, headers }) {
  if (elsewhere) return [["Patchbay", patchbay(url, method, params)]];
  const request = buildRequest(revision, { jsonrpc: "2.0", id: 1, method, params }, { headers });
  const lines = Object.entries(request.headers).map(([name, value]) => `  -H ${quoteShell(`${name}: ${value}`)} \\\n`).join("");
  const curl = `curl -N ${quoteShell(url)} \\\n${lines}  -d ${quoteShell(JSON.stringify(request.body))}`;
  return [["curl", curl], ["Python", python(url, revision, method, params)], ["Patchbay", `${patchbay(url, method, params)} --era ${revision === MODERN ? "modern" : "legacy"}`]];
}

/** Quote a word for a POSIX shell. */
export function quoteShell(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function python(url, revision, method, params) {
  const mode = revision === MODERN ? revision : "legacy";
  const calls = {
    "tools/call": () => `call_tool(${pythonLiteral(params.name)}, ${pythonLiteral(params.arguments)})`,
    "resources/read": () => `read_resource(${pythonLiteral(params.uri)})`,
    "prompts/get": () => `get_prompt(${pythonLiteral(params.name)}, ${pythonLiteral(params.arguments)})`,
  };
  return `import asyncio
from mcp import Client


async def main():
    async with Client(${pythonLiteral(url)}, mode=${pythonLiteral(mode)}) as client:
        print(await client.${calls[method]()})


asyncio.run(main())`;
}

/** Write a JSON value as a Python literal. */
export function pythonLiteral(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(", ")}]`;
  if (typeof value === "object" && !isRaw(value)) {
    return `{${Object.entries(value).map(([key, each]) => `${pythonLiteral(key)}: ${pythonLiteral(each)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}

function patchbay(url, method, params) {
  const given = params.arguments && Object.keys(params.arguments).length ? ` --args ${quoteShell(JSON.stringify(params.arguments))}` : "";
  const pairs = Object.entries(params.arguments || {}).map(([name, value]) => `${name}=${asText(value)}`);
  const words = {
    "tools/call": () => `call ${quoteShell(url)} ${quoteShell(params.name)}${given}`,
    "resources/read": () => `read ${quoteShell(url)} ${quoteShell(params.uri)}`,
    "prompts/get": () => `prompt ${[url, params.name, ...pairs].map(quoteShell).join(" ")}`,
  };
  return `patchbay ${words[method]()}`;
}

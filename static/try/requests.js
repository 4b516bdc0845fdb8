// The same request for a terminal or a program: curl, Python, `patchbay call`.

import { MODERN, dressed } from "./wire.js";

/** `[[label, text]]` for one request. `url` is absolute; with `elsewhere` any address of a server behind this hub. */
export function requests({ url, elsewhere, revision, method, params, headers }) {
  if (elsewhere) return [["Patchbay", patchbay(url, method, params)]];
  const made = dressed(revision, { jsonrpc: "2.0", id: 1, method, params }, { headers });
  const lines = Object.entries(made.headers).map(([name, value]) => `  -H ${shell(`${name}: ${value}`)} \\\n`).join("");
  const curl = `curl -N ${shell(url)} \\\n${lines}  -d ${shell(JSON.stringify(made.body))}`;
  return [["curl", curl], ["Python", python(url, revision, method, params)], ["Patchbay", `${patchbay(url, method, params)} --era ${revision === MODERN ? "modern" : "legacy"}`]];
}

/** A word of a POSIX shell. */
export function shell(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function python(url, revision, method, params) {
  const mode = revision === MODERN ? revision : "legacy";
  const calls = {
    "tools/call": () => `call_tool(${literal(params.name)}, ${literal(params.arguments)})`,
    "resources/read": () => `read_resource(${literal(params.uri)})`,
    "prompts/get": () => `get_prompt(${literal(params.name)}, ${literal(params.arguments)})`,
  };
  return `import asyncio
from mcp import Client


async def main():
    async with Client(${literal(url)}, mode=${literal(mode)}) as client:
        print(await client.${calls[method]()})


asyncio.run(main())`;
}

/** A JSON value as Python writes it. */
export function literal(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([key, each]) => `${literal(key)}: ${literal(each)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}

function patchbay(url, method, params) {
  const given = params.arguments && Object.keys(params.arguments).length ? ` --args ${shell(JSON.stringify(params.arguments))}` : "";
  const pairs = Object.entries(params.arguments || {}).map(([name, value]) => `${name}=${value}`);
  const words = {
    "tools/call": () => `call ${shell(url)} ${shell(params.name)}${given}`,
    "resources/read": () => `read ${shell(url)} ${shell(params.uri)}`,
    "prompts/get": () => `prompt ${[url, params.name, ...pairs].map(shell).join(" ")}`,
  };
  return `patchbay ${words[method]()}`;
}

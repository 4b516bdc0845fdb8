// A program of a mount that gets a URL with fetch or with node:https: an MCP server over standard input and output.

import https from "node:https";
import readline from "node:readline";

const TOOLS = {
  with_fetch: async (url) => {
    const answer = await fetch(url);
    return `${answer.status} ${await answer.text()}`;
  },
  with_https: (url) =>
    new Promise((resolve, reject) => {
      const request = https.get(url, (answer) => {
        let found = "";
        answer.on("data", (piece) => (found += piece));
        answer.on("end", () => resolve(`${answer.statusCode} ${found}`));
      });
      request.on("error", reject);
    }),
};

async function answer(method, params) {
  if (method === "initialize")
    return { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "a", version: "1" } };
  if (method === "tools/list")
    return { tools: Object.keys(TOOLS).map((name) => ({ name, inputSchema: { type: "object" } })) };
  if (method !== "tools/call") return {};
  try {
    return { content: [{ type: "text", text: await TOOLS[params.name](...Object.values(params.arguments)) }] };
  } catch (problem) {
    const text = `refused: ${problem.message}: ${problem.cause?.message ?? ""}`;
    return { content: [{ type: "text", text }], isError: true };
  }
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if ("id" in message) {
    const result = await answer(message.method, message.params ?? {});
    process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id: message.id, result })}\n`);
  }
}

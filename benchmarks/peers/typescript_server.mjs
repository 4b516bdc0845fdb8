// The official TypeScript SDK's servers with the tools of the benchmark, as their documentation starts them.
//
//   node typescript_server.mjs <folder with node_modules> <port> <tools> <sdk-1 | sdk-2>
//
// sdk-1 is version 1 with sessions; sdk-2 is version 2, which serves 2026-07-28 and requests without a session.

import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [packages, port, tools, version] = process.argv.slice(2);
const required = createRequire(pathToFileURL(`${packages}/package.json`));
const { z } = required("zod");
const MESSAGE = { message: z.string() };

function registerTools(server, inputSchema) {
  const answer = async ({ message }) => ({ content: [{ type: "text", text: message }] });
  server.registerTool("echo", { description: "Return the message.", inputSchema }, answer);
  for (let number = 0; number < Number(tools); number += 1) {
    server.registerTool(`tool_${number}`, { description: "Return the message.", inputSchema }, answer);
  }
  return server;
}

async function startVersion1() {
  const { McpServer } = required("@modelcontextprotocol/sdk/server/mcp.js");
  const { StreamableHTTPServerTransport } = required("@modelcontextprotocol/sdk/server/streamableHttp.js");
  const transports = new Map();
  createServer(async (request, response) => {
    let transport = transports.get(request.headers["mcp-session-id"]);
    if (transport === undefined) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => transports.set(id, transport),
      });
      await registerTools(new McpServer({ name: "bench", version: "1" }), MESSAGE).connect(transport);
    }
    await transport.handleRequest(request, response);
  }).listen(Number(port), "127.0.0.1");
}

function startVersion2() {
  const { McpServer, createMcpHandler } = required("@modelcontextprotocol/server");
  const { serve } = required("@hono/node-server");
  const schema = z.object(MESSAGE);
  const handler = createMcpHandler(() => registerTools(new McpServer({ name: "bench", version: "1" }), schema));
  serve({ fetch: (request) => handler.fetch(request), port: Number(port), hostname: "127.0.0.1" });
}

if (version === "sdk-1") await startVersion1();
else startVersion2();

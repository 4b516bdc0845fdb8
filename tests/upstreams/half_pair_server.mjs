// A program of the official TypeScript SDK that cuts a text in the middle of a character, as `slice` does.

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";

const server = new McpServer({ name: "preview", version: "1" });
server.registerTool("preview", {}, async () => ({ content: [{ type: "text", text: "all is well 😀".slice(0, -1) }] }));
await server.connect(new StdioServerTransport());

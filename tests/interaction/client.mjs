// The official TypeScript SDKs' clients, driven by lines of JSON on the standard input, so that one
// process serves a whole test run.
//
//   node client.mjs <folder that holds node_modules> <legacy | 2026-07-28 | sdk-1>
//   in:  {"url": "...", "method": "tools" | "call" | "follow" | "listAndCall" | "read" | "prompts" | "revision",
//         "params": {...}}
//   out: {"result": ...} or {"error": "..."}
//
// Each line is a connection of its own: connect, one request, close.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const [folder, mode] = process.argv.slice(2);
const require = createRequire(join(folder, 'package.json'));
const information = { name: 'patchbay-tests', version: '1' };

function classes() {
  if (mode !== 'sdk-1') return require('@modelcontextprotocol/client');
  return {
    ...require('@modelcontextprotocol/sdk/client/index.js'),
    ...require('@modelcontextprotocol/sdk/client/streamableHttp.js')
  };
}

const { Client, StreamableHTTPClientTransport } = classes();
const options = mode === '2026-07-28' ? { versionNegotiation: { mode: { pin: mode } } } : {};

const methods = {
  tools: async client => (await client.listTools()).tools.map(tool => tool.name),
  prompts: async client => (await client.listPrompts()).prompts.map(prompt => prompt.name),
  call: async (client, params) => {
    const result = await client.callTool(params);
    const text = result.content.map(block => block.text ?? '').join('');
    if (result.isError) throw new Error(text);
    return text;
  },
  // The whole result, with the progress on the way; cancelled once there are `until` reports of progress.
  follow: async (client, { until, ...params }) => {
    const progress = [];
    const abort = new AbortController();
    await client.listTools();
    const onprogress = one => {
      progress.push(one.message ?? '');
      if (progress.length === until) abort.abort('enough');
    };
    const wanted = { onprogress, signal: abort.signal };
    const call = mode === 'sdk-1' ? client.callTool(params, undefined, wanted) : client.callTool(params, wanted);
    return call.then(
      result => ({ progress, result }),
      error => ({ progress, error: String(error) })
    );
  },
  listAndCall: async (client, params) => {
    const tools = (await client.listTools()).tools.map(tool => tool.name);
    return client.callTool(params).then(
      result => ({ tools, result }),
      error => String(error)
    );
  },
  read: async (client, params) => (await client.readResource(params)).contents.map(one => one.text ?? '').join(''),
  revision: async (client, _, transport) => client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion
};

async function answer({ url, method, params }) {
  const client = new Client(information, options);
  const transport = new StreamableHTTPClientTransport(new URL(url));
  await client.connect(transport);
  try {
    return await methods[method](client, params, transport);
  } finally {
    await transport.terminateSession?.();
    await client.close();
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const reply = await answer(JSON.parse(line)).then(
    result => ({ result }),
    error => ({ error: String(error) })
  );
  process.stdout.write(JSON.stringify(reply) + '\n');
}

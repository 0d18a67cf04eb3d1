// Starts a server, does the steps that standard input lists as JSON, and prints what each gave, as JSON.
// node client.js COMMAND ARGUMENT... <<< '[{"do": "callTool", "with": {"name": "search_memory", "arguments": {}}}]'
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { readFileSync } from "node:fs";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "honeybadger-tests", version: "1" });
await client.connect(new StdioClientTransport({ command, args }));
const given = [];
for (const step of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    given.push(await client[step.do](step.with));
  } catch (error) {
    given.push({ error: { code: error.code, message: error.message } });
  }
}
console.log(JSON.stringify({ server: client.getServerVersion(), given }));
await client.close();

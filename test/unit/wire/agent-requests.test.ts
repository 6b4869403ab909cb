import { describe, expect, it } from "vitest";
import { endpoints } from "../../../src/wire/endpoints/endpoints.ts";
import type { ModelRequest } from "../../../src/wire/model-request.ts";

/* Requests of coding agents. Client tools are bounded by their bytes; tools that may run at the gateway are named. */

function read(route: string, body: object | string) {
  const endpoint = endpoints.find((one) => one.route === route);
  const bytes = Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
  const result = endpoint?.readRequest(bytes);
  if (result === undefined) throw new Error(`no endpoint at ${route}`);
  return result;
}

function accepted(route: string, body: object | string): ModelRequest {
  const result = read(route, body);
  if (!result.ok) throw new Error(JSON.stringify(result.refusal));
  return result.request;
}

const response = (more: object) => accepted("/v1/responses", { model: "m", input: "x", ...more });
const items = (...input: object[]) => accepted("/v1/responses", { model: "m", input });
const chat = (more: object) =>
  accepted("/v1/chat/completions", { model: "m", messages: [{ role: "user", content: "x" }], ...more });

const fn = { type: "function", name: "f", parameters: { type: "object", properties: {} } };
const custom = { type: "custom", name: "c", format: { type: "grammar", syntax: "lark", definition: "start: x" } };
const namespace = (...tools: unknown[]) => ({ type: "namespace", name: "n", description: "", tools });
const search = { type: "tool_search", execution: "client", description: "d", parameters: {} };

describe("tools that run at the client", () => {
  it.each<[string, object, number]>([
    ["a namespace of functions", namespace(fn, custom), 3],
    ["local_shell", { type: "local_shell" }, 1],
    ["shell without an environment", { type: "shell" }, 1],
    ["shell with an environment that is null", { type: "shell", environment: null }, 1],
    [
      "shell on the client's machine",
      { type: "shell", environment: { type: "local", skills: [{ name: "s", description: "d", path: "/s" }] } },
      1,
    ],
    ["apply_patch", { type: "apply_patch" }, 1],
    ["custom", custom, 1],
    ["tool_search by the client", search, 1],
  ])("are bounded by their bytes, such as %s", (_, tool, count) => {
    for (const request of [
      response({ tools: [tool] }),
      items({ type: "additional_tools", id: "a", role: "developer", tools: [tool] }),
      items({ type: "tool_search_output", call_id: "c", execution: "client", status: "completed", tools: [tool] }),
    ]) {
      expect(request).toMatchObject({ unboundedFields: [], size: { tools: count, unboundedFields: [] } });
      expect(request.terms).toBeUndefined();
      expect(request.fields).toMatchObject({ unknown: [], models: [], mentions: [] });
      expect(request.isCutWorthless).toBe(true);
    }
  });

  it.each<[string, unknown, string[], string[]]>([
    ["a hosted tool", { type: "web_search" }, ["tools[1] (web_search)"], ["web_search_call"]],
    [
      "a hosted tool within a namespace",
      namespace(fn, { type: "web_search" }),
      ["tools[1].tools[1] (web_search)"],
      ["web_search_call"],
    ],
    ["a namespace within a namespace", namespace(namespace(fn)), ["tools[1].tools[0] (namespace)"], ["namespace_call"]],
    ["a shell within a namespace", namespace({ type: "shell" }), ["tools[1].tools[0] (shell)"], ["shell_call"]],
    ["a namespace without tools", { type: "namespace", name: "n" }, ["tools[1] (namespace)"], ["namespace_call"]],
    [
      "a namespace whose tools are not a list",
      { type: "namespace", name: "n", tools: { type: "web_search" } },
      ["tools[1] (namespace)"],
      ["namespace_call"],
    ],
    [
      "a namespace's tools in another letter case",
      { ...namespace(fn), Tools: [{ type: "web_search" }] },
      ["tools[1]"],
      ["other_call"],
    ],
    [
      "a shell in a container",
      { type: "shell", environment: { type: "container_auto" } },
      ["tools[1] (shell)"],
      ["shell_call"],
    ],
    [
      "a shell in a container by its id",
      { type: "shell", environment: { type: "container_reference", container_id: "c" } },
      ["tools[1] (shell)"],
      ["shell_call"],
    ],
    [
      "a shell whose environment is not an object",
      { type: "shell", environment: "container_auto" },
      ["tools[1] (shell)"],
      ["shell_call"],
    ],
    [
      "a shell whose environment has another letter case",
      { type: "shell", environment: { type: "local" }, Environment: { type: "container_auto" } },
      ["tools[1]"],
      ["other_call"],
    ],
    [
      "a search that the gateway makes",
      { ...search, execution: "server" },
      ["tools[1] (tool_search)"],
      ["tool_search_call"],
    ],
    [
      "a search that does not state who makes it",
      { type: "tool_search" },
      ["tools[1] (tool_search)"],
      ["tool_search_call"],
    ],
    [
      "code that calls tools",
      { type: "programmatic_tool_calling" },
      ["tools[1] (programmatic_tool_calling)"],
      ["programmatic_tool_calling_call"],
    ],
  ])("do not include %s", (_, tool, fields, calls) => {
    expect(response({ tools: [fn, tool] }).terms).toMatchObject({ hostedTools: { fields, calls } });
    const brought = fields.map((field) => `input[0].${field}`);
    for (const type of ["additional_tools", "tool_search_output"])
      expect(items({ type, tools: [fn, tool] }).terms).toMatchObject({ hostedTools: { fields: brought, calls } });
  });

  it.each<[object, string]>([
    [{ type: "local_shell", wonder: 1 }, "tools.wonder"],
    [{ ...namespace(fn), server_url: "https://x" }, "tools.server_url"],
    [{ type: "apply_patch", environment: { type: "container_auto" } }, "tools.environment"],
    [{ type: "shell", environment: { type: "local", container_id: "c" } }, "tools.environment.container_id"],
    [{ ...search, fallbacks: ["o1-pro"] }, "tools.fallbacks"],
  ])("hold the whole context for an unknown member of %j", (tool, field) => {
    expect(response({ tools: [tool] })).toMatchObject({
      size: { unboundedFields: [field] },
      fields: { unknown: [field], doubts: ["unknown_field"] },
    });
  });

  it("do not include a shell in a chat request", () => {
    expect(chat({ tools: [{ type: "shell" }] }).terms).toMatchObject({
      hostedTools: { fields: ["tools[0] (shell)"] },
    });
  });
});

const sealed = "A".repeat(1_000_000);
const bounded: readonly (readonly [string, object])[] = [
  [
    "reasoning",
    {
      type: "reasoning",
      id: "rs",
      summary: [{ type: "summary_text", text: "s" }],
      content: [{ type: "reasoning_text", text: "t" }],
      encrypted_content: sealed,
      status: "completed",
    },
  ],
  [
    "a call of a local shell",
    { type: "local_shell_call", call_id: "c", action: { type: "exec", command: ["ls"], env: {} } },
  ],
  ["the result of a local shell", { type: "local_shell_call_output", id: "c", output: "a.txt" }],
  [
    "a call of a shell",
    { type: "shell_call", call_id: "c", action: { commands: ["ls"] }, environment: { type: "local" } },
  ],
  [
    "the result of a shell",
    {
      type: "shell_call_output",
      call_id: "c",
      output: [{ stdout: "a", stderr: "", outcome: { type: "exit", exit_code: 0 } }],
    },
  ],
  ["a patch", { type: "apply_patch_call", call_id: "c", operation: { type: "create_file", path: "a", diff: "+x" } }],
  ["the result of a patch", { type: "apply_patch_call_output", call_id: "c", status: "completed", output: "done" }],
  ["a search of tools", { type: "tool_search_call", call_id: "c", execution: "client", arguments: { query: "q" } }],
];

describe("items of an agent's history", () => {
  it.each(bounded)("are bounded by their bytes: %s", (_, item) => {
    const body = { model: "m", input: [item] };
    expect(accepted("/v1/responses", body)).toMatchObject({
      unboundedFields: [],
      size: { textBytes: JSON.stringify(body).length, unboundedFields: [] },
      fields: { unknown: [] },
    });
  });

  it.each(bounded)("are counted with their whole content: %s", (_, item) => {
    const body = Buffer.from(JSON.stringify({ model: "m", input: [item] }));
    const text = accepted("/v1/responses", body.toString()).prompt.text(body);
    expect(text).toMatchObject({ kind: "chat", chat: { texts: [JSON.stringify(item)] } });
  });

  it("bound the tools in messages by their bytes, like other tools", () => {
    const item = { type: "additional_tools", role: "developer", tools: [fn] };
    const body = Buffer.from(JSON.stringify({ model: "m", input: [item, { role: "user", content: "x" }] }));
    expect(accepted("/v1/responses", body.toString()).prompt.bytesOutside(body)).toBe(
      JSON.stringify({ model: "m", input: "" }).length - 2 + JSON.stringify(item).length,
    );
  });

  it("bound the metadata of a message by its bytes, and do not count it as text", () => {
    const metadata = { turn_id: "t", content_item_metadata: { provenance: { type: "user" } } };
    const item = { role: "user", content: "x", internal_chat_message_metadata_passthrough: metadata };
    const body = Buffer.from(JSON.stringify({ model: "m", input: [item] }));
    const { prompt, size } = accepted("/v1/responses", body.toString());
    expect(size.unboundedFields).toEqual([]);
    expect(prompt.text(body)).toMatchObject({ chat: { texts: ["user", "x"] } });
    expect(prompt.bytesOutside(body)).toBe(
      JSON.stringify({ model: "m", input: "" }).length - 2 + JSON.stringify(metadata).length,
    );
  });

  it.each<[object, string]>([
    [{ type: "reasoning", encrypted_content: "x", file_id: "f" }, "input.file_id"],
    [{ type: "reasoning", content: [{ type: "input_file", file_id: "f" }] }, "input.content.file_id"],
    [{ type: "reasoning", content: [{ type: "wonder" }] }, "input.content.wonder"],
    [{ type: "shell_call_output", call_id: "c", output: [{ stdout: "a", file_id: "f" }] }, "input.output.file_id"],
    [{ type: "apply_patch_call", operation: {}, wonder: 1 }, "input.wonder"],
  ])("hold the whole context for content that the request does not show: %j", (item, field) => {
    expect(items(item).size.unboundedFields).toEqual([field]);
  });

  it("have no bound if a command runs in a container", () => {
    const container = { type: "container_reference", container_id: "c" };
    expect(items({ type: "shell_call", action: { commands: [] }, environment: container })).toMatchObject({
      unboundedFields: ["input.environment.type"],
    });
  });
});

describe("fields that agents send", () => {
  it("are bounded by their bytes", () => {
    const known = {
      client_metadata: { session: "s" },
      safety_identifier: "u",
      include: ["reasoning.encrypted_content"],
    };
    expect(response(known)).toMatchObject({ unboundedFields: [], size: { unboundedFields: [] } });
  });

  it("hold the whole context for an unknown value of include", () => {
    const { size, fields } = response({ include: ["web_search_call.results", "wonder", { type: "mcp" }] });
    expect(size.unboundedFields).toEqual(["include"]);
    expect(fields.mentions).toContain("wonder");
  });
});

describe("a predicted answer", () => {
  it.each<unknown>(["a text", [{ type: "text", text: "a text" }]])("is bounded by its bytes: %j", (content) => {
    const prediction = { type: "content", content };
    expect(chat({ prediction })).toMatchObject({
      size: { predictedBytes: JSON.stringify(prediction).length, unboundedFields: [] },
      unboundedFields: [],
    });
  });

  it("is absent if it is null or missing", () => {
    for (const more of [{}, { prediction: null }]) expect(chat(more).size).not.toHaveProperty("predictedBytes");
  });

  it("counts all its bytes, also those of a long text", () => {
    const size = chat({ prediction: { type: "content", content: "é".repeat(5000) } }).size;
    expect(size.predictedBytes).toBe(10_000 + JSON.stringify({ type: "content", content: "" }).length);
  });
});

describe("parts of a chat that Anthropic's clients send back", () => {
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
  const parts = [
    { type: "thinking", thinking: "I think", signature: "s1" },
    { type: "redacted_thinking", data: "r1" },
    { type: "tool_use", id: "t", name: "weather", input: { city: "Ulm" } },
    { type: "tool_result", tool_use_id: "t", content: [{ type: "text", text: "sunny" }, image] },
    { type: "tool_result", tool_use_id: "t", content: "rain" },
  ];
  const body = Buffer.from(JSON.stringify({ model: "m", messages: [{ role: "user", content: parts }] }));

  it("are bounded by their bytes, and images by the part", () => {
    expect(accepted("/v1/chat/completions", body.toString())).toMatchObject({
      unboundedFields: [],
      size: { imageParts: 1, unboundedFields: [] },
    });
  });

  it("are counted with their whole content", () => {
    expect(accepted("/v1/chat/completions", body.toString()).prompt.text(body)).toMatchObject({
      chat: { texts: ["user", "I think", "s1", "r1", "weather", '{"city":"Ulm"}', "sunny", "rain"] },
    });
  });
});

/** Members with a repeated name at any depth, with the path to it. */
const nested: readonly (readonly [path: string, members: string])[] = [
  ["reasoning.mode", `"reasoning":{"mode":"pro","mode":"standard"}`],
  ["reasoning.mode", `"reasoning":{"mode":"pro","m\\u006fde":"standard"}`],
  ["cache_control.ttl", `"cache_control":{"type":"ephemeral","ttl":"1h","ttl":"5m"}`],
  ["prompt_cache_options.ttl", `"prompt_cache_options":{"ttl":"24h","ttl":"30m"}`],
  ["extra_body.google.x", `"extra_body":{"google":{"x":1,"x":2}}`],
  ["fallbacks.model", `"fallbacks":[{"model":"o1-pro","model":"gpt-4o"}]`],
  ["tools.function.name", `"tools":[{"type":"function","function":{"name":"f","name":"g"}}]`],
  ["tools.cache_control.ttl", `"tools":[{"type":"function","cache_control":{"ttl":"1h","ttl":"5m"}}]`],
  ["wonder", `"wonder":1,"wonder":2`],
  ["wonder.a.b", `"wonder":{"a":[[{"b":1,"b":2}]]}`],
  ["wonder.__proto__", `"wonder":{"__proto__":1,"__proto__":2}`],
];

function withMembers(route: string, members: string): string {
  const text = route === "/v1/responses" ? `"input":"x"` : `"messages":[{"role":"user","content":"x"}]`;
  return `{"model":"m",${text},${members}}`;
}

describe("a member in another letter case", () => {
  it.each<[route: string, path: string, written: string, members: string]>([
    ["/v1/responses", "reasoning.mode", "reasoning.Mode", `"reasoning":{"Mode":"pro"}`],
    ["/v1/responses", "reasoning.mode", "reasoning.MODE", `"reasoning":{"mode":"standard","M\\u004fDE":"pro"}`],
    ["/v1/chat/completions", "cache_control.ttl", "cache_control.TTL", `"cache_control":{"TTL":"1h"}`],
    [
      "/v1/chat/completions",
      "prompt_cache_options.ttl",
      "prompt_cache_options.Ttl",
      `"prompt_cache_options":{"Ttl":"24h"}`,
    ],
    [
      "/v1/chat/completions",
      "tools.cache_control",
      "tools.Cache_Control",
      `"tools":[{"type":"function","function":{"name":"f"},"Cache_Control":{"ttl":"1h"}}]`,
    ],
    [
      "/v1/chat/completions",
      "tools.cache_control",
      "tools.cache_CONTROL",
      `"tools":[{"type":"function","function":{"name":"f","cache_CONTROL":{"ttl":"1h"}}}]`,
    ],
    [
      "/v1/responses",
      "tools.environment.type",
      "tools.environment.Type",
      `"tools":[{"type":"shell","environment":{"type":"local","Type":"container_auto"}}]`,
    ],
    ["/v1/responses", "extra_body.google", "extra_body.Google", `"extra_body":{"Google":{}}`],
  ])("is rejected by %s in '%s'", (route, param, written, members) => {
    const message = `'${written}' must be written '${param}'`;
    expect(read(route, withMembers(route, members))).toEqual({
      ok: false,
      refusal: { code: "invalid_request", param, message },
    });
  });

  it("is rejected in messages and their parts", () => {
    const body = (message: string) => `{"model":"m","messages":[{"role":"user",${message}}]}`;
    for (const [message, param] of [
      [`"content":"x","Cache_control":{"ttl":"1h"}`, "messages.cache_control"],
      [`"content":[{"type":"text","text":"x","CACHE_CONTROL":{"ttl":"1h"}}]`, "messages.content.cache_control"],
      [`"content":[{"type":"text","text":"x","cache_control":{"Ttl":"1h"}}]`, "messages.content.cache_control.ttl"],
    ] as const)
      expect(read("/v1/chat/completions", body(message))).toMatchObject({ ok: false, refusal: { param } });
    expect(
      read("/v1/responses", `{"model":"m","input":[{"content":[{"type":"input_image","File_Id":"f"}]}]}`),
    ).toMatchObject({ ok: false, refusal: { param: "input.content.file_id" } });
  });
});

describe("a member that is given twice", () => {
  it.each<[string, string, string]>([
    ["/v1/responses", "tools.type", `{"model":"m","input":"x","tools":[{"type":"web_search","type":"function"}]}`],
    [
      "/v1/responses",
      "tools.type",
      `{"model":"m","input":"x","tools":[{"ty\\u0070e":"web_search","type" : "function"}]}`,
    ],
    [
      "/v1/responses",
      "input.content",
      `{"model":"m","input":[{"role":"user","content":"${"x".repeat(2000)}","content":"y"}]}`,
    ],
    ["/v1/responses", "input.type", `{"model":"m","input":[{"type":"item_reference","id":"i","type":"message"}]}`],
    [
      "/v1/chat/completions",
      "messages.content.type",
      `{"model":"m","messages":[{"content":[{"type":"video_url","type":"text"}]}]}`,
    ],
    [
      "/v1/chat/completions",
      "prediction.content",
      `{"model":"m","messages":[{"content":"x"}],"prediction":{"content":"x","content":[{"type":"file"}]}}`,
    ],
    ...(["/v1/responses", "/v1/chat/completions"] as const).flatMap((route) =>
      nested.map(([param, members]): [string, string, string] => [route, param, withMembers(route, members)]),
    ),
    [
      "/v1/chat/completions",
      "stream_options.include_usage",
      withMembers("/v1/chat/completions", `"stream_options":{"include_usage":true,"include_usage":false}`),
    ],
    ["/v1/completions", "wonder.a", `{"model":"m","prompt":"x","wonder":[{"b":[{"a":1}]},{"a":1,"a":2}]}`],
    ["/v1/embeddings", "provider.order", `{"model":"m","input":"x","provider":{"order":["a"],"order":["b"]}}`],
    ["/v1/images/generations", "wonder", `{"model":"m","prompt":"x","wonder":1,"wonder":1}`],
    ["/v1/audio/speech", "cache_control.ttl", `{"model":"m","input":"x","cache_control":{"ttl":"5m","ttl":"1h"}}`],
  ])("is rejected by %s in '%s'", (route, param, body) => {
    expect(read(route, body)).toMatchObject({ ok: false, refusal: { code: "invalid_request", param } });
  });

  it("may be anywhere in a free field", () => {
    for (const route of ["/v1/responses", "/v1/chat/completions"] as const)
      for (const members of [
        `"metadata":{"a":"1","a":"2"}`,
        `"user":"a","user":"b"`,
        `"temperature":1,"temperature":1`,
        `"text":{"format":{"a":1,"a":2}}`,
        `"response_format":{"type":"json_schema","json_schema":{"schema":{"a":1,"a":2}}}`,
      ].filter((text) => !text.startsWith(route === "/v1/responses" ? `"resp` : `"text`)))
        expect(accepted(route, withMembers(route, members)), members).toMatchObject({ fields: { unknown: [] } });
  });

  it("in the schema of a function counts as an unknown field, because readers differ on its text", () => {
    const schema = `{"type":"object","properties":{"a":{"type":"string","type":"number","enum":["o1-pro"]}}}`;
    for (const [route, tool, path] of [
      ["/v1/responses", `{"type":"function","name":"f","parameters":${schema}}`, "tools.parameters.properties.a.type"],
      [
        "/v1/chat/completions",
        `{"type":"function","function":{"name":"f","parameters":${schema}}}`,
        "tools.function.parameters.properties.a.type",
      ],
    ] as const) {
      const { fields, size } = accepted(route, withMembers(route, `"tools":[${tool}]`));
      expect(fields).toMatchObject({ unknown: [path], doubts: ["unknown_field"] });
      expect(fields.mentions).toContain("o1-pro");
      expect(size.unboundedFields).toEqual([path]);
    }
  });

  it("is not found in a text that looks like it", () => {
    const content = '{"type":"a","type":"b"} "x": "y":';
    expect(read("/v1/chat/completions", { model: "m", messages: [{ role: "user", content }] }).ok).toBe(true);
    expect(read("/v1/responses", { model: "m", input: [{ role: "user", content }], tools: [fn] }).ok).toBe(true);
  });
});

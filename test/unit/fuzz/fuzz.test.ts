import { globSync, readFileSync } from "node:fs";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { applyFileKind } from "../../../src/admin/apply-file.ts";
import { buildCatalogue } from "../../../src/catalogue/build.ts";
import { loadSettings } from "../../../src/config/load.ts";
import { settingNames } from "../../../src/config/table.ts";
import { costWithinRange } from "../../../src/core/cost.ts";
import { noTokens, tokenClasses, type Usage } from "../../../src/core/usage.ts";
import { cleanPath } from "../../../src/server/http/http-app.ts";
import { readAccount, readAccountFigures } from "../../../src/wire/account.ts";
import { endpoints } from "../../../src/wire/endpoints/endpoints.ts";
import { passthrough } from "../../../src/wire/endpoints/passthrough.ts";
import { readForm } from "../../../src/wire/form.ts";
import { parseJson } from "../../../src/wire/json.ts";
import { formParts } from "../../../src/wire/multipart.ts";
import { SseReader } from "../../../src/wire/sse.ts";
import { readTags } from "../../../src/wire/headers.ts";
import { readTaskRequest } from "../../../src/wire/task-request.ts";
import { readTaskRecord } from "../../../src/wire/task.ts";
import { UsageChunkFilter } from "../../../src/wire/usage-chunk-filter.ts";
import { readUsage } from "../../../src/wire/usage.ts";
import { readYaml } from "../../../src/platform/yaml.ts";
import { inPieces, mutated, shares } from "./mutations.ts";
import { runs } from "../../support/effort.ts";

/**
 * Number of inputs for each reader, for example `FAREBOX_FUZZ_RUNS=1000000 npx vitest run test/unit/fuzz/fuzz.test.ts`. A failure is
 * printed with its seed and reduced to a small example.
 */
const inputs = Number(process.env["FAREBOX_FUZZ_RUNS"] ?? runs(2_000));
const timeoutMs = 60_000 + inputs * 100;
const check = <T>(input: fc.Arbitrary<T>, property: (value: T) => void, numRuns = inputs) =>
  fc.assert(fc.property(input, property), { numRuns });

/** Expects every token count of a usage to be a whole number of at least 0, so that it can be charged. */
function expectChargeable(usage: Usage | undefined): void {
  if (usage === undefined) return;
  for (const name of tokenClasses)
    expect(Number.isSafeInteger(usage.tokens[name]) && usage.tokens[name] >= 0, `${name}: ${usage.tokens[name]}`).toBe(
      true,
    );
}

const usageJson =
  '{"prompt_tokens":120,"completion_tokens":30,"total_tokens":150,"prompt_tokens_details":{"cached_tokens":20,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":10}}';
const responsesUsage =
  '{"input_tokens":36,"input_tokens_details":{"cached_tokens":4},"output_tokens":87,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":123}';

/** Usage of Anthropic's API with two runs and a compaction. */
const runsUsage =
  '{"input_tokens":20,"cache_creation_input_tokens":8,"cache_read_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":5,"ephemeral_1h_input_tokens":3},"output_tokens":7,"output_tokens_details":{"thinking_tokens":2},"server_tool_use":{"web_search_requests":1},"service_tier":"standard","speed":"fast","inference_geo":"us","iterations":[{"type":"message","input_tokens":20,"cache_creation_input_tokens":8,"cache_read_input_tokens":9,"output_tokens":7},{"type":"compaction","input_tokens":90,"output_tokens":4}]}';

const requests = [
  '{"model":"gpt-4o","messages":[{"role":"system","content":"You are terse."},{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}],"n":2,"max_tokens":10,"stream":true,"stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}',
  '{"model":"gpt-4o","input":"hello","instructions":"x","max_output_tokens":9,"tools":[{"type":"web_search"}],"previous_response_id":null,"stream":false}',
  '{"model":"opus","max_tokens":9,"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}],"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"AAAA"},{"type":"tool_use","id":"t","name":"f","input":{"a":1}}],"wonder":"x"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"y"}]}]}],"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":2},{"name":"f","input_schema":{"type":"object"}}],"thinking":{"type":"enabled","budget_tokens":5},"context_management":{"edits":[{"type":"clear_thinking_20251015"}]},"speed":"fast"}',
  '{"model":"text-embedding-3-small","input":["a",[1,2,3]],"encoding_format":"float","dimensions":8}',
  '{"model":"gpt-image-1","prompt":"a cat","n":3,"size":"1024x1024","quality":"high"}',
  '{"model":"gpt-3.5-turbo-instruct","prompt":["a","b"],"best_of":3,"n":2,"echo":true,"max_tokens":16,"suffix":"z"}',
  '{"model":"gpt-4o-mini-tts","input":"read this","voice":"alloy"}',
];
const streams = [
  `data: {"id":"c","object":"chat.completion.chunk","model":"gpt-4o","choices":[{"index":0,"delta":{"content":"He"},"finish_reason":null}]}\n\n: ping\n\ndata: {"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"{}"}}]},"finish_reason":"stop"}]}\n\ndata: {"model":"gpt-4o","choices":[],"usage":${usageJson}}\n\ndata: [DONE]\n\n`,
  `event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"Hi"}\n\nevent: response.completed\ndata: {"type":"response.completed","response":{"id":"r","model":"gpt-4o","status":"completed","usage":${responsesUsage}}}\n\n`,
  `event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"opus","content":[],"usage":{"input_tokens":20,"cache_read_input_tokens":9,"output_tokens":1}}}\n\nevent: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\nevent: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}\n\nevent: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":${runsUsage}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n`,
  `data: {"id":"x","object":"text_completion","model":"m","choices":[{"index":0,"text":"a","finish_reason":"length"}],"usage":${usageJson}}\r\n\r\ndata: [DONE]\r\n\r\n`,
];
const answers = [
  `{"id":"c","model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":${usageJson}}`,
  `{"id":"r","object":"response","model":"gpt-4o","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]}],"usage":${responsesUsage}}`,
  '{"object":"list","model":"e","data":[{"embedding":[0.1,0.2],"index":0}],"usage":{"prompt_tokens":8,"total_tokens":8}}',
  `{"created":1,"data":[{"b64_json":"${"A".repeat(3000)}"}],"usage":{"total_tokens":100,"input_tokens":50,"output_tokens":50,"input_tokens_details":{"text_tokens":10,"image_tokens":40}}}`,
  '{"text":"hello","usage":{"type":"duration","seconds":12}}',
  `{"id":"m","type":"message","role":"assistant","model":"opus","content":[{"type":"text","text":"Hi"},{"type":"server_tool_use","id":"s","name":"web_search","input":{}}],"stop_reason":"refusal","usage":${runsUsage}}`,
];

/** A valid request of each JSON endpoint, with objects in it. */
const bases: ReadonlyMap<string, object> = new Map<string, object>([
  [
    "/v1/chat/completions",
    {
      model: "gpt-4o",
      messages: [
        { role: "user", content: [{ type: "text", text: "x", cache_control: { type: "ephemeral", ttl: "5m" } }] },
      ],
      tools: [{ type: "function", function: { name: "f", parameters: { type: "object", properties: { a: {} } } } }],
      stream_options: { include_usage: true },
      metadata: { a: { b: "c" } },
    },
  ],
  [
    "/v1/responses",
    {
      model: "gpt-4o",
      input: [{ type: "message", role: "user", content: [{ type: "input_text", text: "x" }] }],
      tools: [{ type: "function", name: "f", parameters: { type: "object", properties: { a: {} } } }],
      text: { format: { type: "text" } },
    },
  ],
  [
    "/v1/messages",
    {
      model: "opus",
      max_tokens: 9,
      messages: [
        { role: "user", content: [{ type: "text", text: "x", cache_control: { type: "ephemeral", ttl: "5m" } }] },
        { role: "assistant", content: [{ type: "tool_use", id: "t", name: "f", input: { a: { b: "c" } } }] },
      ],
      tools: [{ name: "f", input_schema: { type: "object", properties: { a: {} } } }],
      thinking: { type: "enabled" },
    },
  ],
  ["/v1/completions", { model: "gpt-4o", prompt: "x", logit_bias: { a: 1 } }],
  ["/v1/embeddings", { model: "text-embedding-3-small", input: ["a"], user: "u" }],
  ["/v1/images/generations", { model: "gpt-image-1", prompt: "x", style: { a: 1 } }],
  ["/v1/audio/speech", { model: "tts-1", input: "x", voice: { id: "v" } }],
]);
/** Fields whose objects decide the price or name models. */
const nestedFields = [
  "reasoning",
  "cache_control",
  "prompt_cache_options",
  "extra_body",
  "provider",
  "fallbacks",
  "metadata",
];

interface ObjectAt {
  readonly path: readonly string[];
  readonly object: object;
}

/** Returns every object in a value, with the names that lead to it. */
function objectsIn(value: unknown, path: readonly string[] = []): ObjectAt[] {
  if (typeof value !== "object" || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((item) => objectsIn(item, path));
  const inner = Object.entries(value).flatMap(([name, item]) => objectsIn(item, [...path, name]));
  return [{ path, object: value }, ...inner];
}

/** Returns the JSON of a value in which one object gives a member twice, the second time with another value. */
function withTwin(value: unknown, target: object, twin: string, isEscaped: boolean): string {
  if (Array.isArray(value)) return `[${value.map((item) => withTwin(item, target, twin, isEscaped)).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([name, item]) => `${JSON.stringify(name)}:${withTwin(item, target, twin, isEscaped)}`,
  );
  if (value === target) members.push(`${isEscaped ? escapedName(twin) : JSON.stringify(twin)} : "twin"`);
  return `{${members.join(",")}}`;
}

function escapedName(name: string): string {
  const units = Array.from({ length: name.length }, (_, index) => name.charCodeAt(index).toString(16).padStart(4, "0"));
  return `"${units.map((unit) => `\\u${unit}`).join("")}"`;
}

describe("arbitrary bytes", () => {
  it(
    "of a stream are read as the same events however they are split",
    () => {
      check(fc.tuple(mutated(streams), shares), ([bytes, cuts]) => {
        const read = (pieces: readonly Buffer[]) => {
          const events: string[] = [];
          let unreadable = 0;
          const reader = new SseReader(
            (data) => events.push(data),
            (count) => (unreadable += count),
          );
          for (const piece of pieces) reader.feed(piece);
          reader.finish();
          return { events, unreadable };
        };
        expect(read(inPieces(bytes, cuts))).toEqual(read([bytes]));
      });
    },
    timeoutMs,
  );

  it(
    "of a stream pass the filter of usage chunks the same however they are split, and unchanged without usage",
    () => {
      check(fc.tuple(mutated(streams), shares), ([bytes, cuts]) => {
        const filtered = (pieces: readonly Buffer[]) => {
          const filter = new UsageChunkFilter();
          return Buffer.concat([...pieces.map((piece) => filter.pass(piece)), filter.rest()]);
        };
        const whole = filtered([bytes]);
        expect(filtered(inPieces(bytes, cuts)).equals(whole)).toBe(true);
        if (!bytes.includes('"usage"')) expect(whole.equals(bytes)).toBe(true);
      });
    },
    timeoutMs,
  );

  it.each(endpoints.map((endpoint) => [endpoint.route, endpoint] as const))(
    "are read without an exception as a request, an answer and a stream of %s",
    (_, endpoint) => {
      check(mutated(requests), (bytes) => {
        const read = endpoint.readRequest(bytes);
        if (!read.ok) return void expect(read.refusal.code).toMatch(/^[a-z_]+$/);
        expect(parseJson(bytes.toString("utf8"))).toBeTypeOf("object");
        expect(read.request.model).toMatch(/^[^\p{Cc}\p{Cs}]{1,256}$/u);
        expect(read.request.size.choices).toBeGreaterThanOrEqual(1);
        expect(read.request.size.textBytes).toBeGreaterThanOrEqual(0);
        expect(read.request.size.textBytes).toBeLessThanOrEqual(bytes.length);
      });
      check(fc.tuple(mutated(answers), shares), ([bytes, cuts]) => {
        const read = (pieces: readonly Buffer[]) => {
          const reader = endpoint.answerReader();
          for (const piece of pieces) reader.push(piece);
          return reader.end();
        };
        const whole = read([bytes]);
        expect(read(inPieces(bytes, cuts))).toEqual(whole);
        expectChargeable(whole?.usage);
      });
      check(fc.tuple(mutated(streams), shares), ([bytes, cuts]) => {
        const read = (pieces: readonly Buffer[]) => {
          const transcript = endpoint.transcript();
          for (const piece of pieces) transcript.push(piece);
          return transcript.everything();
        };
        const whole = read([bytes]);
        expect(read(inPieces(bytes, cuts))).toEqual(whole);
        expectChargeable(whole?.usage);
      });
    },
    3 * timeoutMs,
  );

  it.each(endpoints.filter(({ route }) => bases.has(route)).map((endpoint) => [endpoint.route, endpoint] as const))(
    "of a request to %s with a member that is given twice outside free fields are refused",
    (route, { fields, readRequest }) => {
      const base = bases.get(route) ?? {};
      const nested = fc.tuple(
        fc.constantFrom("wonder", ...nestedFields),
        fc.jsonValue(),
        fc.nat(),
        fc.nat(),
        fc.boolean(),
      );
      check(nested, ([field, value, object, member, isEscaped]) => {
        const body = { [field]: value, ...base };
        const objects = objectsIn(body);
        const target = objects[object % objects.length];
        const names = Object.keys(target?.object ?? {});
        const name = names[member % names.length];
        if (target === undefined || name === undefined) return;
        const [top = name, ...path] = target.path;
        const isFree =
          fields.meaningOf(top) === "free" ||
          (top === "tools" &&
            [...path, name].some((each) => each === (route === "/v1/messages" ? "input_schema" : "parameters")));
        const read = readRequest(Buffer.from(withTwin(body, target.object, name, isEscaped)));
        if (!isFree) expect(read).toMatchObject({ ok: false, refusal: { code: "invalid_request" } });
        else if (readRequest(Buffer.from(JSON.stringify(body))).ok) expect(read.ok).toBe(true);
      });
    },
    timeoutMs,
  );

  it(
    "are read at an unknown path as JSON, or with the reason why they are not",
    () => {
      check(mutated([...requests, '{"a":{"max_tokens":9},"b":[{"model":"m"}]}']), (bytes) => {
        const read = passthrough.readRequest(bytes, "application/json");
        if (!read.ok) return expect(read.refusal).toBeUndefined();
        if (bytes.length === 0 || read.request.unread !== undefined) return;
        const text = bytes.toString("utf8");
        expect(parseJson(text)).not.toBeUndefined();
        if (/"max_tokens":\s*[1-9]/.test(text)) expect(read.request.outputMember).toBeDefined();
      });
    },
    timeoutMs,
  );

  it(
    "of a form are read without an exception, and never with another model than the parts state",
    () => {
      const form =
        '--b\r\ncontent-disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--b\r\ncontent-disposition: form-data; name="file"; filename="a.mp3"\r\ncontent-type: audio/mpeg\r\n\r\n\x00\x01--b\r\r\n-\r\n--b\r\ncontent-disposition: form-data; name="n"\r\n\r\n2\r\n--b--\r\n';
      check(mutated([form]), (bytes) => {
        const read = readForm(bytes, "multipart/form-data; boundary=b");
        for (const endpoint of endpoints.filter(({ readForm: reads }) => reads !== undefined)) {
          const result = endpoint.readForm?.(read);
          if (result?.ok !== true) continue;
          const named = read?.parts.filter(({ name, isFile }) => name === "model" && !isFile);
          expect(named?.map(({ value }) => value.toString())).toEqual([result.request.model]);
        }
        expect(passthrough.readForm?.(read).ok).toBe(true);
      });
    },
    timeoutMs,
  );

  it(
    "of a form between two delimiters are one part, whatever they are",
    () => {
      check(
        fc.array(fc.tuple(fc.boolean(), mutated(["\r\n--", "--b", "a\r\n\r\nb", "\r\n-\r\n"])), { maxLength: 5 }),
        (values) => {
          fc.pre(values.every(([, value]) => !Buffer.concat([Buffer.from("\r\n"), value]).includes("\r\n--b")));
          const parts = values.map(([isFile, value], index) => ({ name: `p${index}`, isFile, value }));
          const form = Buffer.concat([
            ...parts.flatMap(({ name, isFile, value }) => [
              Buffer.from(
                `--b\r\ncontent-disposition: form-data; name="${name}"${isFile ? '; filename="x"' : ""}\r\n\r\n`,
              ),
              value,
              Buffer.from("\r\n"),
            ]),
            Buffer.from("--b--\r\n"),
          ]);
          expect(formParts(form, "b")).toEqual(parts);
        },
      );
    },
    timeoutMs,
  );

  it(
    "are read without an exception as a task request, a task record and an account",
    () => {
      const task =
        '{"model":"kling","task_type":"video_generation","input":{"prompt":"x","duration":5},"config":{"service_mode":"","webhook_config":{"endpoint":"https://a.example/x","secret":"s"}}}';
      const records = [
        '{"timestamp":1,"data":{"task_id":"t","model":"m","task_type":"v","status":"completed","config":{},"input":{},"output":{"video":"u"},"meta":{"created_at":"2026-01-01T00:00:00.5Z","started_at":"0001-01-01T00:00:00Z","ended_at":"2026-01-01T00:01:00Z","usage":{"type":"llm","frozen":1,"consume":20000000}},"detail":null,"logs":[],"error":{"code":0,"message":""}}}',
        '{"code":200,"data":{"task_id":"t","task_type":"v","status":"Failed","task_info":{"created_at":"","frozen_credits":1.5},"task_result":{"used_credits":0.25,"error_messages":["timeout"],"task_output":{"image_url":"u"}}},"message":"success"}',
      ];
      const account =
        '{"code":200,"data":{"equivalent_in_usd":12.5,"plan":"pro","wallet":{"credit_remain":1},"credit_pack_info":{"total_credits":10,"available_credits":2.5,"used_credits":7}},"message":"success"}';
      check(mutated([task]), (bytes) => void readTaskRequest(bytes));
      check(mutated(records), (bytes) => void readTaskRecord(bytes));
      check(mutated([account]), (bytes) => {
        const record = parseJson(bytes.toString("utf8"));
        readAccount(record);
        readAccountFigures(record);
      });
    },
    3 * timeoutMs,
  );
});

it(
  "arbitrary JSON is read as a usage that can be charged, or as none",
  () => {
    check(
      fc.oneof(
        fc.jsonValue(),
        mutated([usageJson, responsesUsage]).map((bytes) => parseJson(bytes.toString("utf8"))),
      ),
      (value) => expectChargeable(readUsage(value)),
      5 * inputs,
    );
  },
  5 * timeoutMs,
);

describe("arbitrary text", () => {
  const prices = globSync("pricing/**/*.yaml").map((path) => readFileSync(path, "utf8"));
  // The first 60 lines of each file contain every construct and keep the run short.
  const starts = prices.map((text) => text.split("\n").slice(0, 60).join("\n"));
  const base = `groups: { half: { fraction: "0.5" } }
provider: example
models: { big: { group: half, context_tokens: 9, max_output_tokens: 9, prices: [{ from: 2026-01-01, source: "a list", official: { input: "2", output: "4" } }] } }
`;
  const changes = `gateway: { fraction: "0.5", minimum: { tokens: 20, usd: "0.01" }, cached_input: official }
groups: { half: { cache_write: input, cache_write_1h: "0.6" } }
models:
  big: { change: { from: 2026-02-01, until: 2026-05-01, source: "a contract", fees: { x_call: { usd: "1", input_tokens: 2 } }, tiers: [{ from_prompt_tokens: 5, official: { input: "1", output: "2" } }] } }
  "b*": { changes: [{ reasoning: false, group: half }, { from: 2026-03-01, source: "x", gateway: { input: "1" }, service_tiers: { flex: { official: { input: "1", output: "1" } } } }] }
`;

  it(
    "of a price file is read as prices of at least 0, or as faults",
    () => {
      check(
        mutated([...starts, changes]),
        (bytes) => {
          const mine = [{ name: "mine.yaml", text: bytes.toString("utf8") }];
          const result = buildCatalogue(bytes.includes("change:") ? [[{ name: "a.yaml", text: base }], mine] : [mine]);
          if (!result.ok) {
            expect(result.faults.length).toBeGreaterThan(0);
            return;
          }
          for (const { spans } of result.catalogue.histories()) {
            for (const { model } of spans) {
              const cost =
                model.price === null
                  ? null
                  : costWithinRange(
                      { price: model.price.version, servedPrice: null },
                      { ...noTokens, input: 1000, output: 1000 },
                    );
              if (cost !== null) expect(cost.charged >= 0n && cost.list >= 0n).toBe(true);
            }
          }
        },
        Math.ceil(inputs / 4),
      );
    },
    timeoutMs,
  );

  it(
    "of an apply file is read without an exception",
    () => {
      const example = readFileSync("docs/apply.example.yaml", "utf8");
      check(
        mutated([example]),
        (bytes) => {
          const read = readYaml("a.yaml", bytes.toString("utf8"), applyFileKind);
          expect(typeof read).toBe("object");
        },
        Math.ceil(inputs / 4),
      );
    },
    timeoutMs,
  );

  it(
    "of settings is read as settings, or as problems that do not show a secret",
    () => {
      const secret = "s3cr3t-0123456789";
      const value = fc.oneof(
        fc.string(),
        fc.constantFrom(
          "0",
          "-1",
          "1e9",
          "10m",
          "32mb",
          "https://a.example",
          "postgres://x",
          "yes",
          "UTC",
          "key",
          secret,
        ),
      );
      const names = fc.oneof(
        fc.constantFrom(...settingNames),
        fc.string().map((text) => `FAREBOX_${text}`),
      );
      check(
        fc.tuple(
          fc.array(fc.tuple(names, value), { maxLength: 6 }),
          mutated(["port: 4000\ngateway_url: https://a.example\ntime_zone: UTC\n"]),
        ),
        ([pairs, file]) => {
          const env = {
            ...Object.fromEntries(pairs.filter(([name]) => !name.includes("\0"))),
            FAREBOX_GATEWAY_API_KEY: `${secret}\n\0`,
            FAREBOX_CONFIG: "f",
          };
          const loaded = loadSettings({
            env,
            flags: {},
            readFile: () => ({ ok: true, text: file.toString("utf8") }),
            uses: "all",
          });
          if (!loaded.ok) expect(loaded.problems.join("\n")).not.toContain(secret);
        },
      );
    },
    timeoutMs,
  );

  it(
    "of a request target is read as a safe path, or as none",
    () => {
      check(
        mutated(["/v1/chat/completions", "/api/v1/task/t-1?x=%2F", "/v1/models/gpt%2D4o", "/admin/v1/keys"]),
        (bytes) => {
          const clean = cleanPath(bytes.toString("latin1"));
          if (clean === undefined) return;
          expect(clean.path.startsWith("/")).toBe(true);
          const segments = decodeURIComponent(clean.path).split("/").slice(1);
          expect(segments.filter((segment) => segment === "." || segment === "..")).toEqual([]);
          expect(clean.path).not.toMatch(/\/\/|\\|%2f|%5c/i);
        },
      );
    },
    timeoutMs,
  );

  it(
    "of a tag header is read as short tags, or refused",
    () => {
      check(mutated(["team=blue, feature=search", "feature=検索, b=é"]), (bytes) => {
        const read = readTags(bytes.toString("latin1"));
        if (!read.ok) return;
        for (const [name, text] of Object.entries(read.tags)) {
          expect(name.length).toBeLessThan(64);
          expect(text).toMatch(/^[^\p{Cc}\p{Cs},]{1,128}$/u);
        }
      });
    },
    timeoutMs,
  );
});

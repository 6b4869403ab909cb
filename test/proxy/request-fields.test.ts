import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTeam } from "../../src/admin/team-changes.ts";
import type { Charge } from "../../src/core/charge.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { NewCharges } from "../support/new-charges.ts";
import { priceFolder } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { fetchAnswer, type WireAnswer } from "../support/wire-client.ts";

let proxy: RunningProxy;
let newCharges: NewCharges;
let narrow: string;
let budgeted: string;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  proxy = everything.use(await startProxy());
  narrow = await proxy.addKey("narrow", { models: ["gpt-4o*", "text-embedding*", "gpt-image*", "whisper*", "tts*"] });
  budgeted = await proxy.addKey("budgeted");
  await proxy.budget("key:budgeted", "100000");
  newCharges = new NewCharges(proxy);
});
afterAll(() => everything.disposeAsync());

const chat = (more: object = {}) => ({
  model: "gpt-4o",
  max_tokens: 10,
  messages: [{ role: "user", content: "hello" }],
  ...more,
});
/** Every JSON endpoint, with a request that it answers. */
const requests: readonly (readonly [path: string, body: object])[] = [
  ["/v1/chat/completions", chat()],
  ["/v1/completions", { model: "gpt-4o", prompt: "hello", max_tokens: 4 }],
  ["/v1/embeddings", { model: "text-embedding-3-small", input: "hello" }],
  ["/v1/responses", { model: "gpt-4o", input: "hello", max_output_tokens: 16 }],
  ["/v1/images/generations", { model: "gpt-image-1", prompt: "A harbour" }],
  ["/v1/audio/speech", { model: "tts-1", input: "hello", voice: "alloy" }],
];
const forms: readonly (readonly [path: string, parts: Readonly<Record<string, string>>, file: string])[] = [
  ["/v1/images/edits", { model: "gpt-image-1", prompt: "x" }, "image"],
  ["/v1/images/variations", { model: "gpt-image-1" }, "image"],
  ["/v1/audio/transcriptions", { model: "whisper-1" }, "file"],
  ["/v1/audio/translations", { model: "whisper-1" }, "file"],
];

interface Options {
  readonly path?: string;
  readonly headers?: Record<string, string>;
  readonly to?: RunningProxy;
}

const send = (
  key: string,
  body: object | string,
  { path = "/v1/chat/completions", headers = {}, to = proxy }: Options = {},
): Promise<WireAnswer> => fetchAnswer({ url: to.url, key }, body, { path, headers });
const errorOf = (answer: WireAnswer) =>
  (JSON.parse(answer.body.toString()) as { error: { code: string; param: string | null; message: string } }).error;

async function sendForm(
  key: string,
  path: string,
  parts: Iterable<readonly [string, string | Blob]>,
  to = proxy,
): Promise<WireAnswer> {
  const form = new FormData();
  for (const [name, value] of parts) form.append(name, value);
  const encoded = new Response(form);
  const body = Buffer.from(await encoded.arrayBuffer());
  return fetchAnswer({ url: to.url, key }, body, {
    path,
    headers: { "content-type": encoded.headers.get("content-type") ?? "" },
  });
}

async function chargeOf(answer: WireAnswer): Promise<Charge> {
  expect(answer.status, answer.body.toString("utf8", 0, 300)).toBe(200);
  newCharges.billed();
  return newCharges.settled();
}

/** Checks that a request was refused before anything was held or sent, and returns the error. */
async function refusalOf(answer: WireAnswer) {
  expect(answer.status, answer.body.toString("utf8", 0, 300)).toBeGreaterThanOrEqual(400);
  expect(await newCharges.allSettled()).toEqual([]);
  return errorOf(answer);
}

/** Worst-case cost of an o1-pro chat with one message and 10 output tokens, at USD 150 and 600 per million. */
const heldForO1Pro = (body: object) => BigInt(JSON.stringify(body).length + 3 + 8) * 150_000_000n + 10n * 600_000_000n;

describe("a field that names models", () => {
  it.each<object>([
    { models: ["gpt-4o", "o1-pro"], route: "fallback" },
    { models: ["o1-pro"] },
    { models: "o1-pro" },
    { models: "gpt-4o,o1-pro" },
    { fallbacks: ["o1-pro"] },
    { fallbacks: [{ model: "o1-pro", messages: [{ role: "user", content: "hello" }] }] },
    { fallbacks: [{ "gpt-4o": ["o1-pro"] }] },
    { context_window_fallback_dict: { "gpt-4o": "o1-pro" } },
    { model: "gpt-4o,o1-pro" },
    { preset: "anything" },
  ])("is refused to a key that may not use one of its models: %j", async (more) => {
    const { code, message } = await refusalOf(await send(narrow, chat(more)));
    expect(code).toBe("model_not_allowed");
    expect(message).toMatch(/o1-pro|anything/);
  });

  it("is also checked against the models of the key's team", async () => {
    const made = await createTeam(
      { teams: proxy.serving.teams, clock: systemClock(), by: "test" },
      { name: "red", models: ["gpt-4o*"] },
    );
    expect(made.ok).toBe(true);
    const member = await proxy.addKey("member", { team: "red" });
    expect(await refusalOf(await send(member, chat({ models: ["o1-pro"] })))).toMatchObject({
      code: "model_not_allowed",
    });
  });

  it("passes if all its models are allowed, and the charge is for the requested model", async () => {
    expect(
      await chargeOf(await send(narrow, chat({ models: ["gpt-4o", "gpt-4o-mini"], route: "fallback" }))),
    ).toMatchObject({ model: "gpt-4o", source: "reported", doubts: [] });
  });

  it("holds the price of its most expensive model under a hard budget", async () => {
    const body = chat({ models: ["gpt-4o", "o1-pro"], route: "fallback" });
    expect((await chargeOf(await send(budgeted, body))).hold).toBe(heldForO1Pro(body));
    const plain = await chargeOf(await send(budgeted, chat()));
    expect(plain.hold ?? 0n).toBeLessThan(heldForO1Pro(body) / 10n);
  });

  it("holds the whole output of a stream at the most expensive model's rate", async () => {
    const body = {
      ...chat({ models: ["gpt-4.1", "gpt-4o"], stream: true, stream_options: { include_usage: true } }),
      max_tokens: undefined,
    };
    // gpt-4.1 writes up to 32,768 tokens at USD 6 per million.
    expect((await chargeOf(await send(budgeted, body))).hold ?? 0n).toBeGreaterThan(32_768n * 6_000_000n);
  });

  it.each<object>([{ models: ["unknown-model"] }, { fallbacks: [{ model: "unknown-model" }] }])(
    "is refused under a hard budget if one of its models has no price: %j",
    async (more) => {
      const { code, message } = await refusalOf(await send(budgeted, chat(more)));
      expect(code).toBe("model_not_priced");
      expect(message).toContain("unknown-model");
    },
  );

  it("is refused under a hard budget if it overrides request fields or lists models in one string", async () => {
    expect(await refusalOf(await send(budgeted, chat({ fallbacks: [{ model: "gpt-4o-mini", n: 50 }] })))).toMatchObject(
      {
        code: "invalid_request",
        param: "fallbacks",
      },
    );
    expect(await refusalOf(await send(budgeted, chat({ model: "gpt-4o,gpt-4o-mini" })))).toMatchObject({
      code: "model_not_priced",
    });
  });

  it.each([...requests])("is checked at %s in fields, headers and query parameters", async (path, body) => {
    for (const options of [
      { path: `${path}?models=o1-pro` },
      { path: `${path}?x=a,o1-pro` },
      { path, headers: { "openai-fallback": "o1-pro" } },
      { path, headers: { "anthropic-beta": "route=o1-pro" } },
    ]) {
      expect(await refusalOf(await send(narrow, body, options))).toMatchObject({ code: "model_not_allowed" });
    }
    expect(await refusalOf(await send(narrow, { ...body, models: ["o1-pro"] }, { path }))).toMatchObject({
      code: "model_not_allowed",
    });
  });

  it.each([...forms])("is checked at %s in form parts, even after the file", async (path, parts, file) => {
    const blob = new Blob([Buffer.alloc(2_000, 7)]);
    for (const [name, value] of [
      ["models", "o1-pro"],
      ["models[]", "o1-pro"],
      ["fallbacks[0][model]", "o1-pro"],
      ["wonder", '{"a":["o1-pro"]}'],
      ["wonder[a]", "o1-pro"],
    ] as const) {
      expect(
        await refusalOf(await sendForm(narrow, path, [...Object.entries(parts), [name, value], [file, blob]])),
        name,
      ).toMatchObject({ code: "model_not_allowed" });
    }
    const late = await sendForm(narrow, path, [
      ...Object.entries(parts),
      [file, new Blob([Buffer.alloc(200_000, 7)])],
      ["models", "o1-pro"],
    ]);
    expect(await refusalOf(late)).toMatchObject({ code: "model_not_allowed" });
  });

  it("is checked on paths without a route", async () => {
    await using open = await startProxy({ env: { FAREBOX_PASSTHROUGH: "all" } });
    const key = await open.addKey("narrow", { models: ["gpt-4o*"] });
    for (const body of [
      { model: "gpt-4o", models: ["o1-pro"] },
      { model: "gpt-4o", wonder: { to: "o1-pro" } },
      { model: "gpt-4o,o1-pro" },
    ]) {
      expect(errorOf(await send(key, body, { path: "/v1/anything", to: open }))).toMatchObject({
        code: "model_not_allowed",
      });
    }
    expect(
      errorOf(await send(key, { model: "gpt-4o" }, { path: "/v1/anything?model=o1-pro", to: open })),
    ).toMatchObject({ code: "invalid_request", param: "model" });
  });
});

describe("an unknown field", () => {
  const nested: readonly (readonly [path: string, body: object])[] = [
    ...requests.map(([path, body]) => [path, { ...body, wonder: { deep: [{ er: "o1-pro" }] } }] as const),
    ["/v1/chat/completions", chat({ messages: [{ role: "user", content: "hello", wonder: ["o1-pro"] }] })],
    [
      "/v1/chat/completions",
      chat({ messages: [{ role: "user", content: [{ type: "text", text: "hello", wonder: "o1-pro" }] }] }),
    ],
    [
      "/v1/chat/completions",
      chat({ messages: [{ role: "user", content: [{ type: "wonder", by: { "o1-pro": 1 } }] }] }),
    ],
    ["/v1/responses", { model: "gpt-4o", input: [{ role: "user", content: "hello", wonder: "o1-pro" }] }],
    ["/v1/responses", { model: "gpt-4o", input: [{ type: "wonder", model: "o1-pro" }] }],
    ["/v1/responses", { model: "gpt-4o", input: "hello", tools: [{ type: "image_generation", model: "o1-pro" }] }],
    ["/v1/chat/completions", chat({ wonder: "gpt-4o, O1-Pro" })],
    ["/v1/chat/completions", chat({ provider: { order: ["openai"], only: "o1-pro" } })],
  ];

  it.each([...nested])(
    "at %s that names a model is refused to a key that may not use the model: %j",
    async (path, body) => {
      const { code, message } = await refusalOf(await send(narrow, body, { path }));
      expect(code).toBe("model_not_allowed");
      expect(message.toLowerCase()).toContain("o1-pro");
    },
  );

  it.each([...requests])(
    "at %s cannot be hidden by a member that is given twice, with any key and at any depth",
    async (path, body) => {
      for (const twice of [
        '"wonder":{"a":"o1-pro","a":"x"}',
        '"wonder":"o1-pro","wonder":"x"',
        '"wonder":"o1-pro","won\\u0064er":null',
        '"wonder":[{"b":[[{"a":"o1-pro","a":"x"}]]}]',
        '"fallbacks":[{"model":"o1-pro","model":"gpt-4o"}]',
        '"reasoning":{"mode":"pro","mode":"standard"}',
        '"cache_control":{"ttl":"1h","ttl":"5m"}',
        '"prompt_cache_options":{"ttl":"24h","ttl":"30m"}',
      ]) {
        const text = JSON.stringify(body).replace(/^\{/, `{${twice},`);
        for (const key of [narrow, budgeted, proxy.key]) {
          const { code, message } = await refusalOf(await send(key, text, { path }));
          expect([twice, code]).toEqual([twice, "invalid_request"]);
          expect(message).toContain("is given twice");
        }
      }
    },
  );

  it("that names a model holds that model's price under a hard budget", async () => {
    // Full context of o1-pro, 200,000 tokens, and its maximum output.
    const hold = 200_000n * 150_000_000n + 100_000n * 600_000_000n;
    for (const more of [{ wonder: "o1-pro" }, { messages: [{ role: "user", content: "hello", wonder: "o1-pro" }] }]) {
      expect((await chargeOf(await send(budgeted, chat(more)))).hold).toBe(hold);
    }
    expect((await chargeOf(await send(budgeted, chat(), { headers: { "openai-wonder": "o1-pro" } }))).hold).toBe(hold);
    expect((await chargeOf(await send(budgeted, chat(), { path: "/v1/chat/completions?wonder=o1-pro" }))).hold).toBe(
      hold,
    );
  });

  it.each([...requests])("at %s passes and adds a doubt to the charge", async (path, body) => {
    expect((await chargeOf(await send(proxy.key, body, { path }))).doubts).toEqual([]);
    expect((await chargeOf(await send(narrow, { ...body, wonder: "x" }, { path }))).doubts).toEqual(["unknown_field"]);
    expect((await chargeOf(await send(narrow, body, { path: `${path}?wonder=x` }))).doubts).toEqual(["unknown_field"]);
    expect((await chargeOf(await send(narrow, body, { path, headers: { "anthropic-wonder": "x" } }))).doubts).toEqual([
      "unknown_field",
    ]);
    const known = {
      "openai-organization": "o",
      "openai-project": "p",
      "anthropic-version": "2023-06-01",
      "anthropic-beta": "prompt-caching-2024-07-31,extended-cache-ttl-2025-04-11",
    };
    expect(
      (await chargeOf(await send(narrow, body, { path: `${path}?api-version=2025-01-01`, headers: known }))).doubts,
    ).toEqual([]);
  });

  it.each([...forms])(
    "at %s passes as a form part, even after the file, and adds a doubt to the charge",
    async (path, parts, file) => {
      const big = new Blob([Buffer.alloc(200_000, 7)]);
      expect((await chargeOf(await sendForm(proxy.key, path, [...Object.entries(parts), [file, big]]))).doubts).toEqual(
        [],
      );
      expect(
        (await chargeOf(await sendForm(proxy.key, path, [...Object.entries(parts), ["wonder", "x"], [file, big]])))
          .doubts,
      ).toEqual(["unknown_field"]);
      expect(
        (await chargeOf(await sendForm(proxy.key, path, [...Object.entries(parts), [file, big], ["wonder", "x"]])))
          .doubts,
      ).toEqual(["unknown_field"]);
    },
  );

  it("adds a doubt, and so does a known field that may change the price", async () => {
    for (const [more, doubt] of [
      [{ provider: { order: ["x"] } }, "unknown_field"],
      [{ speed: "fast" }, "service_tier"],
      [{ inference_geo: "us" }, "service_tier"],
    ] as const)
      expect((await chargeOf(await send(proxy.key, chat(more)))).doubts, JSON.stringify(more)).toEqual([doubt]);
    expect((await chargeOf(await send(proxy.key, chat({ plugins: [{ id: "web" }] })))).doubts).toEqual([
      "unknown_field",
      "hosted_tool",
    ]);
  });
});

describe("a hard budget", () => {
  it.each<[string, object]>([
    ["provider", { provider: { order: ["x"] } }],
    ["plugins", { plugins: [{ id: "web" }] }],
    ["speed", { speed: "fast" }],
    ["inference_geo", { inference_geo: "us" }],
    ["route", { route: "expensive" }],
    ["extra_body.n", { extra_body: { n: 50 } }],
    ["mcp_servers", { mcp_servers: [{ url: "https://x" }] }],
    ["cache_control.ttl", { cache_control: { type: "ephemeral", ttl: "24h" } }],
    [
      "messages.content.cache_control.ttl",
      { messages: [{ role: "user", content: [{ type: "text", text: "x", cache_control: { ttl: "24h" } }] }] },
    ],
  ])("refuses the unbounded field %s", async (param, more) => {
    const { code, param: named, message } = await refusalOf(await send(budgeted, chat(more)));
    expect([code, named]).toEqual(["invalid_request", param]);
    expect(message).toMatch(/hard budget cannot use it: \w/);
  });

  it.each<[string, Options]>([
    ["header anthropic-beta", { headers: { "anthropic-beta": "context-1m-2025-08-07" } }],
    ["query speed", { path: "/v1/chat/completions?speed=fast" }],
    ["query n", { path: "/v1/chat/completions?n=50" }],
    ["query Max_Tokens", { path: "/v1/chat/completions?Max_Tokens=50000" }],
  ])("refuses the unbounded %s", async (param, options) => {
    expect(await refusalOf(await send(budgeted, chat(), options))).toMatchObject({ code: "invalid_request", param });
  });

  it.each<object>([
    { speed: "standard" },
    { inference_geo: "global" },
    { route: "fallback" },
    { cache_control: { type: "ephemeral", ttl: "5m" } },
  ])("accepts %j without a doubt", async (more) => {
    expect((await chargeOf(await send(budgeted, chat(more)))).doubts).toEqual([]);
  });
});

it("a one-hour prompt cache is held at its own rate for every field that requests it", async () => {
  using prices = priceFolder(`provider: mine
models:
  cached-1:
    context_tokens: 100000
    max_output_tokens: 1000
    prices:
      - from: 2024-01-01
        source: "a test"
        official: { input: "1", cache_write: "1.25", cache_write_1h: "2", output: "1" }
        gateway: { input: "1", cache_write: "1.25", cache_write_1h: "2", output: "1" }
`);
  await using own = await startProxy({ env: { FAREBOX_PRICING: prices.path } });
  await own.budget("key:alice", "100");
  const hour = { type: "ephemeral", ttl: "1h" };
  const bodies: readonly (readonly [path: string, body: object])[] = [
    ["/v1/chat/completions", chat({ cache_control: hour })],
    ["/v1/chat/completions", chat({ messages: [{ role: "user", content: "hello", cache_control: hour }] })],
    [
      "/v1/chat/completions",
      chat({ messages: [{ role: "user", content: [{ type: "text", text: "hello", cache_control: hour }] }] }),
    ],
    ["/v1/chat/completions", chat({ tools: [{ type: "function", function: { name: "f" }, cache_control: hour }] })],
    ["/v1/responses", { input: "hello", max_output_tokens: 10, cache_control: hour }],
    ["/v1/completions", { prompt: "hello", max_tokens: 10, cache_control: hour }],
    ["/v1/embeddings", { input: "hello", cache_control: hour }],
  ];
  for (const [path, body] of bodies) {
    const output = path === "/v1/embeddings" ? 0n : 10n * 1_000_000n;
    const holds: bigint[] = [];
    for (const ttl of ["1h", "5m"]) {
      const text = JSON.stringify({ ...body, model: "cached-1" }).replace('"1h"', `"${ttl}"`);
      await send(own.key, text, { path, to: own });
      holds.push(((await own.charges()).at(-1)?.hold ?? 0n) - output);
    }
    // At USD 2 and 1.25 per million tokens.
    expect((holds[0] ?? 0n) * 125n, `${path} ${JSON.stringify(body)}`).toBe((holds[1] ?? 0n) * 200n);
  }
});

it("a one-hour prompt cache is refused under a hard budget if the price file has no rate for it", async () => {
  const body = { ...chat({ cache_control: { type: "ephemeral", ttl: "1h" } }), model: "gpt-5.6-sol" };
  const { param, message } = await refusalOf(await send(budgeted, body));
  expect(param).toBe("cache_control.ttl");
  expect(message).toContain("cache_write_1h");
  expect((await chargeOf(await send(proxy.key, body))).doubts).toEqual(["unknown_field"]);
});

describe("FAREBOX_UNKNOWN_FIELDS=refuse", () => {
  let strict: RunningProxy;
  beforeAll(async () => {
    strict = everything.use(await startProxy({ env: { FAREBOX_UNKNOWN_FIELDS: "refuse" } }));
  });

  it.each([...requests])("refuses an unknown field at %s, naming the field and the setting", async (path, body) => {
    const cases: [string, WireAnswer][] = [
      ["wonder", await send(strict.key, { ...body, wonder: 1 }, { path, to: strict })],
      ["query wonder", await send(strict.key, body, { path: `${path}?wonder=1`, to: strict })],
      ["header openai-wonder", await send(strict.key, body, { path, headers: { "openai-wonder": "1" }, to: strict })],
    ];
    for (const [param, answer] of cases) {
      expect(answer.status).toBe(400);
      expect(errorOf(answer)).toEqual(
        expect.objectContaining({
          code: "invalid_request",
          param,
          message: `Farebox does not know '${param}', and FAREBOX_UNKNOWN_FIELDS is 'refuse'.`,
        }),
      );
    }
    expect((await send(strict.key, body, { path, to: strict })).status).toBe(200);
  });

  it.each([...forms])("refuses an unknown form part at %s, before and after the file", async (path, parts, file) => {
    const big = new Blob([Buffer.alloc(200_000, 7)]);
    for (const order of [
      [
        ["wonder", "x"],
        [file, big],
      ],
      [
        [file, big],
        ["wonder", "x"],
      ],
    ] as [string, string | Blob][][]) {
      expect(errorOf(await sendForm(strict.key, path, [...Object.entries(parts), ...order], strict))).toMatchObject({
        code: "invalid_request",
        param: "wonder",
      });
    }
  });

  it.each<[string, object]>([
    ["messages.wonder", chat({ messages: [{ role: "user", content: "x", wonder: 1 }] })],
    [
      "messages.content.wonder",
      chat({ messages: [{ role: "user", content: [{ type: "text", text: "x", wonder: 1 }] }] }),
    ],
    ["messages.content.hologram", chat({ messages: [{ role: "user", content: [{ type: "hologram" }] }] })],
    ["cache_control.wonder", chat({ cache_control: { type: "ephemeral", wonder: 1 } })],
  ])("refuses the unknown chat field %s", async (param, body) => {
    expect(errorOf(await send(strict.key, body, { to: strict }))).toMatchObject({ param });
  });

  it("accepts known fields that may cost more from a key without a hard budget", async () => {
    for (const more of [{ models: ["gpt-4o", "o1-pro"] }, { provider: {} }, { documents: ["x"] }]) {
      expect((await send(strict.key, chat(more), { to: strict })).status).toBe(200);
    }
  });

  it("counts unknown fields by route and name", async () => {
    await send(strict.key, chat({ wonder: 1 }), { to: strict });
    expect(await strict.metrics()).toMatch(
      /^farebox_unknown_fields_total\{route="\/v1\/chat\/completions",field="wonder"\} \d+$/m,
    );
  });
});

describe("a model name in a text", () => {
  it.each(["openai/o1", "OpenAI/O1:online", "o1:free", "https://gateway.example/v1/o1"])(
    "is recognized in an unknown field, even with a provider or a variant: %s",
    async (name) => {
      const answer = await send(narrow, chat({ deployment_override: name }));
      expect([answer.status, errorOf(answer).code]).toEqual([403, "model_not_allowed"]);
    },
  );

  it.each<[name: string, item: object]>([
    ["the output of a command", { type: "shell_call_output", call_id: "c", output: [{ stdout: "o1\n", stderr: "" }] }],
    [
      "a screenshot",
      { type: "computer_call_output", call_id: "c", output: { type: "computer_screenshot", image_url: "o1" } },
    ],
    [
      "the tools of a server",
      {
        type: "mcp_list_tools",
        server_label: "s",
        tools: [{ name: "ask", input_schema: { properties: { model: { enum: ["o1"] } } } }],
      },
    ],
    [
      "earlier reasoning",
      {
        type: "reasoning",
        summary: [{ type: "summary_text", text: "o1" }],
        content: [{ type: "reasoning_text", text: "o1" }],
      },
    ],
  ])("is ignored in %s", async (_name, item) => {
    const input = [{ type: "message", role: "user", content: "hello" }, item];
    const answer = await send(narrow, { model: "gpt-4o", input }, { path: "/v1/responses" });
    expect(answer.status).toBe(200);
    expect((await newCharges.allSettled()).at(-1)?.doubts).not.toContain("unknown_field");
  });
});

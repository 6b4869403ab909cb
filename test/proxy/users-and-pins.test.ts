import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { updateKey, type KeyUpdate, type NewKey } from "../../src/admin/key-changes.ts";
import { beginSession, newSessionSchema } from "../../src/admin/run-sessions.ts";
import { answeringGateway } from "../support/answering-gateway.ts";
import { captureLog } from "../support/captured-log.ts";
import { tempFolder } from "../support/ledger-fixtures.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { createTask } from "../support/task-client.ts";
import { until } from "../support/until.ts";

const chat = { model: "gpt-4o", messages: [{ role: "user", content: "Say hello." }] };

/** Sends a request. Returns its status, the message of its refusal, and its charge if there is one. */
async function sent(
  proxy: RunningProxy,
  { key, path = "/v1/chat/completions", body = chat, headers = {} }: Sending,
): Promise<{ readonly status: number; readonly message: string | null; readonly charge: unknown }> {
  const isForm = body instanceof FormData;
  const before = new Set((await proxy.charges()).map(({ id }) => id));
  const response = await fetch(proxy.url + path, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key ?? proxy.key}`,
      ...(isForm ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    body: isForm || typeof body === "string" ? body : JSON.stringify(body),
  });
  const text = await response.text();
  const message = response.ok ? null : (JSON.parse(text) as { error: { message: string } }).error.message;
  const charge = (await proxy.charges()).find(({ id }) => !before.has(id)) ?? null;
  return { status: response.status, message, charge };
}

interface Sending {
  readonly key?: string;
  readonly path?: string;
  readonly body?: object | string;
  readonly headers?: Record<string, string>;
}

let count = 0;
async function keyWith(proxy: RunningProxy, wish: Omit<NewKey, "name">): Promise<string> {
  return await proxy.addKey(`k${++count}`, wish);
}

function form(...fields: readonly (readonly [name: string, value: string | Blob])[]): FormData {
  const made = new FormData();
  for (const [name, value] of fields) made.append(name, value);
  return made;
}

const sound = new Blob([Buffer.alloc(2000)], { type: "audio/wav" });

describe("the user of a request", () => {
  let proxy: RunningProxy;
  beforeAll(async () => {
    proxy = await startProxy({ env: { FAREBOX_PASSTHROUGH: "all" } });
  });
  afterAll(() => proxy[Symbol.asyncDispose]());

  it.each<[string, Sending, string | null]>([
    ["is null by default", {}, null],
    ["is read from the body", { body: { ...chat, user: "u_42" } }, "u_42"],
    ["may contain spaces and symbols", { body: { ...chat, user: " Zoë 1% 🦊" } }, " Zoë 1% 🦊"],
    [
      "is the safety identifier rather than the user field",
      { body: { ...chat, user: "u_1", safety_identifier: "u_2" } },
      "u_2",
    ],
    [
      "is the header's value rather than the body's",
      { body: { ...chat, safety_identifier: "u_2" }, headers: { "x-farebox-user": "u_3" } },
      "u_3",
    ],
    [
      "is the body's value if the header is empty",
      { body: { ...chat, user: "u" }, headers: { "x-farebox-user": "" } },
      "u",
    ],
    ["may be a header in UTF-8", { headers: { "x-farebox-user": Buffer.from("Zoë").toString("latin1") } }, "Zoë"],
    ["may be a header in Latin-1", { headers: { "x-farebox-user": "Zoë" } }, "Zoë"],
    ["may have 128 characters", { body: { ...chat, user: "🦊".repeat(128) } }, "🦊".repeat(128)],
    ["is null if it is too long", { body: { ...chat, user: "u".repeat(129) } }, null],
    ["is null if it is as long as a prompt", { body: { ...chat, user: "u".repeat(5000) } }, null],
    ["is null if it has control characters", { body: { ...chat, user: "a\nb" } }, null],
    ["is null if it is not a string", { body: { ...chat, user: 42, safety_identifier: { id: "u" } } }, null],
    [
      "is the user field if the safety identifier is invalid",
      { body: { ...chat, user: "u", safety_identifier: "" } },
      "u",
    ],
    ["is read from a stream", { body: { ...chat, user: "u_42", stream: true } }, "u_42"],
    [
      "is read from a Responses request",
      { path: "/v1/responses", body: { model: "gpt-4o", input: "hi", safety_identifier: "u" } },
      "u",
    ],
    ["is read from a completion", { path: "/v1/completions", body: { model: "gpt-4o", prompt: "hi", user: "u" } }, "u"],
    [
      "is read from an embedding request",
      { path: "/v1/embeddings", body: { model: "text-embedding-3-small", input: "hi", safety_identifier: "u" } },
      "u",
    ],
    [
      "is read from an image request",
      { path: "/v1/images/generations", body: { model: "gpt-image-1", prompt: "a fox", user: "u" } },
      "u",
    ],
    [
      "is read from a speech request",
      { path: "/v1/audio/speech", body: { model: "tts-1", input: "hi", voice: "a", user: "u" } },
      "u",
    ],
    [
      "is read from the header of a form",
      {
        path: "/v1/audio/transcriptions",
        body: form(["model", "whisper-1"], ["file", sound]),
        headers: { "x-farebox-user": "u" },
      },
      "u",
    ],
    [
      "is read from a form before its file",
      { path: "/v1/audio/transcriptions", body: form(["user", "u"], ["model", "whisper-1"], ["file", sound]) },
      "u",
    ],
    [
      "is read from an image edit form",
      {
        path: "/v1/images/edits",
        body: form(["model", "gpt-image-1"], ["safety_identifier", "u"], ["prompt", "a fox"], ["image", sound]),
      },
      "u",
    ],
    ["is read on any other path", { path: "/v1/moderations", body: { model: "m", input: "hi", user: "u" } }, "u"],
    [
      "is read from the header on any other path",
      { path: "/v1/x", body: "no JSON", headers: { "x-farebox-user": "u" } },
      "u",
    ],
  ])("%s", async (_, request, user) => {
    const { charge } = await sent(proxy, request);
    expect(charge).toMatchObject({ user });
  });

  it.each([
    ["too long", "u".repeat(129)],
    ["contains a tab", "a\tb"],
  ])("is refused if the header is invalid: %s", async (_, value) => {
    expect(await sent(proxy, { headers: { "x-farebox-user": value } })).toEqual({
      status: 400,
      message: "x-farebox-user must be a name of at most 128 characters without control characters",
      charge: null,
    });
  });

  it("is the one that its key pins, even if the header is invalid", async () => {
    const key = await keyWith(proxy, { user: "service" });
    const request = { key, body: { ...chat, user: "u" } };
    expect(await sent(proxy, { ...request, headers: { "x-farebox-user": "other" } })).toMatchObject({
      charge: { user: "service" },
    });
    expect(await sent(proxy, { ...request, headers: { "x-farebox-user": "u".repeat(200) } })).toMatchObject({
      charge: { user: "service" },
    });
  });
});

describe("the header x-farebox-user", () => {
  it("does not reach the gateway, and the body is forwarded unchanged", async () => {
    await using gateway = await answeringGateway(() => ({ body: '{"choices":[]}' }));
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    const body = JSON.stringify({ ...chat, user: "u_1" });
    await sent(proxy, { body, headers: { "x-farebox-user": "u_2" } });
    const [received] = gateway.received;
    expect(Object.keys(received?.headers ?? {}).filter((name) => name.startsWith("x-farebox"))).toEqual([]);
    expect(received?.body.toString()).toBe(body);
  });

  it("names the user of a task", async () => {
    await using gateway = await answeringGateway(() => ({
      status: 201,
      body: '{"code":200,"data":{"task_id":"t1","status":"pending"},"message":"success"}',
    }));
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    expect((await createTask(proxy, { user: "u_1" })).status).toBe(201);
    const found = await proxy.serving.ledger.charges({ limit: 10 });
    expect(found.charges).toMatchObject([{ user: "u_1", state: "pending" }]);
  });
});

describe("FAREBOX_USERS", () => {
  it("set to hash stores the same digest for a name each time, and accepts names and digests in filters", async () => {
    const env = { FAREBOX_USERS: "hash" };
    const users: unknown[] = [];
    await using proxy = await startProxy({ env });
    for (const user of ["u_1", "u_2", "u_1"]) users.push((await sent(proxy, { body: { ...chat, user } })).charge);
    const pinned = await keyWith(proxy, { user: "u_1" });
    users.push((await sent(proxy, { key: pinned })).charge);
    const [one, other, again, same] = users as { user: string }[];
    expect(one?.user).toMatch(/^hash_[0-9a-f]{32}$/);
    expect([again?.user, same?.user]).toEqual([one?.user, one?.user]);
    expect(other?.user).not.toBe(one?.user);
    for (const user of ["u_1", one?.user ?? ""]) {
      const own = await fetch(`${proxy.url}/v1/farebox/charges?user=${user}`, {
        headers: { authorization: `Bearer ${proxy.key}` },
      });
      expect(((await own.json()) as { charges: unknown[] }).charges).toMatchObject([
        { user: one?.user },
        { user: one?.user },
      ]);
    }
  });

  it("logs a warning at startup if it was changed and budgets on users have no effect; the warning names no user", async () => {
    using folder = tempFolder();
    const start = async (users: string, keyName: string) => {
      const log = captureLog();
      const env = { FAREBOX_DATABASE: folder.database, FAREBOX_USERS: users };
      await using proxy = await startProxy({ env, log, keyName });
      if (users === "plain") await proxy.budget("key:first user:jane", "1");
      return log.lines.filter(({ message }) => message.includes("budgets on users have no effect"));
    };
    expect(await start("plain", "first")).toEqual([]);
    for (const users of ["hash", "off"]) {
      const warned = await start(users, users);
      expect(warned).toMatchObject([{ level: "warn", fields: { budgets: 1, users } }]);
      expect(JSON.stringify(warned)).not.toContain("jane");
    }
  });

  it("set to off stores no user and requires none", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_USERS: "off" } });
    const key = await keyWith(proxy, { user: "u", requires: ["user"] });
    const headers = { "x-farebox-user": "u".repeat(200) };
    expect(await sent(proxy, { key, body: { ...chat, user: "u" }, headers })).toMatchObject({ charge: { user: null } });
  });
});

describe("a key with attributes", () => {
  let proxy: RunningProxy;
  beforeAll(async () => {
    proxy = await startProxy();
  });
  afterAll(() => proxy[Symbol.asyncDispose]());

  it("adds its labels and tags to each request, and overrides tags of the request", async () => {
    const key = await keyWith(proxy, { labels: { env: "prod", region: "eu" }, tags: { team: "x" } });
    const headers = { "x-farebox-tag": "team=other, feature=search" };
    expect(await sent(proxy, { key, headers })).toMatchObject({
      status: 200,
      charge: { labels: { env: "prod", region: "eu" }, tags: { feature: "search", team: "x" } },
    });
    expect(await sent(proxy, { key })).toMatchObject({ charge: { tags: { team: "x" } } });
  });

  it("passes them to its sessions, which cannot change their own tags", async () => {
    await keyWith(proxy, { tags: { team: "x" }, user: "u", requires: ["tag:session"] });
    const { keys, sessions } = proxy.serving;
    const key = await keys.find(`k${count}`);
    if (key === undefined) throw new Error("the key exists");
    const wish = newSessionSchema.parse({ tags: { team: "y", feature: "search" } });
    const begun = await beginSession({ sessions, clock: { now: Date.now } as never }, key, wish, {
      by: "test",
    });
    if (!begun.ok) throw new Error(begun.message);
    const { id } = begun.session;
    expect(await sent(proxy, { key: begun.credential })).toMatchObject({
      charge: { tags: { feature: "search", team: "x", session: id }, user: "u" },
    });
    const changed = (tag: string) => sent(proxy, { key: begun.credential, headers: { "x-farebox-tag": tag } });
    expect(await changed("team=z")).toMatchObject({ status: 200, charge: { tags: { team: "x" } } });
    expect((await changed("feature=z")).status).toBe(400);
  });

  it("keeps earlier labels in earlier charges", async () => {
    const key = await keyWith(proxy, { labels: { env: "test" } });
    await sent(proxy, { key });
    const tools = { keys: proxy.serving.keys, clock: { now: Date.now } as never, by: "test" };
    const change = async (input: KeyUpdate) =>
      expect(await updateKey(tools, `k${count}`, input)).toMatchObject({ ok: true });
    await change({ labels: { env: "prod", region: "eu" } });
    await sent(proxy, { key });
    await change({ labels: { env: null } });
    const { charge } = await sent(proxy, { key });
    expect(charge).toMatchObject({ labels: { region: "eu" } });
    const own = (await proxy.charges()).filter(({ key: id }) => id === (charge as { key: string }).key);
    expect(own.map(({ labels }) => labels)).toEqual([{ env: "test" }, { env: "prod", region: "eu" }, { region: "eu" }]);
  });

  it.each<[string, readonly string[], Sending, string | null]>([
    [
      "a required user is missing",
      ["user"],
      {},
      "this key requires requests to name a user: send the header x-farebox-user, or 'safety_identifier' or 'user' in the body",
    ],
    ["a required user is in the header", ["user"], { headers: { "x-farebox-user": "u" } }, null],
    ["a required user is in the body", ["user"], { body: { ...chat, user: "u" } }, null],
    [
      "a required user is invalid",
      ["user"],
      { body: { ...chat, user: "" } },
      "this key requires requests to name a user: send",
    ],
    [
      "a required tag is missing",
      ["tag:feature"],
      { headers: { "x-farebox-tag": "other=1" } },
      "this key requires requests to have the tag feature: send the header x-farebox-tag: feature=VALUE",
    ],
    ["a required tag is in the header", ["tag:feature"], { headers: { "x-farebox-tag": "feature=1" } }, null],
  ])("accepts a request only if it has what the key requires: %s", async (_, requires, request, message) => {
    const key = await keyWith(proxy, { requires: [...requires] });
    const result = await sent(proxy, { key, ...request });
    expect(result.status).toBe(message === null ? 200 : 400);
    if (message !== null) expect(result).toMatchObject({ message: expect.stringContaining(message), charge: null });
  });

  it("that pins what it requires accepts requests without it", async () => {
    const wish = { requires: ["user", "tag:feature"], user: "u", tags: { feature: "search" } };
    expect((await sent(proxy, { key: await keyWith(proxy, wish) })).status).toBe(200);
  });

  it("that pins tags counts them toward the maximum of eight", async () => {
    const key = await keyWith(proxy, { tags: { pinned: "1" } });
    const tag = Array.from({ length: 8 }, (_, index) => `t${index}=1`).join(", ");
    expect(await sent(proxy, { key, headers: { "x-farebox-tag": tag } })).toMatchObject({
      status: 400,
      message: "a request may have at most 8 tags; with the tags of its key, this request has 9",
    });
  });
});

describe("a request that names several models", () => {
  it.each<[string, string | null, string]>([
    ["the requested model if that answered", "gpt-4o-mini-2024-07-18", "gpt-4o-mini"],
    ["another named model if that answered", "gpt-4o", "gpt-4o"],
    ["the most expensive model if the answer names none", null, "gpt-4o"],
    ["the most expensive model if one that the request does not name answered", "o3", "gpt-4o"],
    ["a model in an unknown field if that answered", "o1-pro", "o1-pro"],
  ])("counts for %s", async (_, answered, counted) => {
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const answer = { ...(answered !== null && { model: answered }), choices: [{ message: { content: "hi" } }], usage };
    await using gateway = await answeringGateway(() => ({ body: JSON.stringify(answer) }));
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    const body = { ...chat, model: "gpt-4o-mini", models: ["gpt-4o"], unknown_field: "o1-pro" };
    const { charge } = await sent(proxy, { body });
    expect(charge).toMatchObject({ model: "gpt-4o-mini", models: [counted] });
  });

  it("counts for all of them while it runs, under catalogue names, with unpriced ones first", async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    await using gateway = await answeringGateway(async () => {
      await held;
      return { body: "{}" };
    });
    await using proxy = await startProxy({ gatewayUrl: gateway.url });
    const notNames = ["a\u0000b", "\ud800", "x".repeat(257)];
    const asked = proxy.chat({ ...chat, model: "gpt-4o-mini", models: ["gpt-4o-2024-08-06", "unknown", ...notNames] });
    await until(() => gateway.received.length === 1, "the gateway is asked");
    const { charges } = await proxy.serving.ledger.charges({ limit: 1 });
    expect(charges).toMatchObject([{ state: "pending", models: ["unknown", "gpt-4o", "gpt-4o-mini"] }]);
    release();
    await (await asked).arrayBuffer();
  });
});

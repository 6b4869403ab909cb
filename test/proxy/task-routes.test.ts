import { afterAll, describe, expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import { answeringGateway, type Answering, type ReceivedRequest } from "../support/answering-gateway.ts";
import { priceFolder, replaceFile } from "../support/price-files.ts";
import { startProxy, type ProxyOptions } from "../support/running-proxy.ts";
import { record } from "../support/task-records.ts";
import { fetchAnswer } from "../support/wire-client.ts";
import { stillClock } from "../support/still-clock.ts";

const source = 'source: "made up for a test"';
const price = (official: string, more = "") =>
  `[{ from: 2026-01-01, ${source}, official: "${official}", gateway: "${official}"${more} }]`;
const prices = priceFolder(`provider: family
task_units: { used_credits: "100" }
models:
  midjourney: { tasks: { imagine: ${price("0.05")}, upscale: ${price("0.01")} } }
  kling: { tasks: { video_generation: ${price("0.10", ', per: second, field: duration, default: "5", max: "10"')} } }
  kling-mini: { tasks: { "*": ${price("0.001")} } }
  image_toolkit: { tasks: { "*": ${price("0.02")} } }
routes:
  "GET /jobs/fetch": { does: retrieve, task_field: task_id, ${source} }
  "PUT /account/webhook": { does: setting, keys: [alice], ${source} }
  "POST /jobs/batch": { does: create, model: midjourney, type: imagine, ${source} }
`);
afterAll(() => prices[Symbol.dispose]());

/** Starts a proxy with the keys alice and bob, and a gateway that answers as the test specifies. */
async function startWith(
  answer: (received: ReceivedRequest) => Answering | Promise<Answering>,
  options: ProxyOptions = {},
) {
  const owned = new AsyncDisposableStack();
  const gateway = owned.use(await answeringGateway(answer));
  const proxy = owned.use(
    await startProxy({
      clock: stillClock(),
      ...options,
      gatewayUrl: gateway.url,
      env: { FAREBOX_PRICING: prices.path, ...options.env },
    }),
  );
  const bob = await proxy.addKey("bob");
  const send = async (
    method: string,
    path: string,
    body?: object | string,
    key = proxy.key,
    headers: Record<string, string> = {},
  ) => {
    const text = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
    const {
      status,
      body: answered,
      headers: got,
    } = await fetchAnswer({ url: proxy.url, key }, text, {
      path,
      method,
      headers: { "content-type": "application/json", ...headers },
    });
    return { status, text: answered.toString(), code: got["x-farebox-error"] };
  };
  const verify = async () => expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  return { gateway, proxy, bob, send, verify, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const unified = (taskId: string) => JSON.stringify({ task_id: taskId, status: "success", message: "" });
const enveloped = (taskId: string) => JSON.stringify({ code: 200, data: { task_id: taskId }, message: "success" });

/** Each family's creation request, and the request that retrieves the task. */
const families: readonly (readonly [
  path: string,
  body: object,
  model: string,
  type: string,
  answer: (id: string) => string,
  fetch: (id: string) => readonly [string, string, object?],
])[] = [
  [
    "/mj/v2/imagine",
    { prompt: "a fox" },
    "midjourney",
    "imagine",
    unified,
    (id) => ["POST", "/mj/v2/fetch", { task_id: id }],
  ],
  [
    "/api/suno/v1/music",
    { custom_mode: false, mv: "chirp-v3-5", input: { gpt_description_prompt: "rain" } },
    "suno",
    "generate_music",
    enveloped,
    (id) => ["GET", `/api/suno/v1/music/${id}`],
  ],
  [
    "/api/luma/v1/video",
    { prompt: "a fox" },
    "luma",
    "video_generation",
    enveloped,
    (id) => ["GET", `/api/luma/v1/video/${id}`],
  ],
  [
    "/api/kling/v1/video",
    { prompt: "a fox", duration: 5 },
    "kling",
    "video_generation",
    enveloped,
    (id) => ["GET", `/api/kling/v1/video/${id}`],
  ],
  [
    "/api/flux/v1/image",
    { model: "flux-dev", prompt: "a fox" },
    "flux-dev",
    "txt2img",
    enveloped,
    (id) => ["GET", `/api/flux/v1/image/${id}`],
  ],
  [
    "/api/face_swap/v1/async",
    { target_image: "a.png", swap_image: "b.png" },
    "face_swap",
    "face-swap",
    enveloped,
    (id) => ["POST", "/api/face_swap/v1/fetch", { task_id: id }],
  ],
  [
    "/api/image_toolkit/v2/create",
    { task_type: "upscale", task_input: { scale: 2 } },
    "image_toolkit",
    "upscale",
    enveloped,
    (id) => ["POST", "/api/image_toolkit/v2/fetch", { task_id: id }],
  ],
];

describe("a task created on a family's own path", () => {
  it.each(families)("%s is metered and belongs to its key", async (path, body, model, taskType, answer, fetching) => {
    const bytes = JSON.stringify(body, null, 2);
    await using home = await startWith(({ body: sent, path: asked }) => ({
      body:
        asked === path && sent.length > 0
          ? answer("t-1")
          : record("t-1", "completed", { usage: { type: "llm", frozen: 0, consume: 300_000 } }),
    }));
    const { proxy, send, bob } = home;
    const created = await send("POST", path, bytes);
    expect([created.status, created.text]).toEqual([200, answer("t-1")]);
    expect(home.gateway.received.at(-1)?.body.toString()).toBe(bytes);
    expect(home.gateway.received.at(-1)?.headers).toMatchObject({ "x-api-key": "sk-sandbox" });
    expect(await proxy.onlyCharge()).toMatchObject({ kind: "task", state: "pending", route: path, model });
    expect(await proxy.serving.tasks.find("t-1")).toMatchObject({ model, taskType, settledAt: null });
    const asked = home.gateway.received.length;
    for (const [method, at, named] of [fetching("t-1"), ["GET", "/api/v1/task/t-1"] as const]) {
      expect(await send(method, at, named, bob)).toMatchObject({ status: 404, code: "not_found" });
    }
    expect(home.gateway.received).toHaveLength(asked);
    expect((await send(...fetching("t-1"))).status).toBe(200);
    expect(await proxy.onlyCharge()).toMatchObject({ state: "posted", source: "reported", cost: usd("0.03") });
    expect((await send("GET", "/api/v1/task/t-1")).status).toBe(200);
    expect(await proxy.metrics()).toContain(`route="${path}"`);
    await home.verify();
  });

  it("is held at the price of its model and type, including fields of its body", async () => {
    let number = 0;
    await using home = await startWith(() => ({ body: enveloped(`t-${++number}`) }));
    const { proxy, send } = home;
    await proxy.budget("all", "100");
    const wanted: readonly (readonly [string, object, string | null])[] = [
      ["/mj/v2/imagine", { prompt: "a" }, "0.05"],
      ["/mj/v2/upscale", { index: "1" }, "0.01"],
      ["/mj/v2/blend", {}, null],
      ["/api/kling/v1/video", { duration: 3 }, "0.30"],
      ["/api/kling/v1/video", {}, "0.50"],
      ["/api/kling/v1/video", { duration: 99 }, "1.00"],
      ["/api/kling/v1/video", { Duration: 1, duration: 2 }, "1.00"],
      ["/api/kling/v1/video", { duration: "a lot" }, "1.00"],
      // The gateway may ignore a field that names a cheaper model or type, so the more expensive price is held.
      ["/api/kling/v1/video", { model: "kling-mini", duration: 4 }, "0.40"],
      ["/api/kling/v1/video", { model: "kling-mini", task_type: "cheap", duration: 4 }, null],
      ["/api/kling/v1/video", { model: "kling-unpriced", duration: 4 }, null],
      ["/api/image_toolkit/v2/create", { task_type: "anything" }, "0.02"],
    ];
    for (const [path, body, hold] of wanted) {
      const answered = await send("POST", path, body);
      expect([path, body, answered.status, answered.code]).toEqual([
        path,
        body,
        hold === null ? 400 : 200,
        hold === null ? "model_not_priced" : undefined,
      ]);
    }
    expect((await proxy.charges()).map(({ hold }) => hold)).toEqual(
      wanted.flatMap(([, , hold]) => (hold === null ? [] : [usd(hold)])),
    );
    await home.verify();
  });

  it.each<[string, string, string, number]>([
    ["a duplicate model", "/api/kling/v1/video", '{"model":"kling","model":"x"}', 400],
    ["a type in another letter case", "/api/image_toolkit/v2/create", '{"Task_Type":"upscale"}', 400],
    ["a model in the query", "/api/kling/v1/video?Model=x", "{}", 400],
    ["a body that is not JSON", "/mj/v2/imagine", "a=b", 400],
    ["a list", "/mj/v2/imagine", "[{}]", 400],
    ["an encoded slash", "/mj/v2%2fimagine", "{}", 404],
    ["a doubled slash", "/mj//v2/imagine", "{}", 404],
    ["a trailing slash", "/mj/v2/imagine/", "{}", 404],
    ["another letter case", "/MJ/v2/Imagine", "{}", 404],
    ["an escape", "/mj/v2/%69magine", "{}", 404],
    ["a double escape", "/mj/v2/%2569magine", "{}", 404],
    ["parameters", "/mj/v2/imagine;v=1", "{}", 404],
    ["white space", "/mj/v2/imagine%20", "{}", 404],
    ["an invisible character", "/mj/v2/imagine%E2%80%8B", "{}", 404],
  ])("is not created with %s, even with FAREBOX_PASSTHROUGH=all", async (_what, path, body, status) => {
    await using home = await startWith(() => ({ body: enveloped("t-1") }), { env: { FAREBOX_PASSTHROUGH: "all" } });
    expect((await home.send("POST", path, body)).status).toBe(status);
    for (const method of ["GET", "PUT"])
      expect((await home.send(method, "/mj/v2/imagine")).text).toContain("POST /mj/v2/imagine");
    expect(home.gateway.received).toEqual([]);
    expect(await home.proxy.charges()).toEqual([]);
  });

  it("is refused for a key that may not use the route's model, whatever the body names", async () => {
    await using home = await startWith(() => ({ body: enveloped("t-1") }));
    const carol = await home.proxy.addKey("carol", { models: ["kling-mini"] });
    for (const body of [{}, { model: "kling" }, { model: "kling-mini" }]) {
      expect((await home.send("POST", "/api/kling/v1/video", body, carol)).code).toBe("model_not_allowed");
    }
    expect(home.gateway.received).toEqual([]);
  });

  it("is forwarded with the content type of JSON", async () => {
    await using home = await startWith(() => ({ body: enveloped("t-1") }));
    await home.send("POST", "/api/kling/v1/video", '{"prompt":"&duration=10&"}', home.proxy.key, {
      "content-type": "application/x-www-form-urlencoded",
    });
    expect(home.gateway.received[0]?.headers["content-type"]).toBe("application/json");
  });

  it("has a charge for each task that its answer names", async () => {
    await using home = await startWith(({ method, path }) =>
      method === "POST"
        ? { body: '{"code":200,"data":{"task_id":"t-1","tasks":[{"task_id":"t-2"},{"task_id":"t-3"}]}}' }
        : {
            body: record(path.split("/").at(-1) ?? "", "completed", {
              usage: { type: "llm", frozen: 0, consume: 700_000 },
            }),
          },
    );
    const { proxy, send, bob } = home;
    await proxy.budget("all", "0.11");
    expect((await send("POST", "/jobs/batch", {})).status).toBe(200);
    expect((await proxy.charges()).map(({ hold, state }) => [hold, state])).toEqual([
      [usd("0.05"), "pending"],
      [usd("0.05"), "pending"],
      [usd("0.05"), "pending"],
    ]);
    for (const id of ["t-1", "t-2", "t-3"]) {
      expect((await send("GET", `/api/v1/task/${id}`, undefined, bob)).status).toBe(404);
      expect((await send("GET", `/api/v1/task/${id}`)).status).toBe(200);
    }
    expect((await proxy.charges()).map(({ cost, overage }) => [cost, overage])).toEqual([
      [usd("0.07"), usd("0.02")],
      [usd("0.07"), usd("0.02")],
      [usd("0.07"), usd("0.02")],
    ]);
    await home.verify();
  });

  it("is voided with its reason if an answer with status 200 refuses it", async () => {
    await using home = await startWith(() => ({
      body: '{"code":10001,"data":null,"message":"suno is not supported in PPU mode"}',
    }));
    expect((await home.send("POST", "/api/suno/v1/music", {})).status).toBe(200);
    expect(await home.proxy.onlyCharge()).toMatchObject({ state: "voided", reason: "private_pool_only" });
  });
});

describe("the task families at the sandbox", () => {
  it("are each billed once, and charged what is billed", async () => {
    await using proxy = await startProxy({ env: { FAREBOX_PRICING: prices.path } });
    const quick = "task-wait:0+task-run:0";
    const at = async (method: string, path: string, body?: object) => {
      const { status, body: answered } = await fetchAnswer(
        { url: proxy.url, key: proxy.key },
        body === undefined ? undefined : JSON.stringify(body),
        { path, method, headers: { "content-type": "application/json" } },
      );
      return { status, json: JSON.parse(answered.toString()) as { task_id?: string; data?: { task_id: string } } };
    };
    for (const [path, body, , , , fetching] of families) {
      const created = await at("POST", path, { ...body, model: `x+${quick}` });
      const id = created.json.task_id ?? created.json.data?.task_id ?? "";
      expect([path, created.status, id.length]).toEqual([path, 200, 36]);
      expect((await at(...fetching(id))).status).toBe(200);
    }
    const refused = await at("POST", "/mj/v2/imagine", { model: "x+task-refused" });
    expect(refused.json).toMatchObject({ code: 10_001, data: null });
    const charges = await proxy.charges();
    expect(charges.map(({ state, reason }) => [state, reason])).toEqual([
      ...families.map(() => ["posted", null]),
      ["voided", "private_pool_only"],
    ]);
    const charged = charges.reduce((all, { cost }) => all + (cost ?? 0n), 0n);
    expect(proxy.sandbox.billed).toMatchObject({ calls: families.length });
    // The price of the conversation family's credits is the test's, not the sandbox's.
    const credits = charges.filter(({ consumption }) => consumption?.type === "used_credits");
    expect(credits).toHaveLength(2);
    expect(charged - credits.reduce((all, { cost }) => all + (cost ?? 0n), 0n)).toBe(
      proxy.sandbox.billed.cost - usd("0.04"),
    );
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });
});

describe("a task of another key", () => {
  /** Creates Alice's task t-1; later requests get the given answer. */
  async function withTaskOfAlice(answer: (received: ReceivedRequest) => Answering, options: ProxyOptions = {}) {
    let number = 0;
    const home = await startWith((received) => (++number === 1 ? { body: unified("t-1") } : answer(received)), options);
    await home.send("POST", "/mj/v2/imagine", { prompt: "secret" });
    return home;
  }

  it.each<[string, string, string, object | undefined]>([
    ["cannot be continued by its path", "POST", "/api/luma/v1/video/t-1/extend", { prompt: "more" }],
    ["cannot be continued by its id in the body", "POST", "/mj/v2/upscale", { origin_task_id: "t-1", index: "1" }],
    [
      "cannot be continued by an id deep in the body",
      "POST",
      "/api/v1/task",
      { model: "kling", task_type: "extend_video", input: { more: [{ Origin_Task_ID: "t-1" }] } },
    ],
    [
      "cannot be continued by a list in the body",
      "POST",
      "/api/v1/task",
      { model: "kling", input: { task_ids: ["t-9", "t-1"] } },
    ],
    ["cannot be continued by its id in the query", "POST", "/mj/v2/upscale?origin_task_id=t-1", {}],
    ["is not shown to a POST", "POST", "/mj/v2/fetch", { task_id: "t-1" }],
    ["is not shown in a list of tasks", "POST", "/mj/v2/fetch", { task_id: ["t-1"] }],
    ["is not shown by its path", "GET", "/api/luma/v1/video/t-1", undefined],
    ["is not shown by a query", "GET", "/jobs/fetch?task_id=t-1", undefined],
    ["cannot be cancelled", "POST", "/mj/v2/cancel", { task_id: "t-1" }],
    ["cannot be cancelled by cancelling all tasks", "DELETE", "/api/v1/tasks?model=all", undefined],
  ])("%s", async (_what, method, path, body) => {
    await using home = await withTaskOfAlice(() => ({ body: unified("t-2") }), { env: { FAREBOX_PASSTHROUGH: "all" } });
    expect(await home.send(method, path, body, home.bob)).toMatchObject({ status: 404, code: "not_found" });
    expect(home.gateway.received).toHaveLength(1);
    expect(await home.proxy.charges()).toHaveLength(1);
  });

  it("is not shown next to the key's own task, whichever member names it", async () => {
    await using home = await withTaskOfAlice(({ path }) => ({
      body: path.startsWith("/mj/v2/imagine") ? unified("t-2") : record("t-2", "processing"),
    }));
    const { send, bob } = home;
    await send("POST", "/mj/v2/imagine", {}, bob);
    const refused: readonly (readonly [string, string, object?])[] = [
      ["POST", "/mj/v2/fetch", { task_id: ["t-2", "t-1"] }],
      ["POST", "/mj/v2/fetch?task_id=t-1", { task_id: "t-2" }],
      ["POST", "/mj/v2/fetch", { task_id: "t-2", more: { task_ids: ["t-1"] } }],
      ["GET", "/jobs/fetch?task_id=t-2&task_id=t-1"],
      ["GET", "/jobs/fetch?task_id=t-2&Task_Id=t-1"],
      ["GET", "/api/luma/v1/video/t-2?task_id=t-1"],
    ];
    for (const each of refused)
      expect([each, (await send(each[0], each[1], each[2], bob)).status]).toEqual([each, 404]);
    expect((await send("POST", "/mj/v2/fetch", '{"task_id":"t-2","task_id":"t-1"}', bob)).status).toBe(400);
    expect(home.gateway.received).toHaveLength(2);
    for (const each of [
      ["POST", "/mj/v2/fetch", { task_id: ["t-2"] }],
      ["GET", "/jobs/fetch?task_id=t-2"],
      ["GET", "/api/luma/v1/video/t-2"],
    ] as const)
      expect((await send(each[0], each[1], each[2], bob)).status).toBe(200);
  });

  it("in the answer to a creation gives a 404, and the hold is charged", async () => {
    await using home = await withTaskOfAlice(() => ({ body: unified("t-1") }));
    expect((await home.send("POST", "/mj/v2/imagine", {}, home.bob)).status).toBe(404);
    expect((await home.proxy.charges())[1]).toMatchObject({
      state: "posted",
      source: "assumed",
      reason: "task_of_another_key",
      cost: usd("0.05"),
    });
  });

  it("is left out of lists together with counts and notes, like unknown tasks", async () => {
    const list = {
      code: 200,
      message: "success",
      data: {
        page: 1,
        total: 3,
        tasks: [
          { task_id: "t-2", status: "completed", n: 1.5 },
          { task_id: "t-1", output: "secret" },
          { task_id: "t-0", output: "old" },
          { note: "secret" },
        ],
        counts: { mj: 2 },
      },
    };
    await using home = await withTaskOfAlice(({ method }) => ({
      body: method === "POST" ? unified("t-2") : JSON.stringify(list),
    }));
    const { send, bob, proxy } = home;
    await send("POST", "/mj/v2/imagine", {}, bob);
    expect((await send("GET", "/api/open/tasks/histories?page=1", undefined, bob)).text).toBe(
      '{"code":200,"message":"success","data":{"page":1,"tasks":[{"task_id":"t-2","status":"completed","n":1.5}],"counts":{}}}',
    );
    expect((await send("GET", "/api/open/tasks/histories", undefined, proxy.key)).text).toContain("secret");
    expect((await send("GET", "/api/open/tasks/histories", undefined, await proxy.addKey("carol"))).text).toBe(
      '{"code":200,"message":"success","data":{"page":1,"tasks":[],"counts":{}}}',
    );
    expect((await proxy.charges()).map(({ state }) => state)).toEqual(["pending", "pending"]);
  });
});

describe("a creation that is answered with a known task", () => {
  it.each<[string, string, object, object]>([
    [
      "is voided if the request does not name the task",
      "/mj/v2/imagine",
      {},
      { state: "voided", reason: "task_known" },
    ],
    [
      "is charged its hold if the request continues the task",
      "/mj/v2/upscale",
      { origin_task_id: "t-1" },
      { state: "posted", source: "assumed", reason: "task_continued", cost: usd("0.01") },
    ],
  ])("%s", async (_what, path, body, charge) => {
    await using home = await startWith(() => ({ body: unified("t-1") }));
    await home.send("POST", "/mj/v2/imagine", { prompt: "a" });
    expect((await home.send("POST", path, body)).status).toBe(200);
    expect((await home.proxy.charges())[1]).toMatchObject(charge);
    await home.verify();
  });
});

describe("a request for a task", () => {
  it("does not settle the task if the answer is not a record of it", async () => {
    const answers = [
      '{"task_id":"","status":"failed","message":"not found"}',
      '{"code":500,"data":null,"status":"failed"}',
      '{"code":200,"data":{"task_id":"t-9","status":"failed"}}',
    ];
    let number = -1;
    await using home = await startWith(() => ({ body: ++number === 0 ? unified("t-1") : (answers[number - 1] ?? "") }));
    await home.send("POST", "/mj/v2/imagine", {});
    for (const answer of answers)
      expect((await home.send("POST", "/mj/v2/fetch", { task_id: "t-1" })).text).toBe(answer);
    expect(await home.proxy.onlyCharge()).toMatchObject({ state: "pending" });
  });

  it("to cancel settles the task if its record says cancelled", async () => {
    await using home = await startWith(({ path }) => ({
      body: path === "/mj/v2/cancel" ? record("t-1", "cancelled") : unified("t-1"),
    }));
    await home.send("POST", "/mj/v2/imagine", {});
    expect((await home.send("POST", "/mj/v2/cancel", { task_id: "t-1" })).status).toBe(200);
    expect(await home.proxy.onlyCharge()).toMatchObject({ state: "voided", reason: "task_cancelled" });
  });
});

describe("an upload or setting", () => {
  it("is forwarded at no cost with a charge of its key, even under a hard budget", async () => {
    await using home = await startWith(
      () => ({ body: '{"code":200,"data":{"url":"https://files.example/a.png"},"message":"success"}' }),
      { env: { FAREBOX_UNPRICED: "refuse" } },
    );
    await home.proxy.budget("all", "0");
    const body = '{"file_name":"a.png","file_data":"aGk="}';
    expect(await home.send("POST", "/api/ephemeral_resource", body)).toMatchObject({
      status: 200,
      text: expect.stringContaining("files.example"),
    });
    expect(home.gateway.received[0]?.body.toString()).toBe(body);
    expect(await home.proxy.onlyCharge()).toMatchObject({
      route: "/api/ephemeral_resource",
      model: "upload",
      state: "voided",
      reason: "free",
      hold: 0n,
    });
    expect((await home.send("PUT", "/account/webhook", { url: "https://hook.example" })).status).toBe(200);
    expect((await home.send("PUT", "/account/webhook", { url: "https://evil.example" }, home.bob)).status).toBe(404);
    expect(home.gateway.received).toHaveLength(2);
    await home.verify();
  });

  it("that is answered with a task binds the task to its key", async () => {
    await using home = await startWith(({ method }) => ({
      body:
        method === "POST"
          ? enveloped("t-1")
          : record("t-1", "completed", { usage: { type: "llm", frozen: 0, consume: 100_000 } }),
    }));
    await home.send("POST", "/api/ephemeral_resource", "anything");
    expect((await home.send("GET", "/api/v1/task/t-1", undefined, home.bob)).status).toBe(404);
    expect((await home.send("GET", "/api/v1/task/t-1")).status).toBe(200);
    expect(await home.proxy.onlyCharge()).toMatchObject({ state: "posted", cost: usd("0.01"), overage: usd("0.01") });
    await home.verify();
  });
});

describe("a path without a route, with FAREBOX_PASSTHROUGH=all,", () => {
  const passing = { env: { FAREBOX_PASSTHROUGH: "all" } };
  const ended = record("t-1", "completed", { usage: { type: "llm", frozen: 0, consume: 500_000 } });

  it.each([
    ["unified", unified("t-1")],
    ["envelope", enveloped("t-1")],
  ])("binds the task of a %s answer to its key, and the task settles the charge", async (_form, answer) => {
    await using home = await startWith(({ path }) => ({ body: path === "/new/family" ? answer : ended }), passing);
    const { proxy, send, bob } = home;
    expect((await send("POST", "/new/family", { model: "new-1" })).text).toBe(answer);
    expect(await proxy.onlyCharge()).toMatchObject({ kind: "task", state: "pending", route: "/*path", model: "new-1" });
    expect((await send("GET", "/api/v1/task/t-1", undefined, bob)).status).toBe(404);
    expect((await send("GET", "/api/v1/task/t-1")).text).toBe(ended);
    expect(await proxy.onlyCharge()).toMatchObject({ state: "posted", source: "reported", cost: usd("0.05") });
    await home.verify();
  });

  it.each<[string, string, string, string | undefined, string]>([
    ["that uses GET", "GET", "/tasks/recent", undefined, unified("t-1")],
    ["that names the task itself", "POST", "/tasks/show", '{"id":"t-1"}', unified("t-1")],
    ["that names the task in its path", "POST", "/tasks/t-1/show", "{}", unified("t-1")],
    ["that lists ended tasks", "POST", "/tasks/list", "{}", `{"data":[${ended},{"task_id":"t-2","status":"failed"}]}`],
  ])("binds no task to a request %s", async (_what, method, path, body, answer) => {
    await using home = await startWith(() => ({ body: answer }), passing);
    expect((await home.send(method, path, body)).status).toBe(200);
    expect(await home.proxy.serving.tasks.find("t-1")).toBeUndefined();
    expect(await home.proxy.charges()).toMatchObject([{ state: "posted", cost: null }]);
    await home.verify();
  });
});

describe("routes in a price file", () => {
  it("are reloaded when the file changes, and stay in force if the new file is faulty", async () => {
    using own = priceFolder("routes: {}");
    const edit = (text: string) => replaceFile(own.path, "prices.yaml", text);
    await using home = await startWith(() => ({ body: enveloped("t-1") }), { env: { FAREBOX_PRICING: own.path } });
    const status = async (path: string) => (await home.send("POST", path, {})).status;
    expect([await status("/mine/create"), await status("/mj/v2/imagine")]).toEqual([404, 200]);
    await edit(
      `routes:\n  "POST /mine/create": { does: create, model: mine, ${source} }\n  "POST /mj/v2/imagine": null`,
    );
    await home.proxy.serving.reloadPrices();
    expect([await status("/mine/create"), await status("/mj/v2/imagine")]).toEqual([200, 404]);
    await edit('routes:\n  "POST /v1/chat/completions": { does: upload, source: x }');
    await home.proxy.serving.reloadPrices();
    expect([await status("/mine/create"), await status("/mj/v2/imagine")]).toEqual([200, 404]);
  });
});

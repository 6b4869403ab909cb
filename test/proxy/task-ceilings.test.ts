import { describe, expect, it } from "vitest";
import { answeringGateway, type Answering, type ReceivedRequest } from "../support/answering-gateway.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { createTask } from "../support/task-client.ts";
import { patientClock } from "../support/patient-clock.ts";

/** Starts a proxy with ceilings, and a gateway whose tasks run until the test adds them to `ended`. */
async function startWithCeilings(ceilings: Readonly<Record<string, unknown>> | null, mode = "enforce") {
  const owned = new AsyncDisposableStack();
  const ended = new Set<string>();
  let made = 0;
  const answer = ({ method, path, body }: ReceivedRequest): Answering => {
    if (method === "POST" && body.includes('"refuse"'))
      return { status: 400, body: '{"code":400,"data":null,"message":"no"}' };
    const taskId = method === "POST" ? `t-${++made}` : (path.split("/").at(-1) ?? "");
    return {
      body: JSON.stringify({
        code: 200,
        data: { task_id: taskId, status: ended.has(taskId) ? "failed" : "pending" },
        message: "success",
      }),
    };
  };
  const account = (): Answering =>
    ceilings === null ? { status: 500 } : { body: JSON.stringify({ code: 200, data: ceilings, message: "success" }) };
  const gateway = owned.use(await answeringGateway(answer, account));
  const env = { FAREBOX_TASK_CEILINGS: mode };
  const proxy = owned.use(await startProxy({ gatewayUrl: gateway.url, env, clock: patientClock() }));
  return { gateway, proxy, ended, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

function create(proxy: RunningProxy, model: string, more: object = {}): Promise<Response> {
  return createTask(proxy, { model, ...more });
}

async function statuses(answers: readonly Promise<Response>[]): Promise<Record<number, number>> {
  const counts: Record<number, number> = {};
  for (const { status } of await Promise.all(answers)) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

describe("task ceilings of the gateway account", () => {
  it("limit parallel creations per family and in total, at no cost for refused ones", async () => {
    await using home = await startWithCeilings({
      max_concurrent_task_count: 20,
      max_suno_concurrency: 5,
      max_kling_concurrency: 0,
    });
    const { proxy, gateway } = home;
    expect(await statuses(Array.from({ length: 100 }, () => create(proxy, "suno")))).toEqual({ 200: 5, 429: 95 });
    expect(
      await statuses(Array.from({ length: 200 }, (_, index) => create(proxy, index % 2 === 0 ? "kling" : "hailuo"))),
    ).toEqual({ 200: 15, 429: 185 });
    // On a busy machine the poller polls the first tasks meanwhile.
    expect(gateway.received.filter(({ method }) => method === "POST")).toHaveLength(20);
    expect((await proxy.charges()).map(({ state }) => state)).toEqual(Array.from({ length: 20 }, () => "pending"));
    const page = await proxy.metrics();
    for (const line of [
      'farebox_task_ceiling{family="all"} 20',
      'farebox_task_ceiling{family="suno"} 5',
      'farebox_running_tasks{family="all"} 20',
      'farebox_running_tasks{family="suno"} 5',
      'farebox_running_tasks{family="flux"} 0',
    ]) {
      expect(page).toContain(`\n${line}\n`);
    }
    expect(page).not.toContain('farebox_task_ceiling{family="luma"}');
  });

  it("are named in the refusal, with the time to retry", async () => {
    await using home = await startWithCeilings({ max_concurrent_task_count: 9, max_luma_concurrency: 1 });
    await create(home.proxy, "luma");
    const refused = await create(home.proxy, "luma");
    expect([refused.status, refused.headers.get("retry-after"), refused.headers.get("x-farebox-error")]).toEqual([
      429,
      "5",
      "concurrency_limit",
    ]);
    expect(await refused.json()).toEqual({
      error: {
        message:
          "The gateway's account may run 1 task of the family luma at once; this limit is reached, so try again in 5 s.",
        type: "rate_limit_error",
        param: null,
        code: "concurrency_limit",
        metadata: { scope: "account", family: "luma", limit: "tasks", value: "1" },
      },
    });
  });

  it("free a slot when a task ends, the gateway refuses a creation, or a hold is refused", async () => {
    await using home = await startWithCeilings({ max_concurrent_task_count: 1 });
    const { proxy, ended } = home;
    expect((await create(proxy, "hailuo", { input: "refuse" })).status).toBe(400);
    await proxy.budget("key:alice", "1");
    expect((await create(proxy, "hailuo")).status).toBe(400);
    const bob = await proxy.addKey("bob");
    const asBob = (path: string, init: RequestInit = {}) =>
      fetch(`${proxy.url}${path}`, { ...init, headers: { "x-api-key": bob, "content-type": "application/json" } });
    const creation = { method: "POST", body: '{"model":"hailuo","input":{}}' };
    const made = (await (await asBob("/api/v1/task", creation)).json()) as { data: { task_id: string } };
    expect((await asBob("/api/v1/task", creation)).status).toBe(429);
    ended.add(made.data.task_id);
    await (await asBob(`/api/v1/task/${made.data.task_id}`)).text();
    await proxy.charges();
    expect((await asBob("/api/v1/task", creation)).status).toBe(200);
  });

  it.each([
    ["the account record is unavailable", null, "enforce"],
    ["the account record states no ceilings", {}, "enforce"],
    ["FAREBOX_TASK_CEILINGS is off", { max_concurrent_task_count: 1 }, "off"],
  ] as const)("do not limit creations if %s", async (_what, ceilings, mode) => {
    await using home = await startWithCeilings(ceilings, mode);
    expect(await statuses(Array.from({ length: 8 }, () => create(home.proxy, "suno")))).toEqual({ 200: 8 });
  });
});

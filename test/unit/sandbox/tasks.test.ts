import { describe, expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import { breachesOf } from "../../support/gateway-document.ts";
import { fetchFromSandbox } from "../../support/sandbox-client.ts";

function task(
  sandbox: Sandbox,
  method: string,
  id: string,
  headers: Record<string, string> = { "x-api-key": sandbox.apiKey },
) {
  return fetchFromSandbox(sandbox, undefined, { method, path: `/api/v1/task/${id}`, headers });
}

function create(sandbox: Sandbox, scenario: string, body: object = {}) {
  const creation = {
    model: `kling${scenario === "" ? "" : `+${scenario}`}`,
    task_type: "video_generation",
    input: { prompt: "a fox", duration: 5 },
    ...body,
  };
  return fetchFromSandbox(sandbox, creation, {
    method: "POST",
    path: "/api/v1/task",
    headers: { "x-api-key": sandbox.apiKey },
  });
}

const jsonOf = (asked: { readonly body: Buffer }) => JSON.parse(asked.body.toString());

describe("tasks of the sandbox", () => {
  it.each([
    ["", "TaskAnswer"],
    ["unified", "TaskUnified"],
    ["conversation", "TaskEnvelope"],
  ])("run from creation to completion in the form %j, as documented", async (form, schema) => {
    let now = Date.parse("2026-11-20T12:00:00Z");
    await using sandbox = await startSandbox({ startingBalanceUsd: "10", now: () => now });
    const scenario = [form, "task-wait:1000", "task-run:2000"].filter((each) => each !== "").join("+");
    const created = jsonOf(
      await create(
        sandbox,
        scenario,
        form === "conversation" ? { input: { scale: 2, image: "https://x.example/i.png" } } : {},
      ),
    );
    expect(breachesOf("TaskAnswer", created)).toEqual([]);
    expect(created.data).toMatchObject({
      status: "pending",
      model: "kling",
      meta: { started_at: "0001-01-01T00:00:00Z", usage: { type: "llm", frozen: 2_500_000, consume: 0 } },
    });
    const words: string[] = [];
    for (const at of [999, 1000, 2999, 3000, 99_000]) {
      now = Date.parse("2026-11-20T12:00:00Z") + at;
      const record = jsonOf(await task(sandbox, "GET", created.data.task_id));
      expect(breachesOf(schema, record), schema).toEqual([]);
      words.push(record.data.status.toLowerCase());
      expect(sandbox.balance()).toBe(at < 3000 ? usd("10") : usd("9.75"));
    }
    expect(words).toEqual(["pending", "processing", "processing", "completed", "completed"]);
    expect(sandbox.billed).toMatchObject({ calls: 1, cost: usd("0.25") });
  });

  it("produce music tracks, fail with a message, bill what they consumed, or never end, by scenario", async () => {
    await using sandbox = await startSandbox();
    const ended = async (scenario: string, body: object = {}) => {
      const { data } = jsonOf(await create(sandbox, `${scenario}+task-wait:0+task-run:0`, body));
      return jsonOf(await task(sandbox, "GET", data.task_id)).data;
    };
    const music = await ended("unified", { model: "suno+task-wait:0+task-run:0", task_type: "music" });
    expect(music.output).toMatchObject([{ status: "SUCCESS", task_id: music.task_id }, {}]);
    expect(await ended("task-fails:no credit")).toMatchObject({
      status: "failed",
      error: { code: 10_000, message: "no credit" },
      meta: { usage: { consume: 0 } },
    });
    expect(await ended("task-fails+consume:7+usage-type:quota")).toMatchObject({
      status: "failed",
      meta: { usage: { type: "quota", consume: 7 } },
    });
    expect(await ended("task-endless")).toMatchObject({ status: "processing" });
    expect(sandbox.billed.calls).toBe(2);
  });

  it("can be cancelled while pending, and require the key, a model and a type", async () => {
    await using sandbox = await startSandbox();
    const { data } = jsonOf(await create(sandbox, "task-wait:999999"));
    expect(jsonOf(await task(sandbox, "DELETE", data.task_id)).data.status).toBe("cancelled");
    expect((await task(sandbox, "DELETE", data.task_id)).status).toBe(400);
    expect((await task(sandbox, "GET", "none")).status).toBe(404);
    const refused = await task(sandbox, "GET", data.task_id, {});
    expect([refused.status, breachesOf("EnvelopeError", jsonOf(refused))]).toEqual([401, []]);
    for (const body of [{ model: "" }, { task_type: null }]) expect((await create(sandbox, "", body)).status).toBe(400);
    expect((await create(sandbox, "no-such-scenario")).status).toBe(400);
    expect((await create(sandbox, "status:500")).status).toBe(500);
    expect(sandbox.billed.calls).toBe(0);
  });
});

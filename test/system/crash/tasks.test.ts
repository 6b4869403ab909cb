// @module-tag races
import { EventEmitter, once } from "node:events";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { digest, randomFrom, type Random } from "../../../src/sandbox/random.ts";
import { answeringGateway, type Answering, type ReceivedRequest } from "../../support/answering-gateway.ts";
import { runFarebox, startServe, temporaryFolder, type ServeProcess } from "../../support/farebox-process.ts";
import { record } from "../../support/task-records.ts";

/** Consumption of one task, in units of the gateway and in pico-USD: ten million units are one USD. */
const units = 2_500_000;
const costOfTask = 250_000_000_000n;

interface Row {
  readonly number: string;
  readonly state: string;
  readonly source: string | null;
  readonly reason: string | null;
  readonly cost: bigint | null;
  /** Null if no task is linked to the charge. */
  readonly task: string | null;
}

function rowsOf(database: string): Map<string, Row> {
  const db = new Database(database, { readonly: true });
  try {
    const rows = db
      .prepare(
        "select json_extract(tags, '$.number') number, state, source, reason, cost, task_id task from charges c left join tasks t on t.charge = c.id",
      )
      .safeIntegers()
      .all() as Row[];
    expect(new Set(rows.map(({ number }) => number)).size).toBe(rows.length);
    return new Map(rows.map((row) => [row.number, row]));
  } finally {
    db.close();
  }
}

/** Plays a gateway whose tasks run until `done` is set. */
function taskGateway(random: Random) {
  /** Number of each creation that the gateway has read, by the task's id. */
  const created = new Map<string, string>();
  const moments = new EventEmitter();
  const tasks = {
    created,
    done: false,
    answer,
    /** Resolves when `count` creations have been read. */
    async reached(count: number): Promise<void> {
      while (created.size < count) await once(moments, "created");
    },
  };
  async function answer({ method, path, body }: ReceivedRequest): Promise<Answering> {
    if (method !== "POST") {
      const usage = { type: "llm", frozen: 0, consume: tasks.done ? units : 0 };
      return { body: record(path.split("/").at(-1) ?? "", tasks.done ? "completed" : "running", { usage }) };
    }
    const id = `t-${created.size}`;
    created.set(id, String(JSON.parse(body.toString()).input.prompt));
    moments.emit("created");
    await pause(random() * 30);
    return { body: record(id, "pending") };
  }
  return tasks;
}

/** Creates tasks until the proxy no longer answers; records the ids that clients receive, by number, in `clientIds`. */
async function createTasks(
  { url }: ServeProcess,
  key: string,
  name: string,
  clientIds: Map<string, string>,
): Promise<void> {
  let count = 0;
  const client = async (): Promise<void> => {
    for (;;) {
      const number = `${name}-${count++}`;
      const headers = { "x-api-key": key, "content-type": "application/json", "x-farebox-tag": `number=${number}` };
      try {
        const body = JSON.stringify({ model: "kling", task_type: "video_generation", input: { prompt: number } });
        const response = await fetch(`${url}/api/v1/task`, { method: "POST", headers, body });
        const { data } = (await response.json()) as { data: { task_id: string } };
        clientIds.set(number, data.task_id);
        await (await fetch(`${url}/api/v1/task/${data.task_id}`, { headers: { "x-api-key": key } })).text();
      } catch {
        return;
      }
    }
  };
  await Promise.all(Array.from({ length: 12 }, client));
}

it("kill -9 loses no task that a client knows: each continues after the next start and is charged once", async () => {
  const seed = 17;
  const random = randomFrom(digest(seed, "tasks"));
  await using folder = await temporaryFolder();
  const tasks = taskGateway(random);
  await using gateway = await answeringGateway(tasks.answer);
  const database = join(folder.path, "farebox.db");
  const key = (await runFarebox(["keys", "create", "alice", "--database", database])).stdout.trim();
  await using owned = new AsyncDisposableStack();
  const start = async () =>
    owned.use(await startServe({ database, gateway: { url: gateway.url, apiKey: "sk-sandbox" } }));
  const clientIds = new Map<string, string>();

  let serve = await start();
  // At least four deaths, and more until enough clients have received a task's id.
  for (let death = 1; death <= 4 || clientIds.size <= 20; death++) {
    const before = tasks.created.size;
    const clients = createTasks(serve, key, `d${death}`, clientIds);
    const moment = before + 5 + Math.floor(random() * 60);
    await tasks.reached(moment);
    serve.signal("SIGKILL");
    await serve.ended;
    await clients;
    serve = await start();
    const rows = rowsOf(database);
    for (const [id, number] of tasks.created) {
      const row = rows.get(number);
      expect(row, `${number} reached the gateway`).toBeDefined();
      // A stored id belongs to a task that continues; the cost of a creation without one is unknown.
      if (row?.task === null)
        expect(row, `${number}`).toMatchObject({
          state: "posted",
          source: "assumed",
          reason: "crash",
          cost: null,
        });
      else expect(row, `${number}`).toMatchObject({ state: "pending", task: id });
    }
    expect(
      [...clientIds].filter(([number, id]) => rows.get(number)?.task !== id),
      "told and unknown",
    ).toEqual([]);
  }

  tasks.done = true;
  const known = [...clientIds.values()];
  const polls = known.map(async (id) => {
    const response = await fetch(`${serve.url}/api/v1/task/${id}`, { headers: { "x-api-key": key } });
    const { data } = (await response.json()) as { data: { status: string } };
    return `${response.status} ${data.status}`;
  });
  expect(new Set(await Promise.all(polls))).toEqual(new Set(["200 completed"]));
  serve.signal("SIGTERM");
  expect(await serve.ended).toMatchObject({ code: 0 });
  const rows = rowsOf(database);
  for (const number of clientIds.keys())
    expect(rows.get(number), `${number}`).toMatchObject({
      state: "posted",
      source: "reported",
      cost: costOfTask,
    });
  expect((await runFarebox(["verify", "--database", database])).stdout).toContain("no difference");
});

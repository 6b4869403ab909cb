// @module-tag races
import type { Agent } from "node:http";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { markMs } from "../../../src/core/slices.ts";
import { callAdmin } from "../../support/admin-client.ts";
import { startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { readPage, valueOf } from "../../support/metrics-page.ts";
import { query } from "../../support/postgres-client.ts";
import { delta, done, finish, scriptedGateway, type ScriptedGateway } from "../../support/scripted-gateway.ts";
import { newDatabase } from "../../support/shared-postgres.ts";
import { until } from "../../support/until.ts";
import { open } from "../../support/wire-client.ts";
import { workerConnections } from "../../support/worker-connections.ts";

/* Processes share what they learn about a model's streams: docs/decisions/0013-a-burst-marks-a-model.md. */

const adminToken = "from-the-settings-0123456789";
const model = "gpt-4o";

/** A process that answers requests; `agent` keeps a connection to it. */
interface Seat {
  readonly url: string;
  readonly agent?: Agent;
}

interface Scene {
  readonly gateway: ScriptedGateway;
  readonly seats: readonly [Seat, Seat];
  /** Sets the time of each mark in the ledger back by more than an hour. */
  anHourPasses(): Promise<void>;
}

const piecesOf = {
  // Too short to be a burst or to prove the opposite.
  short: [" harbour"],
  burst: [" harbour".repeat(2000)],
  // Only all four together prove a live stream.
  live: Array.from({ length: 4 }, () => " harbour".repeat(40)),
};

const admin = async ({ url }: Seat, method: string, path: string, body?: object): Promise<never> => {
  const reply = await callAdmin(url, method, path, { token: adminToken, body });
  if (reply.status >= 300) throw new Error(reply.text);
  return reply.json;
};
const addKey = async (seat: Seat, name: string) =>
  ((await admin(seat, "POST", "/keys", { name })) as { readonly key: string }).key;

/** Requests a stream of the given kind; returns the bound that decided its hold. */
async function stream({ gateway }: Scene, seat: Seat, key: string, kind: keyof typeof piecesOf): Promise<string> {
  const body = { model, stream: true, messages: [{ role: "user", content: "hello" }] };
  const opening = open({ url: seat.url, key }, body, seat.agent && { agent: seat.agent });
  const { response } = await gateway.nextChat();
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.flushHeaders();
  const client = await opening;
  for (const piece of piecesOf[kind]) {
    const event = delta(piece);
    response.write(event);
    await client.take(Buffer.byteLength(event));
    const takenAt = performance.now();
    if (kind === "live") await until(() => performance.now() - takenAt > 150, "the next piece does not come at once");
  }
  response.end(finish() + done);
  await client.rest();
  const id = String(client.response.headers["x-farebox-request-id"]);
  let by: string | undefined;
  await until(async () => {
    const charge = (await admin(seat, "GET", `/charges/${id}`)) as { state: string; held_for: { by: string } };
    by = charge.held_for.by;
    return charge.state !== "pending";
  }, "the charge has settled");
  return by ?? "";
}

const marks = async (seat: Seat) => {
  const health = (await admin(seat, "GET", "/health")) as {
    stream_bursts: { key: string | null; live_streams: number }[];
  };
  return health.stream_bursts.map(({ key, live_streams }) => `${key ?? "all"} ${live_streams}`).toSorted();
};

const bursts = async ({ url }: Seat) =>
  valueOf(readPage(await (await fetch(`${url}/metrics`)).text()), "farebox_stream_bursts_total", { model });

/** Follows a mark from the first burst to its end, at two processes. */
async function playMark(scene: Scene): Promise<void> {
  const [one, two] = scene.seats;
  const [alice, bob, carol] = [await addKey(one, "alice"), await addKey(one, "bob"), await addKey(one, "carol")];
  await admin(one, "PUT", "/budgets", { scope: "all", period: "total", mode: "hard", limit_usd: "100" });
  const becomesHeldFor = (seat: Seat, key: string, by: string) =>
    until(async () => (await stream(scene, seat, key, "short")) === by, `its hold is decided by the ${by}`);
  for (const seat of scene.seats) expect(await stream(scene, seat, alice, "short")).toBe("slice");

  expect(await stream(scene, one, alice, "burst")).toBe("slice");
  await becomesHeldFor(two, alice, "model");
  expect(await stream(scene, one, alice, "short")).toBe("model");
  expect(await stream(scene, two, bob, "burst")).toBe("slice");
  await becomesHeldFor(one, carol, "model");
  await becomesHeldFor(two, carol, "model");
  expect(await marks(two)).toEqual(["alice 0", "all 0", "bob 0"]);

  // An hour alone does not end a mark, nor does an hour with two live streams.
  await scene.anHourPasses();
  for (const seat of [two, one]) {
    expect(await stream(scene, seat, alice, "live")).toBe("model");
    expect(await stream(scene, seat, carol, "short")).toBe("model");
  }
  await until(async () => (await marks(one)).join() === "alice 2,all 2,bob 0", "both are noted");
  expect(await stream(scene, one, alice, "live")).toBe("model");
  await until(async () => (await marks(two)).join() === "bob 0", "the third one is noted");
  for (const seat of scene.seats) {
    await becomesHeldFor(seat, alice, "slice");
    await becomesHeldFor(seat, carol, "slice");
    expect(await stream(scene, seat, bob, "short")).toBe("model");
  }
}

describe("a burst", () => {
  it("marks its model at both workers, whichever saw it, until the mark ends at both", async () => {
    await using gateway = await scriptedGateway();
    await using folder = await temporaryFolder();
    const database = join(folder.path, "farebox.db");
    await using serve = await startServe({
      database,
      gateway: { url: gateway.url, apiKey: "sk-gateway" },
      args: ["--workers", "2"],
      env: { FAREBOX_ADMIN_TOKEN: adminToken, FAREBOX_LOG_LEVEL: "debug" },
    });
    const { url } = serve;
    using connections = workerConnections(serve, await addKey({ url }, "first"));
    const seats: [Seat, Seat] = [
      { url, agent: await connections.to(1) },
      { url, agent: await connections.to(2) },
    ];
    const anHourPasses = async () => {
      const db = new Database(database);
      db.prepare("update stream_bursts set burst_at = burst_at - ?").run(markMs + 1);
      db.close();
    };
    await playMark({ gateway, seats, anHourPasses });
    expect(await bursts({ url })).toBe("2");
  });

  it("marks its model at both proxies on a PostgreSQL ledger, whichever saw it, until the mark ends at both", async () => {
    await using gateway = await scriptedGateway();
    await using ledger = await newDatabase();
    const start = () =>
      startServe({
        database: ledger.url,
        gateway: { url: gateway.url, apiKey: "sk-gateway" },
        env: { FAREBOX_ADMIN_TOKEN: adminToken },
      });
    await using one = await start();
    await using two = await start();
    const anHourPasses = async () => {
      await query(ledger.url, "update stream_bursts set burst_at = burst_at - $1", [markMs + 1]);
    };
    await playMark({ gateway, seats: [one, two], anHourPasses });
    expect([await bursts(one), await bursts(two)]).toEqual(["1", "1"]);
  });
});

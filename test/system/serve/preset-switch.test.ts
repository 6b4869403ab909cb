// @module-tag races
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import type { Preset } from "../../../src/core/price.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { priceFolder, videoTaskPrices } from "../../support/price-files.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";

interface Row {
  readonly what: string;
  readonly state: string;
  readonly source: string | null;
  readonly hold: bigint | null;
  readonly cost: bigint | null;
  readonly price: string | null;
}

/** Returns the charges by the tag `what` of their requests. */
function rowsIn(database: string): Readonly<Record<string, Row>> {
  const db = new Database(database, { readonly: true });
  try {
    const rows = db
      .prepare("select json_extract(tags, '$.what') what, state, source, hold, cost, price_id price from charges")
      .safeIntegers()
      .all() as Row[];
    return Object.fromEntries(rows.map((row) => [row.what, row]));
  } finally {
    db.close();
  }
}

it.each<[Preset, Preset]>([
  ["piapi", "official"],
  ["official", "piapi"],
])(
  "after a switch from the preset %s to %s, what is pending keeps its price, and the ledger has no difference",
  async (before, after) => {
    await using folder = await temporaryFolder();
    using own = priceFolder(videoTaskPrices);
    // The sandbox's clock stands still, so that its task ends only after the switch.
    let now = Date.now();
    await using sandbox = await startSandbox({ now: () => now });
    const database = join(folder.path, "farebox.db");
    const key = (await runFarebox(["keys", "create", "alice", "--database", database])).stdout.trim();
    await runFarebox(["budgets", "set", "all", "10", "--per", "total", "--database", database]);
    const start = (preset: Preset) =>
      startServe({ database, gateway: sandbox, env: { FAREBOX_PRESET: preset, FAREBOX_PRICING: own.path } });
    const send = (url: string, what: string, path: string, body: object) =>
      fetch(url + path, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          authorization: `Bearer ${key}`,
          "x-api-key": key,
          "x-farebox-tag": `what=${what}`,
        },
        body: JSON.stringify(body),
      });
    const chat = (url: string, what: string, content: string, more: object = {}) =>
      send(url, what, "/v1/chat/completions", {
        model: "gpt-4o",
        messages: [{ role: "user", content }],
        max_tokens: 300,
        ...more,
      });

    await using first = await start(before);
    await first.printed(new RegExp(`^prices: preset ${before}, .*; FAREBOX_PRESET=${after} charges `, "m"));
    const cut = chat(first.url, "stream", "#sandbox tokens:200+slow:300", { stream: true }).then((answer) =>
      answer.arrayBuffer(),
    );
    const ended = Promise.allSettled([cut]);
    await sandbox.waitFor(({ requests }) => requests.some(({ deltas }) => deltas > 0));
    const input = { prompt: "a fox" };
    const created = await send(first.url, "task", "/api/v1/task", {
      model: "kling",
      task_type: "video_generation",
      input,
    });
    expect(created.status).toBe(200);
    const { data } = (await created.json()) as { data: { task_id: string } };
    first.signal("SIGKILL");
    await first.ended;
    await ended;
    const pending = rowsIn(database);
    expect(pending).toMatchObject({ stream: { state: "pending" }, task: { state: "pending" } });

    await using second = await start(after);
    const recovered = rowsIn(database);
    const { hold, price } = pending["stream"] ?? {};
    expect(recovered["stream"]).toMatchObject({ state: "posted", source: "assumed", cost: hold, hold, price });
    expect(recovered["task"]).toEqual(pending["task"]);
    const headers = { "x-api-key": key };
    now += 60_000;
    const shown = await fetch(`${second.url}/api/v1/task/${data.task_id}`, { headers });
    expect(await shown.json()).toMatchObject({ data: { status: "completed" } });
    expect((await chat(second.url, "new", "#sandbox tokens:10")).status).toBe(200);
    second.signal("SIGTERM");
    expect(await second.ended).toMatchObject({ code: 0 });

    const settled = rowsIn(database);
    expect(settled).toMatchObject({
      stream: { cost: hold, price },
      task: { state: "posted", source: "reported", price: pending["task"]?.price ?? null },
      new: { state: "posted", source: "reported" },
    });
    expect(settled["new"]?.price).not.toBe(price);
    const spent = Object.values(settled).reduce((total, { cost }) => total + (cost ?? 0n), 0n);
    const db = new Database(database, { readonly: true });
    expect(db.prepare("select spent, held from windows").safeIntegers().all()).toEqual([{ spent, held: 0n }]);
    db.close();
    expect(await runFarebox(["verify", "--database", database])).toMatchObject({
      code: 0,
      stdout: "3 charges checked, no difference\n",
    });
  },
);

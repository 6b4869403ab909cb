// @module-tag races
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { formatUsd, type PicoUsd } from "../../../src/core/money.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { startProxy } from "../../support/running-proxy.ts";
import { windowsOnDisk } from "../../support/window-watch.ts";

const text = (amount: bigint) => formatUsd(amount as PicoUsd);

/** All requests are equal, so that every hold is the same. */
const request = { max_tokens: 100 };

async function holdOfOne(): Promise<bigint> {
  await using proxy = await startProxy();
  await (await proxy.chat(request)).text();
  return (await proxy.onlyCharge()).hold ?? 0n;
}

describe("a restart under load in another time zone", () => {
  it("rebuilds the windows without exceeding a limit, with correct sums", async () => {
    const hold = await holdOfOne();
    await using folder = await temporaryFolder();
    await using sandbox = await startSandbox();
    const database = join(folder.path, "farebox.db");
    const env = { FAREBOX_DATABASE: database };
    const file = join(folder.path, "keys.yaml");
    const limit = hold * 150n;
    await writeFile(
      file,
      `keys: { alice: }\nbudgets:\n${["total", "1mo", "1d", "1h"].map((per) => `  - { scope: each-key, per: ${per}, limit: "${text(limit)}" }\n`).join("")}`,
    );
    const applied = await runFarebox(["apply", file], { env });
    const key = applied.stdout.trimEnd().split("\t")[1] ?? "";
    const serve = (zone: string) => startServe({ database, gateway: sandbox, env: { FAREBOX_TIME_ZONE: zone } });
    const seen: number[] = [];
    let wake = () => {};
    const answers = async (count: number) => {
      while (seen.length < count) await new Promise<void>((resolve) => (wake = resolve));
    };
    /** Ten clients that send requests until they receive this status or the proxy is gone. */
    const load = (url: string, last: number) =>
      Array.from({ length: 10 }, async () => {
        for (let status = 0; status !== last; wake()) {
          const response = await fetch(`${url}/v1/chat/completions`, {
            method: "POST",
            headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
            body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "hello" }], ...request }),
          }).catch(() => null);
          if (response === null) return;
          await response.text().catch(() => "");
          status = response.status;
          seen.push(status);
        }
      });
    const overLimit = () => windowsOnDisk(database).filter((window) => window.spent + window.held > window.limit);

    for (const zone of ["UTC", "Asia/Kathmandu", "Australia/Lord_Howe"]) {
      await using running = await serve(zone);
      const clients = load(running.url, 402);
      await answers(seen.length + 25);
      expect(overLimit()).toEqual([]);
      // Killed with requests in flight: the next start posts their holds and builds its own windows.
      running.signal("SIGKILL");
      await Promise.all([running.ended, ...clients]);
    }
    await using last = await serve("America/St_Johns");
    await Promise.all(load(last.url, 402));
    expect(overLimit()).toEqual([]);
    const listed = await runFarebox(["budgets", "list", "--json"], { env });
    const { budgets } = JSON.parse(listed.stdout) as {
      budgets: { period: string; starts_at: string; spent_usd: string; held_usd: string | null }[];
    };
    expect(budgets.find(({ period }) => period === "1d")?.starts_at).toMatch(/T0[23]:30:00\.000Z$/);
    expect(new Set(budgets.map(({ period }) => period))).toEqual(new Set(["total", "1mo", "1d", "1h"]));
    // A window that has just begun has no amounts.
    expect(budgets.filter(({ held_usd }) => Number(held_usd ?? 0) !== 0)).toEqual([]);
    const verified = await runFarebox(["verify", "--json"], { env });
    expect(JSON.parse(verified.stdout)).toMatchObject({ ok: true, differences: [] });
    expect(seen.filter((status) => status === 200).length).toBeGreaterThan(40);
  });
});

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";

it("serve reloads the price files on SIGHUP and keeps running", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const database = join(folder.path, "farebox.db");
  await runFarebox(["keys", "create", "alice"], { env: { FAREBOX_DATABASE: database } });
  await using serve = await startServe({ database, gateway: sandbox });
  serve.signal("SIGHUP");
  await serve.printed(/price files reloaded; no price has changed/);
  expect((await fetch(`${serve.url}/readyz`)).status).toBe(200);
  serve.signal("SIGTERM");
  expect(await serve.ended).toMatchObject({ code: 0 });
});

it("serve starts if the thread that builds the prices cannot run", async () => {
  await using folder = await temporaryFolder();
  await using sandbox = await startSandbox();
  const preload = join(folder.path, "preload.cjs");
  await writeFile(
    preload,
    'if (require("node:worker_threads").threadName === "prices") throw new Error("no memory for a thread");',
  );
  await using serve = await startServe({
    database: join(folder.path, "farebox.db"),
    gateway: sandbox,
    fromSources: true,
    env: { NODE_OPTIONS: `--require=${preload}` },
  });
  expect((await fetch(`${serve.url}/readyz`)).status).toBe(200);
});

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dashboardRoutes } from "../../../src/server/http/dashboard/files.ts";
import { BodyAllowance } from "../../../src/server/http/body.ts";
import { createHttpApp } from "../../../src/server/http/http-app.ts";
import { createHttpServer } from "../../../src/server/http/server.ts";
import { silentLog } from "../../../src/platform/log.ts";
import { createMetrics } from "../../../src/server/metrics/metrics.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { startProxy } from "../../support/running-proxy.ts";
import { ask, head } from "../../support/raw-client.ts";

const folder = mkdtempSync(join(tmpdir(), "farebox-dashboard-"));
const map = '{"imports":{"preact":"/dashboard/vendor/preact.js"}}';
let url = "";
const owned = new AsyncDisposableStack();

beforeAll(async () => {
  mkdirSync(join(folder, "pages"));
  writeFileSync(
    join(folder, "index.html"),
    `<!doctype html><script type="importmap">${map}</script><script type="module" src="/dashboard/assets/main.js"></script>`,
  );
  writeFileSync(
    join(folder, "main.ts"),
    'import { name } from "./pages/name.ts";\nexport const told: string = name;\n',
  );
  writeFileSync(join(folder, "pages/name.ts"), 'export const name: string = "overview";\n');
  writeFileSync(join(folder, "plain.js"), "export {};\n");
  writeFileSync(join(folder, ".secret.json"), "{}");
  writeFileSync(join(folder, "notes.md"), "x");
  const clock = systemClock();
  const metrics = createMetrics({
    pricesLoadedAt: 0,
    version: "x",
    keysMax: 1,
    otel: false,
    clock,
  });
  const server = createHttpServer(
    createHttpApp({
      routes: dashboardRoutes({ folder }),
      events: metrics.events,
      log: silentLog,
      clock,
      loopbackOnly: true,
      publicHost: null,
      corsOrigins: ["https://allowed.example.com"],
      bodyBytesMax: 1000,
      bodyMemory: new BodyAllowance(1000),
      running: () => undefined,
    }),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  owned.defer(() => void server.close());
  url = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
});

afterAll(async () => {
  await owned.disposeAsync();
  rmSync(folder, { recursive: true });
});

const get = (path: string, headers: Record<string, string> = {}) => fetch(url + path, { headers });

describe("the dashboard's files", () => {
  it.each(["/dashboard", "/dashboard/", "/dashboard/requests", "/dashboard/keys/alice"])(
    "answer the page at %s",
    async (path) => {
      const answer = await get(path);
      expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
      expect(await answer.text()).toContain("<!doctype html>");
    },
  );

  it("come with a policy that lets nothing in but themselves, and the page's import map by its digest", async () => {
    const digest = createHash("sha256").update(map).digest("base64");
    const { headers } = await get("/dashboard");
    expect(headers.get("content-security-policy")).toBe(
      `default-src 'none'; script-src 'self' 'sha256-${digest}'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
    );
    expect(Object.fromEntries(headers)).toMatchObject({
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cross-origin-opener-policy": "same-origin",
      "cache-control": "no-cache",
    });
    expect((await get("/dashboard/assets/plain.js")).headers.get("content-security-policy")).toContain(
      "script-src 'self'; style-src",
    );
  });

  it("are JavaScript where they are written in TypeScript, by either name", async () => {
    for (const name of ["main.js", "main.ts"]) {
      const answer = await get(`/dashboard/assets/${name}`);
      expect(answer.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
      expect(await answer.text()).toMatch(
        /^import \{ name \} from ".\/pages\/name.ts";\nexport const told\s+= name;\n$/,
      );
    }
    expect(await (await get("/dashboard/assets/plain.ts")).text()).toBe("export {};\n");
  });

  it("are not sent again where the browser has them", async () => {
    const first = await get("/dashboard/assets/plain.js");
    const etag = first.headers.get("etag") ?? "";
    const again = await get("/dashboard/assets/plain.js", { "if-none-match": etag });
    expect([again.status, await again.text()]).toEqual([304, ""]);
    writeFileSync(join(folder, "plain.js"), "export const changed = 1;\n");
    expect((await get("/dashboard/assets/plain.js", { "if-none-match": etag })).status).toBe(200);
  });

  it.each([
    "preact.js",
    "preact-hooks.js",
    "preact-jsx-runtime.js",
    "uplot.js",
    "uplot.css",
    "geist-latin-wght-normal.woff2",
  ])("have %s of its package", async (name) => {
    const answer = await get(`/dashboard/vendor/${name}`);
    expect([answer.status, answer.headers.get("content-type")?.split(";")[0]]).toEqual([
      200,
      name.endsWith("css") ? "text/css" : name.endsWith("js") ? "text/javascript" : "font/woff2",
    ]);
    expect((await answer.arrayBuffer()).byteLength).toBeGreaterThan(200);
  });

  it.each([
    "/dashboard/assets/.secret.json",
    "/dashboard/assets/notes.md",
    "/dashboard/assets/pages",
    "/dashboard/assets/",
    "/dashboard/assets",
    "/dashboard/assets/../http/server.ts",
    "/dashboard/assets/%2e%2e/package.json",
    "/dashboard/assets/none.js",
    "/dashboard/assets/main.d.ts",
    "/dashboard/vendor/constructor",
    "/dashboard/vendor/package.json",
    "/dashboard/favicon.ico",
    "/Dashboard",
    "/dashboardx",
  ])("do not have %s", async (path) => {
    const answer = await ask(url, head(url, `GET ${path}`));
    expect(answer.status).toBe(404);
  });

  it("may be linked to from elsewhere, and neither framed nor read by another page", async () => {
    const asked = async (dest: string, mode: string, ...more: string[]) =>
      (
        await ask(
          url,
          head(
            url,
            "GET /dashboard",
            "Sec-Fetch-Site: cross-site",
            `Sec-Fetch-Dest: ${dest}`,
            `Sec-Fetch-Mode: ${mode}`,
            ...more,
          ),
        )
      ).status;
    expect(await asked("document", "navigate")).toBe(200);
    expect(await asked("iframe", "navigate")).toBe(403);
    expect(await asked("empty", "cors", "Origin: https://allowed.example.com")).toBe(403);
  });
});

describe("the gateway's answers", () => {
  it("can do nothing in a browser that opens them as a page", async () => {
    await using proxy = await startProxy();
    const answer = await proxy.chat({});
    await answer.text();
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "x-content-type-options": "nosniff",
      "content-security-policy": "sandbox",
    });
  });
});

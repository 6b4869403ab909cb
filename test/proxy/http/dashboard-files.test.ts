import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dashboardRoutes } from "../../../src/server/http/dashboard/files.ts";
import { BodyAllowance } from "../../../src/server/http/body-memory.ts";
import { createHttpApp, createHttpServer } from "../../../src/server/http/http-app.ts";
import { silentLog } from "../../support/captured-log.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { metricsWith } from "../../support/example-metrics.ts";
import { startProxy } from "../../support/running-proxy.ts";
import { fetchRaw, head } from "../../support/raw-client.ts";

const folder = mkdtempSync(join(tmpdir(), "farebox-dashboard-"));
const map = '{"imports":{"preact":"/dashboard/vendor/preact.js"}}';
let url = "";
const owned = new AsyncDisposableStack();

beforeAll(async () => {
  mkdirSync(join(folder, "pages"));
  writeFileSync(
    join(folder, "index.html"),
    `<!doctype html><head><script type="importmap">${map}</script><script type="module" src="/dashboard/assets/main.js"></script></head>`,
  );
  writeFileSync(
    join(folder, "main.ts"),
    'import { name } from "./pages/name.ts";\nexport const value: string = name;\n',
  );
  writeFileSync(join(folder, "pages/name.ts"), 'export const name: string = "overview";\n');
  writeFileSync(join(folder, "plain.js"), "export {};\n");
  writeFileSync(join(folder, ".secret.json"), "{}");
  writeFileSync(join(folder, "notes.md"), "x");
  const clock = systemClock();
  const server = createHttpServer(
    createHttpApp({
      routes: dashboardRoutes({ folder }),
      events: { ...metricsWith({ clock }).events, gatewayKey: () => undefined },
      log: silentLog,
      clock,
      loopbackOnly: true,
      publicHost: null,
      corsOrigins: ["https://allowed.example.com"],
      bodyBytesMax: 1000,
      bodyMemory: new BodyAllowance(1000, clock),
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
  it.each([
    "/dashboard",
    "/dashboard/",
    "/dashboard/requests",
    "/dashboard/keys/a.bot",
    "/dashboard/models/z/gpt-4.1%20x",
  ])("include the page at %s", async (path) => {
    const answer = await get(path);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect(await answer.text()).toContain("<!doctype html>");
  });

  it("have a content security policy that allows only themselves and the page's import map", async () => {
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

  it("are served as JavaScript if they are TypeScript, under .js and .ts", async () => {
    for (const name of ["main.js", "main.ts"]) {
      const answer = await get(`/dashboard/assets/${name}`);
      expect(answer.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
      expect(await answer.text()).toMatch(
        /^import \{ name \} from ".\/pages\/name.ts";\nexport const value\s+= name;\n$/,
      );
    }
    expect(await (await get("/dashboard/assets/plain.ts")).text()).toBe("export {};\n");
  });

  it("are linked from the page under a digest of all files, so that browsers cache them until one changes", async () => {
    const named = async () => {
      const html = await (await get("/dashboard/keys")).text();
      return [...html.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, path = ""]) => path).toSorted();
    };
    const before = await named();
    const digest = before[0]?.split("/")[3] ?? "";
    expect(before).toEqual(
      ["main.js", "pages/name.ts", "plain.js"].map((name) => `/dashboard/assets/${digest}/${name}`),
    );
    const [main = "", page = ""] = before;
    const answer = await get(page);
    expect([answer.headers.get("cache-control"), await answer.text()]).toEqual([
      "public, max-age=31536000, immutable",
      expect.stringContaining('"overview"'),
    ]);
    expect((await get(main)).status).toBe(200);
    expect((await get(`/dashboard/assets/${digest}/notes.md`)).status).toBe(404);
    writeFileSync(join(folder, "pages/name.ts"), 'export const name: string = "changed";\n');
    const after = await named();
    expect(after).not.toEqual(before);
    expect(await (await get(after[1] ?? "")).text()).toContain('"changed"');
    const old = await get(page);
    expect([old.headers.get("cache-control"), await old.text()]).toEqual([
      "no-cache",
      expect.stringContaining('"changed"'),
    ]);
  });

  it("are not sent again if the browser has them", async () => {
    const first = await get("/dashboard/assets/plain.js");
    const etag = first.headers.get("etag") ?? "";
    const again = await get("/dashboard/assets/plain.js", { "if-none-match": etag });
    expect([again.status, await again.text()]).toEqual([304, ""]);
    writeFileSync(join(folder, "plain.js"), "export const changed = 1;\n");
    expect((await get("/dashboard/assets/plain.js", { "if-none-match": etag })).status).toBe(200);
  });

  it("are compressed for clients that accept gzip", async () => {
    const send = (...headers: string[]) => fetchRaw(url, head(url, "GET /dashboard/assets/plain.js", ...headers));
    const { headers } = await send("Accept-Encoding: br;q=0.5, gzip");
    expect(headers).toMatchObject({ "content-encoding": ["gzip"], vary: ["accept-encoding"] });
    for (const accepted of [[], ["Accept-Encoding: br"], ["Accept-Encoding: gzip;q=0, br"]]) {
      const plain = await send(...accepted);
      expect(plain.headers["content-encoding"]).toBeUndefined();
      expect(plain.headers["etag"]).not.toEqual(headers["etag"]);
    }
    expect(await (await get("/dashboard/assets/plain.js")).text()).toMatch(/^export /);
  });

  it.each(["preact.js", "preact-hooks.js", "uplot.js", "uplot.css", "geist-latin-wght-normal.woff2"])(
    "include %s of its package",
    async (name) => {
      const answer = await get(`/dashboard/vendor/${name}`);
      expect([answer.status, answer.headers.get("content-type")?.split(";")[0]]).toEqual([
        200,
        name.endsWith("css") ? "text/css" : name.endsWith("js") ? "text/javascript" : "font/woff2",
      ]);
      expect((await answer.arrayBuffer()).byteLength).toBeGreaterThan(200);
    },
  );

  it.each([
    "/dashboard/assets/.secret.json",
    "/dashboard/assets/notes.md",
    "/dashboard/assets/pages",
    "/dashboard/assets/",
    "/dashboard/assets",
    "/dashboard/assets/../http/http-app.ts",
    "/dashboard/assets/%2e%2e/package.json",
    "/dashboard/assets/none.js",
    "/dashboard/assets/main.d.ts",
    "/dashboard/vendor/constructor",
    "/dashboard/vendor/package.json",
    "/dashboard/favicon.ico",
    "/Dashboard",
    "/dashboardx",
  ])("do not include %s", async (path) => {
    const answer = await fetchRaw(url, head(url, `GET ${path}`));
    expect(answer.status).toBe(404);
  });

  it("can be linked from other sites, but not framed or read by them", async () => {
    const asked = async (dest: string, mode: string, ...more: string[]) =>
      (
        await fetchRaw(
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

describe("a gateway's answer", () => {
  it("is sandboxed if a browser opens it as a page", async () => {
    await using proxy = await startProxy();
    const answer = await proxy.chat({});
    await answer.text();
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "x-content-type-options": "nosniff",
      "content-security-policy": "sandbox",
    });
  });
});

describe("GET /", () => {
  const html = "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";

  it.each(["known", "all"])("redirects browsers to the dashboard with FAREBOX_PASSTHROUGH=%s", async (passthrough) => {
    await using proxy = await startProxy({ env: { FAREBOX_PASSTHROUGH: passthrough } });
    expect(await fetchRaw(proxy.url, head(proxy.url, "GET /", html))).toMatchObject({
      status: 302,
      headers: { location: ["/dashboard"], vary: ["accept"] },
      body: "",
    });
    const linked = head(
      proxy.url,
      "GET /",
      html,
      "Sec-Fetch-Site: cross-site",
      "Sec-Fetch-Mode: navigate",
      "Sec-Fetch-Dest: document",
    );
    expect((await fetchRaw(proxy.url, linked)).status).toBe(302);
    const others = [
      head(proxy.url, "GET /", "Accept: */*"),
      head(proxy.url, "GET /"),
      head(proxy.url, "GET /other", html),
      head(proxy.url, "POST /", html, "Content-Length: 0"),
    ];
    const statuses = await Promise.all(others.map(async (each) => (await fetchRaw(proxy.url, each)).status));
    expect(statuses).toEqual([404, 404, passthrough === "all" ? 401 : 404, 404]);
  });
});

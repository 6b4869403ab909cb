import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { endpoints } from "../../../src/wire/endpoints/endpoints.ts";
import { cleanEnvironment, runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";

/** Each has a unique mark, and the length and alphabet of a real secret. */
const secrets = {
  gatewayKey: "sk-gateway-MARKED1-f81d4fae7dec11d0a76500a0c91e6bf6",
  adminToken: "admin-MARKED2-f81d4fae7dec11d0a76500a0c91e6bf6",
  metricsToken: "metrics-MARKED3-f81d4fae7dec11d0a76500a0c91e6bf6",
  alertSecret: "whsec_TUFSS0VENE1BUktFRDRNQVJLRUQ0TUFSS0VENA==",
  alertAddress: "hooks/MARKED5/f81d4fae7dec11d0a76500a0c91e6bf6",
  hookSecret: "hook-MARKED6-f81d4fae7dec11d0a76500a0c91e6bf6",
};
/** Texts that clients send, which must not be in the log or in files. */
const privateWords = { prompt: "PROMPT-MARKED7", query: "QUERY-MARKED8" };

const scenarios = [
  undefined,
  "echo-key",
  "echo-key+status:401",
  "echo-key+status:429",
  "echo-key+status:500",
  "set-cookie",
  "html:502",
  "reset-before",
  "reset-after-headers",
  "cut:2",
  "bad-json",
  "no-usage",
  "redirect-foreign",
  "gzip",
];

const bodies: Readonly<Record<string, object>> = {
  "/v1/chat/completions": {
    model: "gpt-4o",
    max_tokens: 5,
    messages: [{ role: "user", content: privateWords.prompt }],
  },
  "/v1/responses": { model: "gpt-4o", max_output_tokens: 5, input: privateWords.prompt },
  "/v1/responses/compact": { model: "gpt-4o", max_output_tokens: 5, input: privateWords.prompt },
  "/v1/messages": {
    model: "claude-sonnet-4-6",
    max_tokens: 5,
    messages: [{ role: "user", content: privateWords.prompt }],
  },
  "/v1/embeddings": { model: "text-embedding-3-small", input: privateWords.prompt },
  "/v1/completions": { model: "gpt-4o", max_tokens: 5, prompt: privateWords.prompt },
};
const someBody = { model: "gpt-4o", prompt: privateWords.prompt, input: privateWords.prompt };

describe("secrets", () => {
  it("appear in no response, log line, metric, file, page or command output, on any route and after any failure", async () => {
    await using folder = await temporaryFolder();
    let scenario: string | undefined;
    await using sandbox = await startSandbox({
      apiKey: secrets.gatewayKey,
      scenario: () => scenario,
      keepRequests: 10_000,
    });
    const keyFile = join(folder.path, "gateway.key");
    await writeFile(keyFile, `${secrets.gatewayKey}\n`, { mode: 0o600 });
    const database = join(folder.path, "data.db");
    const env = {
      FAREBOX_DATABASE: database,
      FAREBOX_GATEWAY_URL: sandbox.url,
      FAREBOX_GATEWAY_API_KEY: secrets.gatewayKey,
      FAREBOX_ADMIN_TOKEN: secrets.adminToken,
      FAREBOX_METRICS_TOKEN: secrets.metricsToken,
      FAREBOX_ALERT_WEBHOOK: `http://127.0.0.1:9/${secrets.alertAddress}`,
      FAREBOX_ALERT_SECRET: secrets.alertSecret,
      FAREBOX_PASSTHROUGH: "all",
      FAREBOX_LOG_LEVEL: "trace",
    };
    const outputs: string[] = [];
    const command = async (...args: string[]) => {
      const ended = await runFarebox(args, { env, cwd: folder.path });
      outputs.push(ended.stdout, ended.stderr);
      return ended;
    };
    const made = await runFarebox(["keys", "create", "alice"], { env, cwd: folder.path });
    const key = made.stdout.trim();
    expect(key).toMatch(/^sk-fb-/);
    await command("budgets", "set", "key:alice", "0.000001", "--per", "1h", "--soft", "--warn", "1%");

    await using serving = await startServe({ database, gateway: sandbox, env, cwd: folder.path });
    const call = async (path: string, init: RequestInit = {}, credential = key) => {
      const headers = {
        authorization: `Bearer ${credential}`,
        "content-type": "application/json",
        cookie: `x=${credential}`,
        "x-farebox-key": credential,
        ...(init.headers as Record<string, string>),
      };
      const answer = await fetch(`${serving.url}${path}`, { redirect: "manual", ...init, headers }).catch(
        (error: unknown) => error as Error,
      );
      if (answer instanceof Error) return;
      outputs.push(JSON.stringify([...answer.headers]), await answer.text().catch(() => ""));
    };
    const post = (path: string, body: object, credential?: string) =>
      call(path, { method: "POST", body: JSON.stringify(body) }, credential);

    for (scenario of scenarios) {
      for (const { route } of endpoints) {
        const body = bodies[route] ?? someBody;
        await post(`${route}?x=${privateWords.query}`, body);
        await post(route, { ...body, stream: true });
      }
      await call(`/account/info?x=${privateWords.query}`);
      await call(`/v1/files?x=${privateWords.query}`);
      await post("/api/v1/task", {
        model: "kling",
        task_type: "video_generation",
        input: { prompt: privateWords.prompt, duration: 5 },
        config: {
          service_mode: "",
          webhook_config: { endpoint: "https://hooks.example/x", secret: secrets.hookSecret },
        },
      });
      await call("/api/v1/task/unknown");
    }
    scenario = undefined;

    const document = JSON.parse(
      await (
        await fetch(`${serving.url}/admin/v1/openapi.json`, {
          headers: { authorization: `Bearer ${secrets.adminToken}` },
        })
      ).text(),
    ) as { paths: Record<string, Record<string, unknown>> };
    for (const [path, methods] of Object.entries(document.paths)) {
      const target = `/admin/v1${path.replace(/^\/admin\/v1/, "")}`.replaceAll(/\{\w+\}/g, "alice");
      for (const method of Object.keys(methods).filter((name) => name !== "parameters")) {
        // These answers show a new secret to the caller once, which is no leak.
        if (/\/rotate$|\/revoke$/.test(target) || (method === "post" && /\/(keys|admins)$/.test(target))) continue;
        const sends =
          method === "get" || method === "delete"
            ? {}
            : { body: JSON.stringify({ nothing: secrets.hookSecret.slice(0, 4) }) };
        await call(target, { method: method.toUpperCase(), ...sends }, secrets.adminToken);
      }
    }
    // Only two, because each failed sign-in is slower than the one before.
    for (const credential of [`${secrets.adminToken}x`, key]) await call("/admin/v1/keys", {}, credential);
    for (const path of [
      "/healthz",
      "/readyz",
      "/metrics",
      "/v1/models",
      "/v1/models/gpt-4o",
      "/v1/farebox/me",
      "/v1/farebox/charges",
      "/dashboard",
      "/dashboard/requests",
      "/dashboard/assets/main.js",
      "/dashboard/session",
      "/nothing",
      "/v1/farebox/callbacks/stranger",
    ]) {
      for (const credential of [key, secrets.adminToken, secrets.metricsToken, `${key}x`])
        await call(`${path}?x=${privateWords.query}`, {}, credential);
    }
    const origin = { origin: serving.url, "x-farebox-dashboard": "1" };
    for (const token of [secrets.adminToken, key, `${secrets.adminToken}x`])
      await call("/dashboard/session", { method: "POST", body: JSON.stringify({ token }), headers: origin });

    for (const args of [
      ["config", "show"],
      ["doctor"],
      ["keys", "list", "--json"],
      ["charges", "--json"],
      ["report"],
      ["audit", "--json"],
      ["export", "--format", "jsonl"],
      ["verify"],
      ["balance"],
      ["serve", "--port", "0"],
    ])
      await command(...args);
    const wrong = {
      ...cleanEnvironment(),
      ...env,
      FAREBOX_GATEWAY_URL: `https://user:${secrets.gatewayKey}@gateway.example`,
      FAREBOX_GATEWAY_API_KEY_FILE: keyFile,
      FAREBOX_ALERT_SECRET: secrets.alertSecret.slice(0, 10),
      FAREBOX_METRICS_KEYS: secrets.metricsToken,
      FAREBOX_SECRET_OF_MINE: secrets.hookSecret,
    };
    const refused = await runFarebox(["serve"], { env: wrong, cwd: folder.path });
    expect(refused.code).toBe(2);
    outputs.push(refused.stdout, refused.stderr);

    // A crashing process also prints a report and leaves files.
    serving.signal("SIGABRT");
    const ended = await serving.ended;
    outputs.push(ended.stdout, ended.stderr);
    const files = await Promise.all(
      (await readdir(folder.path))
        .filter((name) => name !== "gateway.key")
        .map(async (name) => ({ name, text: await readFile(join(folder.path, name), "latin1") })),
    );
    const filesWith = (part: string) => files.filter(({ text }) => text.includes(part)).map(({ name }) => name);

    expect(outputs.length).toBeGreaterThan(600);
    expect(ended.stderr.length).toBeGreaterThan(10_000);
    // After "sk-fb-" and the id; the secret may itself have hyphens.
    const keySecret = key.split("-").slice(3).join("-");
    const marks = {
      ...Object.fromEntries(Object.entries(secrets).map(([name, text]) => [name, markOf(text)])),
      keySecret,
    };
    for (const [name, mark] of Object.entries(marks)) {
      // The client that created a task may see again the secret that it stated in it.
      const shownTo = name === "hookSecret" ? outputs.filter((text) => !text.includes("webhook_config")) : outputs;
      expect([name, shownTo.find((text) => text.includes(mark))]).toEqual([name, undefined]);
      expect([name, filesWith(mark)]).toEqual([name, []]);
    }
    for (const word of Object.values(privateWords)) {
      expect([word, ended.stderr.includes(word) || ended.stdout.includes(word)]).toEqual([word, false]);
      expect([word, filesWith(word)]).toEqual([word, []]);
    }
    const atGateway = [...sandbox.requests, ...sandbox.accountRequests]
      .map(({ path, headers, body }) => JSON.stringify([path, headers, body.toString("latin1")]))
      .join("\n");
    for (const secret of [keySecret, markOf(secrets.adminToken), markOf(secrets.metricsToken)])
      expect(atGateway).not.toContain(secret);
  }, 240_000);
});

/** Returns the unique mark of a secret. */
function markOf(secret: string): string {
  return /MARKED\d/.exec(secret)?.[0] ?? "TUFSS0VENE1B";
}

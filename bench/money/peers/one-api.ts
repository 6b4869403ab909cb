import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { usd } from "../../../src/core/money.ts";
import { freePort } from "../../../test/support/free-port.ts";
import type { Peer, RunningPeer, Setup } from "../peer.ts";
import { Program } from "../../program.ts";
import {
  callJson,
  callWhenReady,
  goVersion,
  noTasks,
  restartProgram,
  warmUp,
  wrongProgram,
  type Call,
} from "./call.ts";

const version = "0.6.10";
const readme = `https://github.com/songquanpeng/one-api/blob/v${version}/README.md`;
const source = `https://github.com/songquanpeng/one-api/blob/v${version}`;
const rootToken = "bench-root";
/** Number of quota units in one USD. */
const unitsPerUsd = 500_000;

/** One API counts in units of 0.000002 USD. Its model ratios are multiples of USD 0.002 for 1,000 tokens. */
export const peer: Peer = {
  name: "one-api",
  title: "One API",
  homepage: "https://github.com/songquanpeng/one-api",
  version,
  install: [
    'mkdir -p "$PROGRAMS/one-api"',
    `curl -fL -o "$PROGRAMS/one-api/one-api" https://github.com/songquanpeng/one-api/releases/download/v${version}/one-api`,
    'chmod +x "$PROGRAMS/one-api/one-api"',
  ],
  // A release prints its version. A program that was built from the Go module contains the module's version instead.
  missing(programs) {
    const path = executable(programs);
    const why = wrongProgram(path, { command: path, args: ["--version"], expected: version });
    return why === null ? null : wrongProgram(path, goVersion(path, `\tv${version}\t`));
  },
  configurations: {
    default: [
      { setting: "remain_quota of a token of root", url: `${source}/controller/token.go` },
      { setting: "ModelRatio of the price", url: `${source}/relay/billing/ratio/model.go` },
      { setting: "CompletionRatio of the price", url: `${source}/relay/billing/ratio/model.go` },
      { setting: "GLOBAL_API_RATE_LIMIT=1000000", url: readme },
      { setting: "TIKTOKEN_CACHE_DIR", url: readme },
    ],
    strictest: [
      {
        setting: "a token of a user who has no more quota than the token, so that it is not trusted",
        url: `${source}/relay/controller/helper.go`,
      },
      { setting: "ENFORCE_INCLUDE_USAGE=true", url: readme },
    ],
  },
  // One API writes each charge after the answer, in a separate goroutine, one charge at a time.
  ledgerLagMs: 20_000,
  unknown: { "task-polls": noTasks },
  strengths:
    "It distributes a prepaid quota to users with redemption codes, groups and a web interface, routes to many providers, including most Chinese ones, and is a single binary.",
  start,
};

function executable(programs: string): string {
  return join(programs, "one-api", "one-api");
}

async function start(setup: Setup): Promise<RunningPeer> {
  const { folder, programs, mode } = setup;
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const encodings = join(programs, "one-api", "tiktoken");
  mkdirSync(encodings, { recursive: true });
  const program = await Program.start({
    command: executable(programs),
    args: ["--port", String(port), "--log-dir", join(folder, "logs")],
    env: {
      SQLITE_PATH: join(folder, "one-api.db"),
      INITIAL_ROOT_ACCESS_TOKEN: rootToken,
      // This limit applies only to calls of the administration interface.
      GLOBAL_API_RATE_LIMIT: "1000000",
      TIKTOKEN_CACHE_DIR: encodings,
      ...(mode === "strictest" ? { ENFORCE_INCLUDE_USAGE: "true" } : {}),
    },
    folder,
    port,
  });
  const admin = (path: string, call: Call = {}, token = rootToken) => callAdmin(`${url}${path}`, call, token);
  await callWhenReady(`${url}/api/status`);
  await configure(setup, admin);
  const quota = Math.round(Number(setup.budget) * unitsPerUsd);
  const owner = mode === "strictest" ? await createUser(quota, url, admin) : rootToken;
  const created = await admin(
    "/api/token/",
    { method: "POST", body: { name: "bench", expired_time: -1, remain_quota: quota, unlimited_quota: false } },
    owner,
  );
  const { id, key } = z.object({ id: z.number(), key: z.string() }).parse(created);
  await warmUp(`${url}/v1`, `sk-${key}`);
  return {
    baseUrls: [`${url}/v1`],
    key: `sk-${key}`,
    async spend() {
      const token = await admin(`/api/token/${id}`, {}, owner);
      const units = z.object({ used_quota: z.int() }).parse(token).used_quota;
      return usd((units / unitsPerUsd).toFixed(6));
    },
    restart: () => restartProgram(program, `${url}/api/status`),
    stop: () => program[Symbol.asyncDispose](),
  };
}

type Admin = (path: string, call?: Call, token?: string) => Promise<unknown>;

async function configure({ gatewayUrl, gatewayKey, prices }: Setup, admin: Admin): Promise<void> {
  const each = Object.entries(prices);
  const option = (key: string, value: string) => admin("/api/option/", { method: "PUT", body: { key, value } });
  await option(
    "ModelRatio",
    JSON.stringify(Object.fromEntries(each.map(([name, { input }]) => [name, Number(input) / 2]))),
  );
  await option(
    "CompletionRatio",
    JSON.stringify(Object.fromEntries(each.map(([name, { input, output }]) => [name, Number(output) / Number(input)]))),
  );
  await admin("/api/channel/", {
    method: "POST",
    body: {
      type: 1,
      name: "gateway",
      key: gatewayKey,
      base_url: gatewayUrl,
      models: Object.keys(prices).join(","),
      group: "default",
    },
  });
}

/** Creates a user with this quota, and returns the user's access token. */
async function createUser(quota: number, url: string, admin: Admin): Promise<string> {
  const login = { username: "bench", password: "bench-password" };
  await admin("/api/user/", { method: "POST", body: login });
  const session = await fetch(`${url}/api/user/login`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(login),
  });
  const user = z.object({ data: z.object({ id: z.number() }) }).parse(await session.json());
  await admin("/api/topup", { method: "POST", body: { user_id: user.data.id, quota, remark: "bench" } });
  const cookie = session.headers
    .getSetCookie()
    .map((each) => each.split(";")[0] ?? "")
    .join("; ");
  const answer = await callJson(`${url}/api/user/token`, { headers: { cookie } });
  return z.object({ data: z.string() }).parse(answer).data;
}

/** Calls the administration interface. Every answer has status 200; `success` is false if the call failed. */
async function callAdmin(url: string, call: Call, token: string): Promise<unknown> {
  const answer = await callJson(url, { ...call, headers: { authorization: token } });
  const { success, message, data } = z
    .object({ success: z.boolean(), message: z.string(), data: z.unknown().optional() })
    .parse(answer);
  if (!success) throw new Error(`${url}: ${message}`);
  return data;
}

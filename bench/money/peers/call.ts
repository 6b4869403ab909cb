import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import type { Program } from "../../program.ts";

/** Reason for products that have no tasks, or only tasks of other kinds. */
export const noTasks = "it has no interface for tasks of this kind";

/** Command whose output contains the version of a program. */
interface VersionCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly expected: string;
}

/** Returns null if a peer's program is installed in the pinned version; otherwise a sentence that says what is wrong. */
export function wrongProgram(path: string, { command, args, expected }: VersionCommand): string | null {
  if (!existsSync(path)) return `${path} does not exist`;
  const { error, stdout, stderr } = spawnSync(command, args, { encoding: "utf8", timeout: 20_000 });
  if (error !== undefined) return `the version of ${path} is unknown: ${error.message}`;
  const output = stdout + stderr;
  if (output.includes(expected)) return null;
  return `${path} is not ${expected.trim()}: ${output.trim().slice(0, 300)}`;
}

/** Returns the command that prints the commit and the module version of a program that Go compiled. */
export function goVersion(path: string, expected: string): VersionCommand {
  return { command: "go", args: ["version", "-m", path], expected };
}

/** Kills a program, starts it again, and resolves when it is ready. `url`: an address that answers once the program is ready. */
export async function restartProgram(program: Program, url: string): Promise<void> {
  await program.restart();
  await callWhenReady(url);
}

/** Request to the administration interface of a peer. */
export interface Call {
  readonly method?: "GET" | "POST" | "PUT";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** Returns the JSON of a successful answer. Throws an error with the beginning of any other answer. */
export async function callJson(url: string, { method = "GET", headers = {}, body }: Call = {}): Promise<unknown> {
  const response = await fetch(url, {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { "content-type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${url} returned status ${response.status}: ${text.slice(0, 300)}`);
  return JSON.parse(text) as unknown;
}

/** Repeats a call until it succeeds, because a program may listen before it is ready. Throws the last error after 90 seconds. */
export async function callWhenReady(url: string, call: Call = {}): Promise<unknown> {
  const endsAt = performance.now() + 90_000;
  for (;;) {
    try {
      return await callJson(url, call);
    } catch (error) {
      if (performance.now() > endsAt) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

/** Requests the models a few times, because a scenario must not measure the first request of a process. */
export async function warmUp(baseUrl: string, key: string): Promise<void> {
  for (let round = 0; round < 3; round++) {
    await fetch(`${baseUrl}/models`, { headers: { authorization: `Bearer ${key}` } }).then((answer) => answer.text());
  }
}

import { expect, it } from "vitest";
import type { FirstTextResult } from "../../../src/ports/ledger.ts";
import { LongPrompts } from "../../../src/request/long-prompts.ts";
import { silentLog } from "../../support/captured-log.ts";
import { manualClock } from "../../support/manual-clock.ts";

const dayMs = 24 * 60 * 60 * 1000;

function longPrompts() {
  const clock = manualClock(Date.UTC(2026, 10, 29, 23));
  const stored = new Map<string, string>();
  const work: Promise<void>[] = [];
  let isAvailable = true;
  const prompts = new LongPrompts({
    clock,
    log: silentLog,
    background: (task) => void work.push(task),
    ledger: {
      async firstText(name, text): Promise<FirstTextResult> {
        if (!isAvailable) return { ok: false, reason: "unavailable" };
        if (text !== null && !stored.has(name)) stored.set(name, text);
        return { ok: true, text: stored.get(name) ?? null };
      },
    },
  });
  const record = async (key: string, model: string) => {
    prompts.record(key, model, 2, 1);
    await Promise.all(work);
  };
  return { prompts, clock, record, stored, stop: () => void (isAvailable = false) };
}

it("marks a key and a model for a day, across midnight", async () => {
  const { prompts, clock, record } = longPrompts();
  await record("alice", "claude");
  expect(await prompts.isMarked("alice", "claude")).toBe(true);
  expect(await prompts.isMarked("alice", "gemini")).toBe(false);
  expect(await prompts.isMarked("bob", "claude")).toBe(false);
  clock.advance(dayMs - 1);
  expect(await prompts.isMarked("alice", "claude")).toBe(true);
  clock.advance(1);
  expect(await prompts.isMarked("alice", "claude")).toBe(false);
});

it("marks again on the next day", async () => {
  const { prompts, clock, record } = longPrompts();
  await record("alice", "claude");
  clock.advance(dayMs);
  await record("alice", "claude");
  clock.advance(dayMs - 1);
  expect(await prompts.isMarked("alice", "claude")).toBe(true);
});

it("holds by bytes if the marks cannot be read", async () => {
  const { prompts, stop } = longPrompts();
  stop();
  expect(await prompts.isMarked("alice", "claude")).toBe(true);
});

import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { watchPrices, type Reload, type WatchedPrices } from "../../../src/catalogue/watched-prices.ts";
import { manualClock, type ManualClock } from "../../support/manual-clock.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { oneModelFile, replaceFile } from "../../support/price-files.ts";
import { temporaryFolder } from "../../support/farebox-process.ts";
import { pricing } from "../../support/example-catalogue.ts";

interface Watched extends AsyncDisposable {
  readonly folder: string;
  readonly prices: WatchedPrices;
  readonly reloads: readonly Reload[];
  /** Resolves at the first reload after which the condition holds. */
  until(holds: () => boolean): Promise<void>;
  /** Returns the input rate in force of a model, in pico-USD per token. */
  rate(model?: string): bigint | undefined;
}

const cheap = oneModelFile("mine", [{ from: "2026-01-01", input: "1", output: "4" }]);
const expensive = oneModelFile("mine", [{ from: "2026-01-01", input: "2", output: "8" }]);

/** Small, because each change checks the shipped files as well. */
const oneModelShipped = new URL("../../support/prices/", import.meta.url);

async function watched(
  options: { clock?: ManualClock; quietMs?: number; shipped?: URL; preset?: URL } = {},
): Promise<Watched> {
  await using owned = new AsyncDisposableStack();
  const { path } = owned.use(await temporaryFolder());
  const folder = join(path, "prices");
  await mkdir(folder);
  await writeFile(join(folder, "mine.yaml"), cheap);
  const reloads: Reload[] = [];
  let check = () => {};
  const opened = await watchPrices({
    folders: { shipped: options.shipped ?? oneModelShipped, preset: options.preset, user: folder },
    clock: options.clock ?? systemClock(),
    quietMs: options.quietMs ?? 20,
    pollMs: 60_000,
    onReload(reload) {
      reloads.push(reload);
      check();
    },
  });
  if (!opened.ok) throw new Error(JSON.stringify(opened.faults));
  const prices = owned.use(opened.prices);
  const kept = owned.move();
  return {
    folder,
    prices,
    reloads,
    until(holds) {
      return new Promise((resolve) => {
        check = () => {
          if (holds()) resolve();
        };
        check();
      });
    },
    rate: (model = "mine") => prices.current().find(model, Date.now())?.price?.version.tiers[0].charged.input,
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** Advances the clock poll by poll until the condition holds. */
async function pollUntil(clock: ManualClock, holds: () => boolean): Promise<void> {
  while (!holds()) {
    clock.advance(60_000);
    await new Promise(setImmediate);
  }
}

describe("a change of the user's folder is applied", () => {
  it("after a rename, a write in place, a new file, and a removal", async () => {
    await using here = await watched();
    expect(here.rate()).toBe(1_000_000n);
    await replaceFile(here.folder, "mine.yaml", expensive);
    await here.until(() => here.rate() === 2_000_000n);
    await writeFile(join(here.folder, "mine.yaml"), cheap);
    await here.until(() => here.rate() === 1_000_000n);
    await writeFile(
      join(here.folder, "other.yaml"),
      oneModelFile("other", [{ from: "2026-01-01", input: "3", output: "3" }]),
    );
    await here.until(() => here.rate("other") === 3_000_000n);
    await rm(join(here.folder, "other.yaml"));
    await here.until(() => here.rate("other") === undefined);
    expect(here.rate("model-a")).toBe(1_000_000n);
  });

  it("after a link is switched to another folder, as orchestrators do", async () => {
    await using here = await watched();
    for (const [version, text] of [
      ["one", cheap],
      ["two", expensive],
    ] as const) {
      await mkdir(join(here.folder, version));
      await writeFile(join(here.folder, version, "mine.yaml"), text);
    }
    const switchTo = async (version: string) => {
      await symlink(version, join(here.folder, "..tmp"));
      await rename(join(here.folder, "..tmp"), join(here.folder, "..data"));
    };
    await switchTo("one");
    await symlink("..data/mine.yaml", join(here.folder, "linked.yaml"));
    await rename(join(here.folder, "linked.yaml"), join(here.folder, "mine.yaml"));
    await switchTo("two");
    await here.until(() => here.rate() === 2_000_000n);
  });
});

describe("a change of the user's folder is not applied", () => {
  it("while a file is still being written", async () => {
    const clock = manualClock();
    await using here = await watched({ clock });
    // Part of the file is already a valid price file.
    const half = `${expensive}  second:\n    context_tokens: 1\n    max_output_tokens: 1\n`;
    const reloading = here.prices.reload();
    while (clock.waiting < 1) await new Promise(setImmediate);
    await writeFile(join(here.folder, "mine.yaml"), expensive);
    clock.advance(20);
    while (clock.waiting < 1) await new Promise(setImmediate);
    await writeFile(join(here.folder, "mine.yaml"), half);
    clock.advance(20);
    while (clock.waiting < 1) await new Promise(setImmediate);
    expect(here.reloads).toEqual([]);
    expect(here.rate()).toBe(1_000_000n);
    clock.advance(20);
    await reloading;
    expect(here.rate()).toBe(2_000_000n);
    expect(here.prices.current().find("second", 0)).toBeDefined();
  });

  it("if it affects only hidden files or other names", async () => {
    await using here = await watched();
    await writeFile(join(here.folder, ".#mine.yaml"), "no: price: file");
    await writeFile(join(here.folder, "mine.yaml~"), "no: price: file");
    await here.prices.reload();
    expect(here.reloads).toMatchObject([{ kind: "applied", before: here.prices.current().digest }]);
  });

  it("if a file is invalid, which is reported once, until the file is corrected", async () => {
    const clock = manualClock();
    await using here = await watched({ clock });
    const before = here.prices.current();
    await writeFile(join(here.folder, "bad.yaml"), "models: [");
    await pollUntil(clock, () => here.reloads.length > 0);
    expect(here.reloads[0]).toMatchObject({
      kind: "refused",
      faults: [{ file: join(here.folder, "bad.yaml"), line: 1 }],
    });
    for (let poll = 0; poll < 3; poll++) {
      clock.advance(60_000);
      await new Promise(setImmediate);
    }
    expect(here.reloads).toHaveLength(1);
    expect(here.prices.current()).toBe(before);
    await rm(join(here.folder, "bad.yaml"));
    await pollUntil(clock, () => here.reloads.length > 1);
    expect(here.reloads[1]).toMatchObject({ kind: "applied", before: before.digest });
    expect(here.prices.current().digest).toBe(before.digest);
  });

  it("if the folder is missing, until a poll finds a new one", async () => {
    const clock = manualClock();
    await using here = await watched({ clock });
    await rm(here.folder, { recursive: true });
    await pollUntil(clock, () => here.reloads.length > 0);
    expect(here.reloads[0]).toMatchObject({
      kind: "refused",
      faults: [{ file: here.folder, message: expect.stringContaining("does not exist") }],
    });
    expect(here.rate()).toBe(1_000_000n);
    await mkdir(here.folder);
    await writeFile(join(here.folder, "mine.yaml"), expensive);
    await pollUntil(clock, () => here.rate() === 2_000_000n);
  });
});

it("prices built in another thread equal those built in this one", async () => {
  await using here = await watched({ shipped: pricing });
  const before = here.prices.current();
  await here.prices.reload();
  expect(here.prices.current()).not.toBe(before);
  expect(here.prices.current().digest).toBe(before.digest);
  expect(here.prices.current().histories()).toEqual(before.histories());
  for (const { aliases, id } of before.histories()) {
    for (const name of [id, ...aliases, `${id}-2026-11-20`]) {
      expect(here.prices.current().find(name, Date.now())).toEqual(before.find(name, Date.now()));
    }
  }
});

it("a preset stays in force when the user's files change, and only a reload reads its file again", async () => {
  await using temporary = await temporaryFolder();
  const preset = pathToFileURL(join(temporary.path, "preset.yaml"));
  const stated = (input: string) => oneModelFile("of-the-preset", [{ from: "2026-01-01", input, output: "9" }]);
  await writeFile(preset, stated("5"));
  await using here = await watched({ preset });
  expect([here.rate(), here.rate("of-the-preset")]).toEqual([1_000_000n, 5_000_000n]);
  await writeFile(preset, stated("6"));
  await replaceFile(here.folder, "mine.yaml", expensive);
  await here.until(() => here.rate() === 2_000_000n);
  expect(here.rate("of-the-preset")).toBe(5_000_000n);
  await here.prices.reload();
  expect([here.rate(), here.rate("of-the-preset")]).toEqual([2_000_000n, 6_000_000n]);
});

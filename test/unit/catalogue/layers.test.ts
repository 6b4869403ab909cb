import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatFault } from "../../../src/core/fault.ts";
import { loadCatalogue } from "../../../src/catalogue/load.ts";
import { formatRate } from "../../../src/core/money.ts";
import {
  catalogueOf,
  expectCatalogue,
  faults,
  faultsOf,
  oneModel,
  pricing,
  today,
} from "../../support/example-catalogue.ts";

const expensive = `provider: mine
models:
  big:
    group: half
    context_tokens: 2000
    max_output_tokens: 100
    prices: [{ from: 2026-01-01, source: "mine", official: { input: "8", output: "40" } }]
`;

const shipped = { "a.yaml": oneModel.replace("  big:\n", "  big:\n    aliases: [large]\n") };

describe("a user's layer", () => {
  it("replaces a model completely, including its aliases, and keeps its position in the list", () => {
    const catalogue = catalogueOf(
      { ...shipped, "z.yaml": expensive.replace("big:", "last:") },
      { "mine.yaml": expensive },
    );
    expect(catalogue.list(today).map(({ id }) => id)).toEqual(["big", "last"]);
    const model = catalogue.find("big", today);
    expect(model).toMatchObject({ provider: "mine", contextTokens: 2000, tokenizerIsPublic: false });
    expect(catalogue.find("large", today)).toBeUndefined();
  });

  it("adds models and groups, and may use the shipped groups", () => {
    const mine = `groups: { third: { fraction: "0.3" } }\n${expensive.replace("big:", "own:").replace("half", "third")}`;
    const catalogue = catalogueOf(shipped, { "mine.yaml": mine });
    const charged = catalogue.find("own", today)?.price?.version.tiers[0].charged;
    expect(charged && formatRate(charged.input)).toBe("2.40");
    expect(catalogueOf(shipped, { "mine.yaml": expensive }).find("big", today)?.group).toBe("half");
  });

  it("may name a provider for each model", () => {
    const mine = `${expensive.replace("provider: mine\n", "")}`.replace("big:", "own:\n    provider: theirs");
    expect(catalogueOf(shipped, { "mine.yaml": mine }).find("own", today)?.provider).toBe("theirs");
    expect(catalogueOf(shipped, { "mine.yaml": `provider: ours\n${mine}` }).find("own", today)?.provider).toBe(
      "theirs",
    );
  });

  it("changes the share of a shipped group", () => {
    const catalogue = catalogueOf(shipped, { "mine.yaml": 'groups: { half: { fraction: "0.45" } }\n' });
    expect(catalogue.find("big", today)?.price?.version).toMatchObject({ fraction: "0.45" });
  });

  it("may use a shipped alias as the id of its own model", () => {
    const catalogue = catalogueOf(shipped, { "mine.yaml": expensive.replace("big:", "large:") });
    expect(catalogue.find("large", today)?.id).toBe("large");
    expect(catalogue.find("big", today)?.id).toBe("big");
  });

  it("may not hide a shipped model behind an alias", () => {
    const mine = expensive.replace("big:", "own:\n    aliases: [big]");
    expect(faults(shipped, { "mine.yaml": mine })).toEqual([
      'mine.yaml:4:15: "big" already names model "big"; keep one of them',
    ]);
  });

  it("adds, replaces and removes time limits of task families, which change the digest", () => {
    const base = { ...shipped, "g.yaml": "task_minutes: { suno: 15, udio: 15, music: 15 }" };
    const catalogue = catalogueOf(base, { "mine.yaml": "task_minutes: { udio: 30, music: null, chirp: 1440 }" });
    expect([...catalogue.taskTimeLimits]).toEqual([
      ["suno", 900_000],
      ["udio", 1_800_000],
      ["chirp", 86_400_000],
    ]);
    expect(catalogueOf(base).digest).not.toBe(catalogue.digest);
  });

  it("adds task units and a ceiling price for unknown models", () => {
    const mine = `task_units: { quota: "500000" }
default:
  context_tokens: 5000
  max_output_tokens: 500
  prices:
    - from: 2026-01-01
      source: "our ceiling"
      official: { input: "20", output: "100" }
      gateway: { input: "20", output: "100" }
`;
    const catalogue = catalogueOf(
      { ...shipped, "g.yaml": 'task_units: { llm: "10" }\ndefault: null\n' },
      { "mine.yaml": mine },
    );
    expect(catalogue.taskUnits).toEqual(
      new Map([
        ["llm", 10n],
        ["quota", 500_000n],
      ]),
    );
    expect(catalogue.find("never-heard-of", today)).toMatchObject({
      id: "default",
      group: "default",
      contextTokens: 5000,
    });
    expect(catalogue.find("big", today)?.id).toBe("big");
    expect(catalogue.list(today).map(({ id }) => id)).toEqual(["big"]);
    expect(
      catalogueOf(shipped, { "a.yaml": mine, "b.yaml": "default: null\n" }).find("never-heard-of", today),
    ).toBeUndefined();
  });
});

describe("the digest", () => {
  const digest = (...layers: Readonly<Record<string, string>>[]) => catalogueOf(...layers).digest;

  it("is equal for equal prices in different files", () => {
    const [groups, models] = [
      oneModel.slice(0, oneModel.indexOf("provider")),
      oneModel.slice(oneModel.indexOf("provider")),
    ];
    expect(digest({ "a.yaml": groups, "b.yaml": models })).toBe(digest({ "a.yaml": oneModel }));
    expect(digest({ "x.yaml": `# a remark\n${oneModel}` })).toBe(digest({ "a.yaml": oneModel }));
  });

  it.each([
    ['"2.00"', '"2.02"'],
    ["context_tokens: 1000", "context_tokens: 1001"],
    ["2026-01-01", "2026-01-02"],
    ["  big:\n", "  big:\n    aliases: [large]\n"],
    ["groups:", 'task_units: { llm: "1" }\ngroups:'],
  ])("changes when %j becomes %j", (from, to) => {
    expect(digest({ "a.yaml": oneModel.replace(from, to) })).not.toBe(digest({ "a.yaml": oneModel }));
  });
});

describe("loadCatalogue", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "farebox-pricing-"));
    await writeFile(join(folder, "10-big.yaml"), oneModel);
    await writeFile(join(folder, "20-own.yml"), expensive.replace("big:", "own:"));
    await writeFile(join(folder, "notes.txt"), "not a price file");
    await mkdir(join(folder, "bad"));
    await mkdir(join(folder, "bad", "broken.yaml"));
    await writeFile(join(folder, "bad", "wrong.yaml"), "groups: 1\n");
  });
  afterAll(() => rm(folder, { recursive: true }));

  it("reads .yaml and .yml files over the shipped files", async () => {
    const catalogue = expectCatalogue(await loadCatalogue({ shipped: pricing, user: folder }));
    expect(catalogue.find("own", today)?.provider).toBe("mine");
    expect(catalogue.find("gpt-4o", today)?.provider).toBe("openai");
  });

  it("names a file that it cannot read, and checks the others", async () => {
    expect(faultsOf(await loadCatalogue({ shipped: pricing, user: join(folder, "bad") }))).toEqual([
      `${join(folder, "bad", "broken.yaml")}:1:1: cannot be read: it is a folder; price files are plain files`,
      `${join(folder, "bad", "wrong.yaml")}:1:9: "groups" is 1; write a block with one entry for each name`,
    ]);
  });

  it("reports a path that does not exist or is not a folder", async () => {
    for (const name of ["absent", "notes.txt"]) {
      const [fault, ...rest] = faultsOf(await loadCatalogue({ shipped: pricing, user: join(folder, name) }));
      expect(fault).toMatch(
        /:1:1: cannot be read: it (does not exist|is not a folder); write the path of a folder of price files$/,
      );
      expect(rest).toEqual([]);
    }
  });

  it("reads a preset's file between the shipped files and the user's", async () => {
    const preset = pathToFileURL(join(folder, "preset", "one.yaml"));
    await mkdir(join(folder, "preset", "own"), { recursive: true });
    await writeFile(preset, `${oneModel}  \n`.replace("big:", "gpt-4o:"));
    expect(expectCatalogue(await loadCatalogue({ shipped: pricing, preset })).find("gpt-4o", today)?.provider).toBe(
      "example",
    );
    await writeFile(join(folder, "preset", "own", "mine.yaml"), expensive.replace("big:", "gpt-4o:"));
    const all = { shipped: pricing, preset, user: join(folder, "preset", "own") };
    expect(expectCatalogue(await loadCatalogue(all)).find("gpt-4o", today)?.provider).toBe("mine");
  });

  it("names the file of a preset as seen from the folder above the shipped ones", async () => {
    await mkdir(join(folder, "shipped", "presets"), { recursive: true });
    const preset = pathToFileURL(join(folder, "shipped", "presets", "one.yaml"));
    await writeFile(preset, "groups: 1\n");
    const load = async (from: URL) => faultsOf(await loadCatalogue({ shipped: join(folder, "shipped"), preset: from }));
    expect(await load(preset)).toEqual([
      'shipped/presets/one.yaml:1:9: "groups" is 1; write a block with one entry for each name',
    ]);
    expect(await load(new URL("two.yaml", preset))).toEqual([
      expect.stringMatching(/^shipped\/presets\/two\.yaml:1:1: cannot be read: it does not exist/),
    ]);
  });

  it("names shipped files by the last part of their folder", async () => {
    await mkdir(join(folder, "pricing"));
    await writeFile(join(folder, "pricing", "openai.yaml"), "groups: 1\n");
    const result = await loadCatalogue({ shipped: join(folder, "pricing") });
    expect(result.ok ? [] : result.faults.map(formatFault)).toEqual([
      'pricing/openai.yaml:1:9: "groups" is 1; write a block with one entry for each name',
    ]);
  });
});

import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { writeNewFile } from "../../../src/catalogue/import/write.ts";
import { temporaryFolder } from "../../support/farebox-process.ts";

let temporary: Awaited<ReturnType<typeof temporaryFolder>>;
let folder: string;
beforeEach(async () => {
  temporary = await temporaryFolder();
  folder = join(temporary.path, "prices");
});
afterEach(() => temporary[Symbol.asyncDispose]());

const path = (name: string) => join(folder, name);
const text = (name: string) => readFile(path(name), "utf8");

it("writeNewFile creates a file and its folder", async () => {
  expect(await writeNewFile(path("new.yaml"), "new\n")).toEqual({ ok: true });
  expect(await text("new.yaml")).toBe("new\n");
  expect((await stat(path("new.yaml"))).mode & 0o133).toBe(0);
  expect(await readdir(folder)).toEqual(["new.yaml"]);
});

it("writeNewFile never replaces a file", async () => {
  await mkdir(folder);
  await writeFile(path("there.yaml"), "mine\n");
  expect(await writeNewFile(path("there.yaml"), "theirs\n")).toEqual({
    ok: false,
    problem: `${path("there.yaml")} already exists and was not replaced; remove it, or give another --from-date or --into`,
  });
  expect(await text("there.yaml")).toBe("mine\n");
  expect(await readdir(folder)).toEqual(["there.yaml"]);
});

it("writeNewFile names a path that cannot be written", async () => {
  await mkdir(folder);
  await writeFile(path("there.yaml"), "mine\n");
  expect(await writeNewFile(join(folder, "there.yaml", "below.yaml"), "new\n")).toMatchObject({
    ok: false,
    problem: expect.stringMatching(/below\.yaml cannot be written \(E(NOTDIR|EXIST)\)$/),
  });
  expect(await text("there.yaml")).toBe("mine\n");
  expect(await readdir(folder)).toEqual(["there.yaml"]);
});

import { chmod, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { writeFiles } from "../../../src/catalogue/import/write.ts";
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

it("writeFiles creates new files and their folder, and edits existing files", async () => {
  expect(await writeFiles([{ path: path("new.yaml"), before: null, after: "new\n" }])).toEqual({
    ok: true,
    paths: [path("new.yaml")],
  });
  await chmod(path("new.yaml"), 0o600);
  expect(
    await writeFiles([
      { path: path("new.yaml"), before: "new\n", after: "new\nmore\n" },
      { path: path("other.yaml"), before: null, after: "other\n" },
    ]),
  ).toMatchObject({ ok: true });
  expect([await text("new.yaml"), await text("other.yaml")]).toEqual(["new\nmore\n", "other\n"]);
  expect((await stat(path("new.yaml"))).mode & 0o777).toBe(0o600);
  expect((await readdir(folder)).sort()).toEqual(["new.yaml", "other.yaml"]);
});

it("writeFiles refuses to create a file that exists, and to edit one that was changed in the meantime", async () => {
  await mkdir(folder);
  await writeFile(path("there.yaml"), "mine\n");
  expect(await writeFiles([{ path: path("there.yaml"), before: null, after: "theirs\n" }])).toEqual({
    ok: false,
    problem: `${path("there.yaml")} already exists and was not replaced; remove it, or give another --from-date or --into`,
  });
  expect(await writeFiles([{ path: path("there.yaml"), before: "yours\n", after: "theirs\n" }])).toEqual({
    ok: false,
    problem: `${path("there.yaml")} was changed in the meantime and was not written; run the import again`,
  });
  expect(await text("there.yaml")).toBe("mine\n");
  expect(await readdir(folder)).toEqual(["there.yaml"]);
});

it("writeFiles changes nothing if one of several new files already exists", async () => {
  await mkdir(folder);
  for (const name of ["there.yaml", "taken.yaml"]) await writeFile(path(name), "mine\n");
  expect(
    await writeFiles([
      { path: path("there.yaml"), before: "mine\n", after: "theirs\n" },
      { path: path("taken.yaml"), before: null, after: "new\n" },
    ]),
  ).toMatchObject({ ok: false });
  expect([await text("there.yaml"), await text("taken.yaml")]).toEqual(["mine\n", "mine\n"]);
});

it("writeFiles writes none of several files if one cannot be written", async () => {
  await mkdir(folder);
  await writeFile(path("there.yaml"), "mine\n");
  const written = await writeFiles([
    { path: path("there.yaml"), before: "mine\n", after: "theirs\n" },
    { path: join(folder, "there.yaml", "below.yaml"), before: null, after: "new\n" },
  ]);
  expect(written).toMatchObject({
    ok: false,
    problem: expect.stringMatching(/below\.yaml cannot be written \(E(NOTDIR|EXIST)\)$/),
  });
  expect(await text("there.yaml")).toBe("mine\n");
  expect(await readdir(folder)).toEqual(["there.yaml"]);
});

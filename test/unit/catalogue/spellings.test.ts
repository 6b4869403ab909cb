import * as fc from "fast-check";
import { expect, it } from "vitest";
import { loadCatalogue } from "../../../src/catalogue/load.ts";
import { mayUseModel } from "../../../src/request/authenticate.ts";
import { shippedPrices } from "../../../src/server/package.ts";
import { today } from "../../support/example-catalogue.ts";
import { key } from "../../support/ledger-fixtures.ts";

const loaded = await loadCatalogue({ shipped: shippedPrices, user: undefined });
if (!loaded.ok) throw new Error("the shipped prices are faulty");
const { catalogue } = loaded;
const ids = catalogue.list(today).map(({ id }) => id);

/** Suffixes that name other models. */
const otherModels = ["-mini", ":free", "-preview"];

/** Names in another letter case, with other providers, dates, and characters around them. */
const spellingsOf = (id: string) =>
  fc
    .record({
      provider: fc.constantFrom("", "", "openai/", "Cheap-X/", "a/b/", "models/", "cheap-x\uff0f"),
      capitals: fc.array(fc.boolean(), { minLength: id.length, maxLength: id.length }),
      isWide: fc.boolean(),
      suffix: fc.constantFrom("", "", "-2031-05-05", "@20310505", "@latest", ...otherModels),
      around: fc.constantFrom("", "", " ", "\t"),
    })
    .map(({ provider, capitals, isWide, suffix, around }) => {
      const cased = [...id].map((each, index) => (capitals[index] === true ? each.toUpperCase() : each)).join("");
      const first = String.fromCharCode((cased.codePointAt(0) ?? 0) + 0xfee0);
      const name = `${around}${provider}${isWide ? first + cased.slice(1) : cased}${suffix}${around}`;
      return { name, isSame: !otherModels.includes(suffix) };
    });

const patterns = fc
  .record({
    id: fc.constantFrom(...ids),
    provider: fc.constantFrom("", "", "", "openai/", "cheap-x/", "*/", "cheap-", "cheap-*"),
    cut: fc.nat(40),
    end: fc.constantFrom("", "*", "*", "-2031-05-05", "*-latest"),
    isUpper: fc.boolean(),
  })
  .map(({ id, provider, cut, end, isUpper }) => {
    const pattern = `${provider}${provider.endsWith("*") ? "" : end === "*" ? id.slice(0, cut) : id}${end}`;
    return isUpper ? pattern.toUpperCase() : pattern;
  });

/** Returns a name without the differences that no list of models considers. */
const plain = (name: string) => name.normalize("NFKC").toLowerCase().trim();

/** Independent of the code under test: compares by a regular expression. */
function matches(pattern: string, name: string): boolean {
  const source = plain(pattern)
    .split("*")
    .map((piece) => RegExp.escape(piece))
    .join(".*");
  return new RegExp(`^${source}$`, "su").test(plain(name));
}

it.each(ids)("a spelling of %s is permitted like its id, and has its price", (id) => {
  const lists = fc.array(patterns, { minLength: 1, maxLength: 3 });
  const own = fc.constantFrom([], [id], [`${id.slice(0, 3)}*`]);
  const price = catalogue.named(id, today)?.price?.id;
  for (const [{ name, isSame }, random, more] of fc.sample(fc.tuple(spellingsOf(id), lists, own), 40)) {
    const models = [...random, ...more];
    const found = catalogue.named(name, today);
    if (isSame) expect([name, found?.id, found?.price?.id]).toEqual([name, id, price]);
    const bare = plain(name).split("/").at(-1) ?? "";
    const isNamed = models.some((pattern) => matches(pattern, pattern.includes("/") ? name : bare));
    const isIdPermitted = found !== undefined && models.some((pattern) => matches(pattern, found.id));
    const who = { key: key("alice", { models }), team: null };
    expect([name, models, mayUseModel(who, { name, id: found?.id }, catalogue)]).toEqual([
      name,
      models,
      isIdPermitted || isNamed,
    ]);
  }
});

import { expect, it } from "vitest";
import { buildCatalogue } from "../../../src/catalogue/build.ts";
import { judgePrices } from "../../../src/reporting/doctor.ts";
import { newestReview } from "../../../src/reporting/prices.ts";

const day = (text: string) => Date.parse(`${text}T00:00:00Z`);

function catalogueOf(...prices: readonly { readonly from: string; readonly source: string }[]) {
  const models = prices.map(
    ({ from, source }, index) => `
  model-${index}:
    group: whole
    context_tokens: 1000
    max_output_tokens: 100
    prices: [{ from: ${from}, source: "${source}", official: { input: "1.00", output: "2.00" } }]`,
  );
  const built = buildCatalogue([
    [
      {
        name: "prices.yaml",
        text: `groups: { whole: { fraction: "1" } }\nprovider: example\nmodels:${models.join("")}\n`,
      },
    ],
  ]);
  if (!built.ok) throw new Error(built.faults.map(({ message }) => message).join("\n"));
  return built.catalogue;
}

const reviewed = { from: "2026-08-21", source: "a list, reviewed on 2026-11-22" };

it("newestReview returns the newest review of the prices in force", () => {
  const catalogue = catalogueOf(reviewed, { from: "2024-01-01", source: "a list, as stored on 2026-08-21" });
  expect(newestReview(catalogue, day("2026-11-22"))).toEqual({
    reviewed_on: "2026-11-22",
    age_days: 0,
    review_due: false,
  });
});

it.each([
  ["2027-01-21", 60, false],
  ["2027-01-22", 61, true],
])("on %s, the review is %s days old; due: %s", (today, age, due) => {
  expect(newestReview(catalogueOf(reviewed), day(today))).toEqual({
    reviewed_on: "2026-11-22",
    age_days: age,
    review_due: due,
  });
  expect(judgePrices(catalogueOf(reviewed), "official", day(today))).toMatchObject({
    status: due ? "warning" : "ok",
    message: `1 models, preset official (FAREBOX_PRESET), last reviewed on 2026-11-22, ${age} days ago`,
  });
});

it("newestReview does not count the start of an announced price as a review", () => {
  const announced = { from: "2027-03-01", source: "a list, announced there for 2027-03-01, reviewed on 2026-11-22" };
  expect(newestReview(catalogueOf(announced), day("2027-03-02"))).toMatchObject({
    reviewed_on: "2026-11-22",
    review_due: true,
  });
});

it("newestReview uses the first day of a price whose source names no review", () => {
  expect(newestReview(catalogueOf({ from: "2026-12-01", source: "our contract" }), day("2026-12-03"))).toMatchObject({
    reviewed_on: "2026-12-01",
    age_days: 2,
  });
});

it("newestReview reports a review as due if no price is in force", () => {
  expect(newestReview(catalogueOf(reviewed), day("2026-01-01"))).toEqual({
    reviewed_on: null,
    age_days: null,
    review_due: true,
  });
});

import { describe, expect, it } from "vitest";
import type { ChargeJson, RefusalJson } from "../../../src/reporting/shapes/charges.ts";
import { charged, merged, refused, requestsOf, withNewer } from "../../../src/dashboard/views/request-rows.ts";

const charge = (id: string, time: string, more: Partial<ChargeJson> = {}) =>
  charged({ request_id: id, time, state: "posted", ...more } as ChargeJson);
const refusal = (at: string, count = 1, more: Partial<RefusalJson> = {}) =>
  refused({ first_at: at, last_at: at, count, key: "alice", code: "budget_exceeded", ...more } as RefusalJson);
const idsOf = ({ rows }: { readonly rows: readonly { readonly id: string }[] | null }) => rows?.map(({ id }) => id);
const any = () => true;

describe("the rows of Requests", () => {
  it("merge charges and refusals by time, newest first", () => {
    const charges = { rows: [charge("c", "12:03"), charge("a", "12:01")], older: null };
    const refusals = { rows: [refusal("12:02")], older: null };
    expect(merged([charges, refusals]).rows.map(({ time }) => time)).toEqual(["12:03", "12:02", "12:01"]);
  });

  it("end at the oldest loaded row of a list that has more on the server", () => {
    const charges = { rows: [charge("c", "12:09"), charge("b", "12:05")], older: "b" };
    const refusals = { rows: [refusal("12:06"), refusal("12:02")], older: "x" };
    expect(merged([charges, refusals]).rows.map(({ time }) => time)).toEqual(["12:09", "12:06", "12:05"]);
    expect(
      merged([
        { ...charges, older: null },
        { ...refusals, older: null },
      ]).rows,
    ).toHaveLength(4);
  });

  it("end at the time where a search stopped, even if it found no row", () => {
    const charges = { rows: [], older: "x", examinedTo: "12:05" };
    const refusals = { rows: [refusal("12:06"), refusal("12:02")], older: null };
    expect(merged([charges, refusals]).rows.map(({ time }) => time)).toEqual(["12:06"]);
  });

  it("keep the server's order of charges if they are the only list, such as by cost", () => {
    const rows = [charge("cheap", "12:01"), charge("new", "12:09")];
    expect(idsOf(merged([{ rows, older: "new" }]))).toEqual(["cheap", "new"]);
  });

  it("order refusals by time unless they are sorted, because the server orders them only by minute", () => {
    const rows = [refusal("12:02:03"), refusal("12:02:41"), refusal("12:01:09")];
    expect(merged([{ rows, older: null }]).rows.map(({ time }) => time)).toEqual(["12:02:41", "12:02:03", "12:01:09"]);
    expect(merged([{ rows, older: null }], true).rows).toEqual(rows);
  });

  it("replace a row that changed, and drop one that no longer matches", () => {
    const before = { rows: [charge("b", "2", { state: "pending" }), charge("a", "1")], older: "a" };
    const news = { rows: [charge("b", "2"), charge("c", "3")], older: null };
    expect(idsOf(withNewer(before, news, any))).toEqual(["c", "b", "a"]);
    const isPending = (row: ReturnType<typeof charge>) => row.kind === "charge" && row.charge.state === "pending";
    expect(idsOf(withNewer(before, news, isPending))).toEqual([]);
  });

  it("start again from a full page that has no known row", () => {
    const before = { rows: [charge("a", "1")], older: null };
    expect(withNewer(before, { rows: [charge("z", "9")], older: "z" }, any)).toEqual({
      rows: [charge("z", "9")],
      older: "z",
    });
  });

  it("count equal refusals of a minute as one row", () => {
    const before = { rows: [refusal("2026-11-09T12:00:01Z", 3)], older: null };
    const { rows } = withNewer(before, { rows: [refusal("2026-11-09T12:00:01Z", 7)], older: null }, any);
    expect(rows?.map((row) => row.kind === "refusal" && row.refusal.count)).toEqual([7]);
  });

  it("keep refusals of a minute apart by user and by team", () => {
    const at = "2026-11-09T12:00:01Z";
    const refusalOf = (subject: string, team: string, count: number) => refusal(at, count, { subject, team });
    const before = {
      rows: [refusalOf("user=ann", "red", 1), refusalOf("user=bob", "red", 2), refusalOf("user=bob", "blue", 3)],
      older: null,
    };
    expect(new Set(idsOf(before))).toHaveLength(3);
    const { rows } = withNewer(before, { rows: [refusalOf("user=bob", "red", 5)], older: null }, any);
    expect(rows?.map((row) => row.kind === "refusal" && row.refusal.count)).toEqual([1, 5, 3]);
  });
});

describe("the filters of Requests", () => {
  const queriesOf = (search: string, isAdmin = true) => requestsOf(new URLSearchParams(search), {}, isAdmin);

  it("read both lists if nothing excludes one", () => {
    expect(queriesOf("key=alice")).toMatchObject({
      charges: { key: "alice" },
      refusals: { key: "alice" },
      isFiltered: true,
    });
    expect(queriesOf("")).toMatchObject({ isFiltered: false });
  });

  it("read only refusals, or only charges, by status", () => {
    expect(queriesOf("status=refused")).toMatchObject({ charges: null, refusals: {} });
    expect(queriesOf("code=budget_exceeded").charges).toBeNull();
    expect(queriesOf("status=refused&q=ali&sort=count&order=asc")).toMatchObject({
      charges: null,
      refusals: { q: "ali", sort: "count", order: "asc" },
    });
    expect(queriesOf("status=refused&source=counted").refusals).toBeNull();
    expect(queriesOf("status=5xx")).toMatchObject({ charges: { status: "5xx", state: null }, refusals: null });
    expect(queriesOf("status=voided")).toMatchObject({ charges: { state: "voided" }, refusals: null });
    expect(queriesOf("state=pending")).toMatchObject({ charges: { state: "pending" }, refusals: null });
  });

  it.each([
    "source=counted",
    "group=general",
    "without=team",
    "doubt=true",
    "tag=a%3Db",
    "min_usd=1",
    "q=0a",
    "sort=cost",
  ])("read only charges with %s, which refusals do not have", (search) => {
    expect(queriesOf(search).refusals).toBeNull();
  });

  it("leave out the key for a caller who is not an admin", () => {
    expect(queriesOf("key=bob&team=x&model=gpt-4o", false).charges).toMatchObject({ model: "gpt-4o" });
    expect(queriesOf("key=bob&team=x", false).charges).not.toHaveProperty("key");
  });
});

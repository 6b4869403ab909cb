import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatUsd, usd, type PicoUsd } from "../../../src/core/money.ts";
import { balanceJson } from "../../../src/reporting/balance.ts";
import { accountFault, readAccount, readAccountFigures } from "../../../src/wire/account.ts";

describe("the account record", () => {
  it.each<[unknown, string | null]>([
    [{ data: { equivalent_in_usd: 12.5 } }, "12.50"],
    [{ data: {}, equivalent_in_usd: 3 }, "3.00"],
    [{ data: { equivalent_in_usd: null }, equivalent_in_usd: "0.1" }, "0.10"],
    [{ data: { equivalent_in_usd: 0 }, equivalent_in_usd: 9 }, "0.00"],
    [{ data: { wallet: { equivalent_in_usd: 4 }, credit_pack_info: { equivalent_in_usd: 5 } } }, "4.00"],
    [{ data: { equivalent_in_usd: null, wallet: {}, credit_pack_info: { equivalent_in_usd: "5.5" } } }, "5.50"],
    [{ wallet: { equivalent_in_usd: 6 }, credit_pack_info: { equivalent_in_usd: 7 } }, "6.00"],
    [{ credit_pack_info: { equivalent_in_usd: 7 }, data: { wallet: { equivalent_in_usd: "many" } } }, "7.00"],
    [{ data: { equivalent_in_usd: -0.25 } }, "-0.25"],
    [{ data: { equivalent_in_usd: 0.1 + 0.2 } }, "0.30"],
    [{ data: { equivalent_in_usd: 1e-9 } }, "0.000000001"],
    [{ data: { equivalent_in_usd: 12345.678901 } }, "12345.678901"],
    [{ data: { equivalent_in_usd: "a lot" } }, null],
    [{ data: { equivalent_in_usd: 1e30 } }, null],
    [{ data: { funds: { main: { equivalent_in_usd: 8 } } } }, "8.00"],
    [{ data: { list: [{ id: 1 }, { equivalent_in_usd: "2.5" }] } }, "2.50"],
    [{ data: [{ equivalent_in_usd: 2 }] }, "2.00"],
    [{ result: { equivalent_in_usd: 1 }, data: { plan: "x" } }, "1.00"],
    // The outermost object counts.
    [{ data: { a: { b: { equivalent_in_usd: 1 } }, c: { equivalent_in_usd: 2 } } }, "2.00"],
    [{ data: [] }, null],
    ["not an object", null],
    [null, null],
  ])("%j has the balance %s", (record, expected) => {
    const { balance } = readAccount(record);
    expect(balance === null ? null : formatUsd(balance)).toBe(expected);
    // The samples of the account state the same balance.
    const sampled = readAccountFigures(record).figures.equivalent_in_usd;
    expect(
      sampled === undefined
        ? null
        : formatUsd(readAccount({ data: { equivalent_in_usd: sampled } }).balance ?? usd("0")),
    ).toBe(expected);
  });

  it("of any depth and size is searched in bounded time", () => {
    const deep = JSON.parse(`${'{"a":'.repeat(5_000)}{"equivalent_in_usd":1}${"}".repeat(5_000)}`) as unknown;
    expect(readAccount(deep).balance).toBeNull();
    expect(readAccount({ list: Array.from({ length: 100_000 }, () => ({ id: 1 })) }).balance).toBeNull();
  });

  it.each<[unknown, string | undefined]>([
    [{ code: 200, data: { equivalent_in_usd: 0 } }, undefined],
    [{ code: 0, data: { plan: "x" }, message: "success" }, undefined],
    [{ data: { email: "a@b.example" } }, undefined],
    [{ data: { equivalent_in_usd: 5, status: "expired", error: null } }, undefined],
    [{ success: true, data: [], equivalent_in_usd: 5 }, "no_record"],
    [{ equivalent_in_usd: 5 }, undefined],
    [{ id: 1 }, undefined],
    [{ code: 401, data: null }, "gateway_401"],
    [{ code: 500, data: {} }, "gateway_500"],
    [{ code: "500", data: { equivalent_in_usd: 5 } }, "gateway_500"],
    [{ code: 10001, data: { equivalent_in_usd: 5 } }, "gateway_10001"],
    [{ code: "unauthorized", data: { equivalent_in_usd: 5 } }, "gateway_error"],
    [{ success: false, data: { equivalent_in_usd: 5 } }, "gateway_error"],
    [{ code: 200, data: { error: "no" } }, "gateway_error"],
    [{ message: "no", data: null }, "gateway_error"],
    [{ code: 504, data: null }, "gateway_504"],
    [{ code: 200, data: null }, "no_record"],
    [{ code: 200, data: {} }, "no_record"],
    [{ code: 200, data: { equivalent_in_usd: null } }, "no_record"],
    [{ code: 200, message: "success", request_id: "r" }, "no_record"],
    [{ message: "no", type: "x" }, "no_record"],
    [{}, "no_record"],
    [[], "no_record"],
    ["<html>", "no_record"],
  ])("%j is a record, or the reason is known: %s", (answer, expected) => {
    const fault = accountFault(answer);
    expect(typeof fault === "object" ? fault.reason : fault).toBe(expected);
  });

  it("has credits, plan and ceilings if they are known", () => {
    const noCeilings = { all: null, suno: null, luma: null, kling: null, flux: null };
    const data = {
      plan: "pro",
      credit_pack_info: { available_credits: 40.5, used_credits: "9.5", frozen_credits: 0, total_credits: null },
    };
    expect(readAccount({ code: 200, data })).toEqual({
      balance: null,
      credits: { total: null, used: 9.5, frozen: 0, available: 40.5 },
      plan: "pro",
      type: null,
      ceilings: noCeilings,
    });
    const unknown = { total: null, used: null, frozen: null, available: null };
    expect(readAccount({ plan: "", type: "ppu", credit_pack_info: [] })).toEqual({
      balance: null,
      credits: unknown,
      plan: null,
      type: "ppu",
      ceilings: noCeilings,
    });
    expect(
      readAccount({ data: { max_concurrent_task_count: 20, max_suno_concurrency: 0, max_flux_concurrency: "many" } })
        .ceilings,
    ).toEqual({ ...noCeilings, all: 20, suno: 0 });
  });

  it("has its figures as decimal text, and no other members", () => {
    const data = {
      id: 7,
      api_key: "sk-secret",
      equivalent_in_usd: 0.1 + 0.2,
      wallet: { id: 9, credit_used: "12.50", llm_used: 1e-7, auto_recharge_enabled: true },
      credit_pack_info: {
        used_credits: 250_000_001,
        frozen_credits: null,
        expired_credits: 0,
        credit_packs: [{ used: 3 }],
      },
    };
    expect(readAccountFigures({ code: 200, data })).toEqual({
      account: "7",
      figures: {
        equivalent_in_usd: "0.30000000000000004",
        used_credits: "250000001",
        expired_credits: "0",
        credit_used: "12.50",
        llm_used: "0.000000100000",
      },
    });
    expect(readAccountFigures({ equivalent_in_usd: 25 })).toEqual({
      account: null,
      figures: { equivalent_in_usd: "25" },
    });
  });

  it("is read without an error, whatever its shape", () => {
    fc.assert(fc.property(fc.jsonValue(), (record) => void readAccount(record)));
    fc.assert(fc.property(fc.jsonValue(), (record) => void readAccountFigures({ data: record })));
  });
});

describe("the balance", () => {
  const read = {
    fetchedAt: Date.parse("2026-11-20T12:00:00Z"),
    now: Date.parse("2026-11-20T12:00:00Z"),
    ttlMs: 60_000,
  };
  const credits = { total: 100, used: 60, frozen: null, available: 40 };
  const account = (balance: PicoUsd | null) => ({
    balance,
    credits,
    plan: "pro",
    type: null,
    ceilings: { all: 1, suno: 1, luma: 1, kling: 1, flux: 1 },
  });

  it("states the hours that it lasts, rounded down", () => {
    expect(balanceJson(account(usd("10")), usd("0.3"), read)).toEqual({
      balance_usd: "10.00",
      available_credits: 40,
      credits,
      plan: "pro",
      type: null,
      fetched_at: "2026-11-20T12:00:00.000Z",
      age_seconds: 0,
      stale: false,
      burn_usd_per_hour: "0.30",
      hours_left: 33.3,
    });
  });

  it.each<[PicoUsd | null, string, number | null]>([
    [null, "1", null],
    [usd("10"), "0", null],
    [usd("0"), "1", 0],
    [-usd("1") as PicoUsd, "1", 0],
  ])("of %s pico-USD at a burn of USD %s per hour lasts %s hours", (balance, burn, expected) => {
    expect(balanceJson(account(balance), usd(burn), read).hours_left).toBe(expected);
  });

  it("is stale once it is older than its time to live", () => {
    expect(balanceJson(account(null), usd("0"), { ...read, now: read.now + 61_500 })).toMatchObject({
      age_seconds: 61,
      stale: true,
    });
  });
});

it("texts of an account record are cut to 256 characters, and longer numbers are ignored", () => {
  const digits = "9".repeat(1_000_000);
  const record = { data: { plan: "p".repeat(1000), type: "t".repeat(1000), equivalent_in_usd: digits } };
  expect(readAccount(record)).toMatchObject({ plan: "p".repeat(256), type: "t".repeat(256), balance: null });
  expect(Object.values(readAccountFigures(record).figures)).toEqual([]);
});

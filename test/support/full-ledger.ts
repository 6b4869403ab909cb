import { eachKeyScope, everyRequest } from "../../src/core/scope.ts";
import { usd, type PicoUsd } from "../../src/core/money.ts";
import { noTokens } from "../../src/core/usage.ts";
import { connectToWrite } from "../../src/ledger/sqlite/connection.ts";
import { pruneLedger } from "../../src/ledger/pruning.ts";
import { maintained } from "../../src/ledger/sqlite/maintenance.ts";
import {
  alice,
  assumed,
  bob,
  budget,
  endAt,
  holdOf,
  key,
  message,
  noon,
  openStore,
  posting,
  taskOf,
  utc,
} from "./ledger-fixtures.ts";
import { manualClock } from "./manual-clock.ts";

const dayMs = 86_400_000;
const clock = manualClock(noon);
const by = "os:tester";

/**
 * Creates a ledger with rows in every table and with texts that are easily corrupted: half a year of charges in every
 * state, pruned once, with the pending holds of a proxy that was killed. `requests` is the number of charges, at
 * least a few hundred.
 */
export async function fillLedger(database: string, requests: number): Promise<void> {
  const store = await openStore({ path: database, calendar: utc, clock, access: "serve", threads: false });
  const { ledger, keys, teams, admins, samples, outbox, tasks, callbacks, sessions, dashboardSessions } = store;
  await teams.create(
    {
      name: "red",
      models: ["gpt-4o*", 'a "quoted" \\ one'],
      limits: { rpm: 60, tpm: null, parallel: 3 },
      outputCap: 4096,
      hostedTools: "remove",
      createdAt: noon,
    },
    by,
  );
  const values = { labels: { env: "prod" }, tags: { team: "x" }, user: "u_1", requires: ["tag:session", "user"] };
  await keys.create(
    key("alice", { id: alice.key, team: "red", models: ["model-*"], expiresAt: noon + dayMs, ...values }),
    by,
  );
  await keys.create(key("bob", { id: bob.key, suspendedAt: noon }), by);
  await admins.create(
    {
      id: "a1",
      name: "root",
      role: "editor",
      digest: "d".repeat(64),
      createdAt: noon,
      expiresAt: null,
      revokedAt: null,
    },
    by,
  );
  for (const period of ["total", "1h", "1d", "1w", "1mo"] as const)
    await ledger.setBudget(budget(everyRequest, period, "9000", "soft"), noon - 200 * dayMs, by);
  await ledger.setBudget(budget(eachKeyScope(), "total", "9000", "soft"), noon - 200 * dayMs, by);
  const eachUser = { conditions: [{ dimension: "user", name: "", value: null }] } as const;
  await ledger.setBudget(budget(eachUser, "total", "9000", "soft"), noon - 200 * dayMs, by);
  const raise = { scope: "each-key", period: "total", subject: "k-alice", amount: usd("250"), from: 0, until: null };
  await ledger.raiseBudget({ ...raise, why: "prepaid" }, noon - 100 * dayMs, by);
  await store.raiseRequests.create({
    id: "asked",
    budget: { scope: eachKeyScope(), period: "total" },
    subject: "k-alice",
    key: "k-alice",
    amount: usd("5"),
    why: "more",
    at: noon - 100 * dayMs,
    lapsesAt: null,
  });

  const session = {
    id: "run_full",
    key: alice.key,
    secret: null,
    tags: { feature: 'é "' },
    createdAt: noon,
    expiresAt: noon + dayMs,
  };
  await sessions.create({ ...session, budget: usd("9000"), endedAt: null }, by);
  await dashboardSessions.create(
    {
      digest: "e".repeat(64),
      kind: "admin",
      holder: "a1",
      secret: "d".repeat(64),
      createdAt: noon,
      expiresAt: noon + dayMs,
    },
    null,
  );

  const everyMs = Math.floor((200 * dayMs) / requests);
  const settled: Promise<unknown>[] = [];
  for (let index = 0; index < requests; index++) {
    const at = noon - 200 * dayMs + index * everyMs;
    const id = `r${index}`;
    const isTask = index % 97 === 0;
    const amount = index % 11 === 0 ? null : usd("0.10");
    const caller = { ...(index % 3 === 0 ? bob : alice), user: index % 2 === 0 ? null : `u_${index % 5}` };
    const tags =
      index % 4 === 0 ? { feature: 'NULL, "a\\b" {c} été 東京\t\n' } : index % 4 === 1 ? { session: "run_full" } : {};
    const held = ledger.hold(
      holdOf(id, amount, {
        at,
        caller,
        model: index % 5 === 0 ? "model-b" : "model-a",
        kind: isTask ? "task" : "request",
        retry: index % 4,
        tags,
      }),
    );
    settled.push(
      held.then(async () => {
        if (isTask) return await bindAndEnd(index);
        if (index % 7 === 0) return await ledger.void(id, "not_sent", endAt(at));
        const end = {
          ...endAt(at),
          servedModel: index === 1 ? "a\0b" : "model-a-1",
          durationMs: 0.1 + index / 7,
          firstTokenMs: index % 9 === 0 ? null : 1e-7 * index,
        };
        await ledger.post(
          id,
          amount === null ? assumed(null) : index % 13 === 0 ? assumed(usd("0.10")) : posting(100 + index, index),
          end,
        );
        if (index % 50 === 1)
          await ledger.adjust(id, {
            id: `${id}-a`,
            at: at + dayMs,
            amount: -usd("0.000000000002") as PicoUsd,
            why: "credit",
            by,
          });
      }),
    );
    if (settled.length === 500) await Promise.all(settled.splice(0));
  }
  await Promise.all(settled);

  async function bindAndEnd(index: number): Promise<void> {
    const charge = `r${index}`;
    await tasks.bind(taskOf(charge));
    await callbacks.put({ charge, digest: `digest-${index}`, sealed: "c2VhbGVk", createdAt: noon });
    if (index % 2 === 0) return;
    await tasks.end(
      { taskId: `task-${charge}`, charge },
      {
        settlement: {
          kind: "post",
          cost: usd("0.25"),
          listCost: usd("0.25"),
          tokens: noTokens,
          formula: "task",
          source: "reported",
          minimumApplied: false,
          clamped: false,
          reason: null,
        },
        end: endAt(noon),
        status: "completed",
        startedAt: noon + 1,
        endedAt: noon + 2,
        failure: null,
        inputs: { consumption: { type: "llm", units: "2500000" }, unitsPerUsd: "10000000", quantity: null },
      },
    );
  }

  const totals = await ledger.totals();
  const refusal = {
    minute: 60_000,
    key: "a1",
    team: null,
    route: "/v1/chat/completions",
    code: "budget_exceeded",
  } as const;
  const figures = { count: 3, firstAt: 60_001, lastAt: 60_002 };
  await store.refusals.add([
    {
      ...refusal,
      ...figures,
      model: "other",
      scope: "each-user",
      period: "1d",
      subject: "u%201",
      needed: usd("9000000"),
    },
    { ...refusal, ...figures, model: null, scope: null, period: null, subject: null, needed: null },
  ]);
  await samples.add({
    askedAt: noon,
    answeredAt: noon + 1,
    account: "8",
    figures: { equivalent_in_usd: "12.50" },
    before: totals,
    after: totals,
  });
  await outbox.put([message("a"), message("b")]);
  await outbox.tried("a", { kind: "delivered", at: noon + 1 });
  await ledger.firstText("digest", `{"field":"max_tokens","tokens":64,"why":"output_cap"}`, noon);
  await ledger.burstMarks({ key: "key", model: "gpt-4o", kind: "burst" }, noon);
  await store[Symbol.asyncDispose]();

  const db = connectToWrite(database);
  await pruneLedger(maintained(db, utc), { clock, olderThanMs: 150 * dayMs, pause: async () => undefined });
  db.close();

  // A killed proxy: its holds are pending under its epoch.
  const dead = await openStore({ path: database, calendar: utc, clock, access: "serve", threads: false });
  for (let index = 0; index < 5; index++)
    await dead.ledger.hold(holdOf(`left-${index}`, usd("0.25"), { at: noon, caller: alice }));
  await dead[Symbol.asyncDispose]();
}

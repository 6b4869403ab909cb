import { type CountedRow, callerOfRow } from "../rows/budgets.ts";
import { invariant } from "../../core/assert.ts";
import type { Caller } from "../../core/scope.ts";
import type { ChargeState, HoldKind } from "../../core/charge.ts";
import { noMoney, type PicoUsd } from "../../core/money.ts";
import type { OpenWindow, WindowStore } from "./window-store.ts";
import { endColumns, holdColumns, noteColumns, postColumns, pricesIn } from "../charge-columns.ts";
import { inDoubt, storedHold, type HoldCommand, type PostCommand, type VoidCommand } from "../commands.ts";
import { marks } from "../tables/table.ts";
import type { Connection, Statement } from "./connection.ts";

/** Pending charge in the memory of the writer. */
export interface PendingCharge {
  readonly seq: number;
  readonly kind: HoldKind;
  readonly at: number;
  readonly caller: Caller;
  readonly model: string;
  readonly group: string | null;
  readonly retry: number;
  hold: PicoUsd | null;
  /** Windows that apply to the charge. If several models may answer, includes the windows of each model. */
  readonly windows: readonly OpenWindow[];
}

/** Result of a charge's settlement. */
export interface EndedCharge {
  readonly state: Exclude<ChargeState, "pending">;
  readonly cost: PicoUsd | null;
  readonly overage: PicoUsd;
}

export function hasSeveralModels({ caller: { models = [] } }: PendingCharge): boolean {
  return models.length > 1;
}

/** Number of pending charges in memory above which the writer clears it between transactions. */
const pendingKept = 50_000;

/**
 * Reads and writes the rows of `charges` for a writer. Caches pending charges, so that a settlement need not read them.
 * The writer must call `forget` whenever it calls `WindowStore.forget`.
 */
export class ChargeStore {
  readonly #windows: WindowStore;
  readonly #pending = new Map<string, PendingCharge>();
  readonly #pricesWritten = new Set<string>();
  #pricesUncertain: string[] = [];
  #lateWindows = 0;
  readonly #insert: Statement;
  readonly #insertPrice: Statement;
  readonly #extend: Statement;
  readonly #post: Statement;
  readonly #note: Statement;
  readonly #void: Statement;
  readonly #chooseModel: Statement;
  readonly #find: Statement;

  constructor(db: Connection, windows: WindowStore) {
    this.#windows = windows;
    this.#insert = db.prepare(
      `insert into charges (id, owner, state, ${holdColumns.names.join(", ")})
       values (?, ?, 'pending', ${marks(holdColumns.names)}) on conflict (id) do nothing`,
    );
    this.#insertPrice = db.prepare("insert into price_versions (id, canonical) values (?, ?) on conflict do nothing");
    this.#extend = db.prepare("update charges set hold = ? where seq = ? and state = 'pending'");
    this.#post = db.prepare(
      `update charges set state = 'posted', ${assigned(postColumns.names)}, overage = ? where seq = ? and state = 'pending'`,
    );
    this.#note = db.prepare(`update charges set ${assigned(noteColumns.names)}, in_doubt = ? where seq = ?`);
    this.#void = db.prepare(
      `update charges set state = 'voided', ${assigned(endColumns.names)} where seq = ? and state = 'pending'`,
    );
    this.#chooseModel = db.prepare("update charges set entry = ?, entries = null where seq = ?");
    this.#find = db
      .prepare(
        `select seq, kind, state, admitted_at, key, team, model, tags, labels, end_user, entry, entries, price_group, retry, hold, cost, overage
         from charges where id = ?`,
      )
      .safeIntegers();
  }

  /** Inserts a pending charge, and its price if the price is missing. Returns false if a charge with the id exists. */
  insert(
    command: HoldCommand,
    caller: Caller,
    amount: PicoUsd | null,
    owner: number,
    windows: readonly OpenWindow[],
  ): boolean {
    const [, id, values] = command;
    const given = holdColumns.read(values);
    const { kind, admitted_at: at, model, price_group: group, retry } = given;
    this.#writePrice(given.price_id, given.canonical);
    const { changes, lastInsertRowid } = this.#insert.run(id, owner, ...storedHold(values, windows, amount));
    if (changes === 0) return false;
    const seq = Number(lastInsertRowid);
    this.#windows.link(seq, windows);
    this.#pending.set(id, { seq, kind, at, caller, model, group, retry, hold: amount, windows });
    return true;
  }

  /** Returns a charge by id; undefined if there is none. */
  find(id: string): { readonly pending: PendingCharge } | { readonly ended: EndedCharge } | undefined {
    if (this.#lateWindows !== this.#windows.lateWindows) {
      this.#lateWindows = this.#windows.lateWindows;
      this.#pending.clear();
    }
    const known = this.#pending.get(id);
    if (known !== undefined) return { pending: known };
    const row = this.#find.get(id) as FoundRow | undefined;
    if (row === undefined) return undefined;
    if (row.state !== "pending") return { ended: { state: row.state, cost: row.cost, overage: row.overage } };
    const caller = callerOfRow(row);
    const at = Number(row.admitted_at);
    const seq = Number(row.seq);
    const windows = this.#windows.ofCharge(seq);
    const { kind, model, hold } = row;
    const pending = { seq, kind, at, caller, model, group: row.price_group, retry: Number(row.retry), hold, windows };
    this.#pending.set(id, pending);
    return { pending };
  }

  /** Adds an amount to the hold of a charge. Does nothing if the charge holds no amount (null). */
  extend(charge: PendingCharge, amount: PicoUsd): void {
    if (charge.hold === null) return;
    const hold = (charge.hold + amount) as PicoUsd;
    this.#checkChanged(this.#extend.run(hold, charge.seq).changes);
    charge.hold = hold;
  }

  post(charge: PendingCharge, command: PostCommand, cost: PicoUsd | null, listCost: PicoUsd | null): EndedCharge {
    const [, id, values, notes] = command;
    const overage =
      charge.hold === null || cost === null || cost <= charge.hold ? noMoney : ((cost - charge.hold) as PicoUsd);
    const stored = postColumns.stored(values, { cost, list_cost: listCost });
    this.#checkChanged(this.#post.run(...stored, overage, charge.seq).changes);
    if (notes !== null) {
      for (const [priceId, canonical] of pricesIn(notes)) this.#writePrice(priceId, canonical);
      this.#note.run(...noteColumns.stored(notes), inDoubt(notes, cost), charge.seq);
    }
    this.#settleModel(charge, notes);
    this.#pending.delete(id);
    return { state: "posted", cost, overage };
  }

  void(charge: PendingCharge, command: VoidCommand): EndedCharge {
    const [, id, values] = command;
    this.#checkChanged(this.#void.run(...endColumns.stored(values), charge.seq).changes);
    this.#settleModel(charge, null);
    this.#pending.delete(id);
    return { state: "voided", cost: null, overage: noMoney };
  }

  /** Stores the model that a settled charge counts for, if several models were possible. */
  #settleModel(charge: PendingCharge, notes: PostCommand[3]): void {
    if (hasSeveralModels(charge)) this.#chooseModel.run(entryOf(charge, notes), charge.seq);
  }

  /** Remembers that the prices of the transaction are written. The writer must call this after each commit. */
  confirm(): void {
    this.#pricesUncertain = [];
  }

  /** Clears the pending charges from memory. Also forgets prices whose transaction was not committed. */
  forget(): void {
    this.#pending.clear();
    for (const id of this.#pricesUncertain) this.#pricesWritten.delete(id);
    this.#pricesUncertain = [];
  }

  /** True if the writer should clear the memory between transactions. */
  get isLarge(): boolean {
    return this.#pending.size > pendingKept;
  }

  #writePrice(id: string | null, canonical: string | null): void {
    if (id === null || canonical === null || this.#pricesWritten.has(id)) return;
    this.#insertPrice.run(id, canonical);
    this.#pricesWritten.add(id);
    this.#pricesUncertain.push(id);
  }

  #checkChanged(changes: number): void {
    invariant(changes === 1, "a charge that is pending in memory must be pending in the database");
  }
}

/** Returns the model that a settled charge counts for, by its name in the price files. */
export function entryOf({ model, caller: { models = [] } }: PendingCharge, notes: PostCommand[3]): string {
  const answered = notes === null ? null : noteColumns.read(notes).answered;
  return answered !== null && models.includes(answered) ? answered : (models[0] ?? model);
}

function assigned(names: readonly string[]): string {
  return names.map((name) => `${name} = ?`).join(", ");
}

interface FoundRow extends CountedRow {
  readonly seq: bigint;
  readonly kind: HoldKind;
  readonly state: ChargeState;
  readonly admitted_at: bigint;
  readonly price_group: string | null;
  readonly retry: bigint;
  readonly hold: PicoUsd | null;
  readonly cost: PicoUsd | null;
  readonly overage: PicoUsd;
}

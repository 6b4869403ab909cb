import { invariant } from "../../core/assert.ts";
import type { Caller } from "../../core/budget.ts";
import type { ChargeState, HoldKind } from "../../core/charge.ts";
import { noMoney, type PicoUsd } from "../../core/money.ts";
import type { OpenWindow, WindowBook } from "./budgets.ts";
import { endColumns, holdColumns, noteColumns, postColumns } from "../charge-columns.ts";
import { inDoubt, storedHold, type HoldCommand, type PostCommand, type VoidCommand } from "../commands.ts";
import { marks } from "../tables/table.ts";
import type { Connection, Statement } from "./connection.ts";

/** A pending charge as the writer keeps it from its hold to its end. */
export interface PendingCharge {
  readonly seq: number;
  readonly kind: HoldKind;
  readonly at: number;
  readonly caller: Caller;
  readonly model: string;
  readonly group: string | null;
  readonly retry: number;
  hold: PicoUsd | null;
  /** The windows that it applies to. */
  readonly windows: readonly OpenWindow[];
}

/** A charge that has ended, with what its end was answered with. */
export interface EndedCharge {
  readonly state: Exclude<ChargeState, "pending">;
  readonly cost: PicoUsd | null;
  readonly overage: PicoUsd;
}

/** Pending charges that are kept in memory at most; beyond that they are read again. */
const pendingKept = 50_000;

/**
 * Rows of `charges` as the one writer of a process sees them. Pending ones are remembered, so that their end need not
 * read them; `forget` has the same rule as the window book's.
 */
export class ChargeBook {
  readonly #windows: WindowBook;
  readonly #pending = new Map<string, PendingCharge>();
  readonly #pricesWritten = new Set<string>();
  #pricesUncertain: string[] = [];
  #lateWindows = 0;
  readonly #insert: Statement;
  readonly #insertPrice: Statement;
  readonly #enlarge: Statement;
  readonly #post: Statement;
  readonly #note: Statement;
  readonly #void: Statement;
  readonly #find: Statement;

  constructor(db: Connection, windows: WindowBook) {
    this.#windows = windows;
    this.#insert = db.prepare(
      `insert into charges (id, owner, state, ${holdColumns.names.join(", ")})
       values (?, ?, 'pending', ${marks(holdColumns.names)}) on conflict (id) do nothing`,
    );
    this.#insertPrice = db.prepare("insert into price_versions (id, canonical) values (?, ?) on conflict do nothing");
    this.#enlarge = db.prepare("update charges set hold = ? where seq = ? and state = 'pending'");
    this.#post = db.prepare(
      `update charges set state = 'posted', ${assigned(postColumns.names)}, overage = ? where seq = ? and state = 'pending'`,
    );
    this.#note = db.prepare(`update charges set ${assigned(noteColumns.names)}, in_doubt = ? where seq = ?`);
    this.#void = db.prepare(
      `update charges set state = 'voided', ${assigned(endColumns.names)} where seq = ? and state = 'pending'`,
    );
    this.#find = db
      .prepare(
        `select seq, kind, state, admitted_at, key, team, model, price_group, retry, hold, cost, overage from charges where id = ?`,
      )
      .safeIntegers();
  }

  /** Writes the charge as pending with this amount, its price before it; false when its id is there already. */
  insert(command: HoldCommand, amount: PicoUsd | null, owner: number, windows: readonly OpenWindow[]): boolean {
    const [, id, values] = command;
    const given = holdColumns.read(values);
    const { kind, admitted_at: at, key, team, model, price_group: group, retry } = given;
    this.#writePrice(given.price_id, given.canonical);
    const { changes, lastInsertRowid } = this.#insert.run(id, owner, ...storedHold(values, windows, amount));
    if (changes === 0) return false;
    const seq = Number(lastInsertRowid);
    this.#windows.link(seq, windows);
    this.#pending.set(id, { seq, kind, at, caller: { key, team }, model, group, retry, hold: amount, windows });
    return true;
  }

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
    const caller = { key: row.key, team: row.team };
    const at = Number(row.admitted_at);
    const seq = Number(row.seq);
    const windows = this.#windows.ofCharge(seq);
    const { kind, model, hold } = row;
    const pending = { seq, kind, at, caller, model, group: row.price_group, retry: Number(row.retry), hold, windows };
    this.#pending.set(id, pending);
    return { pending };
  }

  enlarge(charge: PendingCharge, amount: PicoUsd): void {
    if (charge.hold === null) return;
    const hold = (charge.hold + amount) as PicoUsd;
    this.#once(this.#enlarge.run(hold, charge.seq).changes);
    charge.hold = hold;
  }

  post(charge: PendingCharge, command: PostCommand, cost: PicoUsd | null, listCost: PicoUsd | null): EndedCharge {
    const [, id, values, notes] = command;
    const overage =
      charge.hold === null || cost === null || cost <= charge.hold ? noMoney : ((cost - charge.hold) as PicoUsd);
    const stored = postColumns.stored(values, { cost, list_cost: listCost });
    this.#once(this.#post.run(...stored, overage, charge.seq).changes);
    if (notes !== null) {
      const { served_price_id: servedPriceId, servedCanonical } = noteColumns.read(notes);
      this.#writePrice(servedPriceId, servedCanonical);
      this.#note.run(...noteColumns.stored(notes), inDoubt(notes, cost), charge.seq);
    }
    this.#pending.delete(id);
    return { state: "posted", cost, overage };
  }

  void(charge: PendingCharge, command: VoidCommand): EndedCharge {
    const [, id, values] = command;
    this.#once(this.#void.run(...endColumns.stored(values), charge.seq).changes);
    this.#pending.delete(id);
    return { state: "voided", cost: null, overage: noMoney };
  }

  /** After a commit. */
  confirm(): void {
    this.#pricesUncertain = [];
  }

  /** Drops the pending charges in memory, and prices whose transaction was not committed. */
  forget(): void {
    this.#pending.clear();
    for (const id of this.#pricesUncertain) this.#pricesWritten.delete(id);
    this.#pricesUncertain = [];
  }

  get isLarge(): boolean {
    return this.#pending.size > pendingKept;
  }

  #writePrice(id: string | null, canonical: string | null): void {
    if (id === null || canonical === null || this.#pricesWritten.has(id)) return;
    this.#insertPrice.run(id, canonical);
    this.#pricesWritten.add(id);
    this.#pricesUncertain.push(id);
  }

  #once(changes: number): void {
    invariant(changes === 1, "a pending charge in memory is pending in the database");
  }
}

function assigned(names: readonly string[]): string {
  return names.map((name) => `${name} = ?`).join(", ");
}

interface FoundRow {
  readonly seq: bigint;
  readonly kind: HoldKind;
  readonly state: ChargeState;
  readonly admitted_at: bigint;
  readonly key: string;
  readonly team: string | null;
  readonly model: string;
  readonly price_group: string | null;
  readonly retry: bigint;
  readonly hold: PicoUsd | null;
  readonly cost: PicoUsd | null;
  readonly overage: PicoUsd;
}

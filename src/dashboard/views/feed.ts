import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ask, type Fault, type Parameters } from "../api.ts";
import { attempt, useUser, whileVisible, type Resource } from "../resource.ts";
import type { ChargeListJson, LiveJson, RefusalListJson } from "../types.ts";
import { charged, endOf, merged, refused, withNewer, type Loaded, type Row } from "./request-rows.ts";

/** Live list of requests, newest first. Older requests load on demand. */
export interface Feed extends Resource<readonly Row[]> {
  readonly hasOlder: boolean;
  readonly loadingOlder: boolean;
  readonly loadOlder: () => void;
  /** Time up to which the server searched, if it stopped early and rows may be missing; otherwise null. */
  readonly examinedTo: string | null;
}

const pageLength = 50;
const everyMs = 1000;
const everyMsUnlessLive = 5000;

/** Page of rows from the server. */
interface Page extends Loaded {
  readonly rows: readonly Row[];
}

/** Newest rows of a list, and the argument for the next call of `newest`. */
interface Newest extends Page {
  /** Argument for the next call of `newest`. Null means that the next call returns the whole first page again. */
  readonly after: string | null;
}

/** List on the server. `subject` identifies the list together with its filter. */
interface Source {
  readonly subject: string;
  readonly everyMs: number;
  readonly newest: (after: string | null, signal: AbortSignal) => Promise<Newest>;
  readonly older: (cursor: string) => Promise<Page>;
  /** Returns false for a row that no longer matches the filter after a change. */
  readonly keeps: (row: Row) => boolean;
}

/**
 * Filters that the live list of the server supports. With any other filter, the page reads the newest matching charges
 * every few seconds.
 */
const liveFilters = new Set(["key", "team", "model", "state"]);

export function chargesOf(source: string, filter: Parameters): Source {
  const isLive = Object.entries(filter).every(([name, value]) => liveFilters.has(name) || (value ?? "") === "");
  const read = async (query: Parameters, signal?: AbortSignal) => {
    const all = { query: { limit: pageLength, ...filter, ...query }, ...(signal && { signal }) };
    const { charges, next, examined_to: examinedTo } = await ask<ChargeListJson>(`${source}/charges`, all);
    return { rows: charges.map(charged), older: next, examinedTo };
  };
  return {
    subject: `${source} ${JSON.stringify(filter)}`,
    everyMs: isLive ? everyMs : everyMsUnlessLive,
    newest: async (after, signal) => {
      if (!isLive) return { ...(await read({}, signal)), after: null };
      const query = { limit: pageLength, ...filter, after };
      const { charges, cursor } = await ask<LiveJson>(`${source}/requests/live`, { query, signal });
      const isFull = charges.length >= pageLength;
      // The live list contains only matches among the latest few thousand charges.
      if (after === null && !isFull) return { ...(await read({}, signal)), after: cursor };
      const older = after === null ? (charges.at(-1)?.request_id ?? null) : null;
      return { rows: charges.map(charged), older, after: cursor };
    },
    older: (cursor) => read({ cursor }),
    keeps: (row) => (filter["state"] ?? "") === "" || (row.kind === "charge" && row.charge.state === filter["state"]),
  };
}

export function refusalsOf(source: string, filter: Parameters): Source {
  const read = async (query: Parameters, signal?: AbortSignal) => {
    const all = { query: { limit: pageLength, ...filter, ...query }, ...(signal && { signal }) };
    const { refusals, next, examined_to: examinedTo } = await ask<RefusalListJson>(`${source}/refusals`, all);
    return { rows: refusals.map(refused), older: next, examinedTo };
  };
  return {
    subject: `${source} ${JSON.stringify(filter)}`,
    everyMs: everyMsUnlessLive,
    newest: async (_, signal) => ({ ...(await read({}, signal)), after: null }),
    older: (cursor) => read({ cursor }),
    keeps: () => true,
  };
}

/** Returns true if the server refused the filter, for example because it contains a name that does not exist. */
export function isRefusedFilter({ status }: Fault): boolean {
  return status === 400 || status === 404 || status === 422;
}

/** Charges or refusals of a feed, as far as they are loaded. */
interface Part extends Loaded {
  readonly fault: Fault | null;
  readonly reload: () => void;
  readonly loadOlder: () => Promise<void>;
}

const nothing: Loaded = { rows: null, older: null };

/**
 * Loads the newest rows of a list, and polls the list while `live` is true and the page is visible. Loads nothing if
 * `source` is null.
 */
function usePart(source: Source | null, live: boolean): Part {
  const { ended } = useUser();
  const [loaded, setLoaded] = useState<Loaded>(nothing);
  const [fault, setFault] = useState<Fault | null>(null);
  const [turn, setTurn] = useState(0);
  const subject = source?.subject ?? null;
  const latest = useRef(source);
  latest.current = source;
  const shown = useRef<string | null>(null);
  const after = useRef<string | null>(null);
  const isLoaded = useRef(false);

  useEffect(() => {
    if (shown.current !== subject) {
      shown.current = subject;
      after.current = null;
      isLoaded.current = false;
      setLoaded(nothing);
      setFault(null);
    }
    if (subject === null || (!live && isLoaded.current)) return undefined;
    return whileVisible(async (signal) => {
      const current = latest.current;
      if (current === null) return null;
      const outcome = await attempt(() => current.newest(after.current, signal));
      if (signal.aborted) return null;
      if (!outcome.ok && outcome.fault.signedOut) {
        ended();
        return null;
      }
      setFault(outcome.ok ? null : outcome.fault);
      if (outcome.ok) {
        const { after: next, ...page } = outcome.value;
        after.current = next;
        setLoaded((before) => (before.rows === null ? page : withNewer(before, page, current.keeps)));
        isLoaded.current = true;
      }
      if (!live && isLoaded.current) return null;
      if (!outcome.ok && isRefusedFilter(outcome.fault)) return null;
      return outcome.ok ? current.everyMs : everyMsUnlessLive;
    });
  }, [subject, live, turn, ended]);

  const { older } = loaded;
  const loadOlder = useCallback(async () => {
    const current = latest.current;
    if (current === null || older === null) return;
    const outcome = await attempt(() => current.older(older));
    if (shown.current !== current.subject) return;
    if (!outcome.ok) return outcome.fault.signedOut ? ended() : setFault(outcome.fault);
    const { rows, ...rest } = outcome.value;
    setLoaded((before) => ({ rows: [...(before.rows ?? []), ...rows], ...rest }));
  }, [subject, older, ended]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  return { ...loaded, fault, reload, loadOlder };
}

/**
 * Loads charges and refusals, and merges them. Leaves out a source that is null. `isSorted` is true if the address
 * states an order. Such a list is not polled, because new requests may belong anywhere in it.
 */
export function useFeed(charges: Source | null, refusals: Source | null, isLive: boolean, isSorted: boolean): Feed {
  const [loadingOlder, setLoadingOlder] = useState(false);
  const live = isLive && !isSorted;
  const [chargePart, refusalPart] = [usePart(charges, live), usePart(refusals, live)];
  const parts = [...(charges === null ? [] : [chargePart]), ...(refusals === null ? [] : [refusalPart])];
  const { rows, until } = merged(parts, isSorted);
  const loadOlder = () => {
    setLoadingOlder(true);
    const ending = parts.filter((part) => part.older !== null && endOf(part) >= until);
    void Promise.all(ending.map((part) => part.loadOlder())).then(() => setLoadingOlder(false));
  };
  return {
    data: parts.every((part) => part.rows !== null) ? rows : null,
    fault: chargePart.fault ?? refusalPart.fault,
    hasOlder: parts.some(({ older }) => older !== null),
    loadingOlder,
    loadOlder,
    examinedTo:
      parts
        .flatMap(({ examinedTo }) => examinedTo ?? [])
        .toSorted()
        .at(-1) ?? null,
    reload: () => parts.forEach((part) => part.reload()),
  };
}

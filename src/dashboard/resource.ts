import { createContext } from "preact";
import { useCallback, useContext, useEffect, useRef, useState } from "preact/hooks";
import { admin, ask, Fault, own, type Parameters } from "./api.ts";
import type { Session } from "./types.ts";

export type Who = Exclude<Session, { kind: "none" }>;

/** Signed-in user, and the function to call when the session has ended. */
export interface Visit {
  readonly who: Who;
  readonly ended: () => void;
}

export const VisitContext = createContext<Visit | null>(null);

export function useVisit(): Visit {
  const visit = useContext(VisitContext);
  if (visit === null) throw new Error("no one is signed in");
  return visit;
}

/** Returns the API path that the user may read: all data for an admin, only the key's own data for a key. */
export function useSource(): string {
  return useVisit().who.kind === "admin" ? admin : own;
}

/** Returns true if the user may make changes. */
export function useMayEdit(): boolean {
  const { who } = useVisit();
  return who.kind === "admin" && who.role === "editor";
}

/** Data from the server. A reload or a fault keeps the last value. */
export interface Resource<T> {
  readonly data: T | null;
  readonly fault: Fault | null;
  readonly reload: () => void;
}

/** Loads data now, when `subject` changes, and every `everyMs` milliseconds while the page is visible. */
export function useResource<T>(
  read: (signal: AbortSignal) => Promise<T>,
  subject: string,
  { everyMs }: { readonly everyMs?: number } = {},
): Resource<T> {
  const { ended } = useVisit();
  const [state, setState] = useState<{ subject: string; data: T | null; fault: Fault | null }>({
    subject,
    data: null,
    fault: null,
  });
  const [turn, setTurn] = useState(0);
  const latest = useRef(read);
  latest.current = read;
  useEffect(
    () =>
      whileVisible(async (signal) => {
        const outcome = await attempt(() => latest.current(signal));
        if (signal.aborted) return null;
        if (!outcome.ok && outcome.fault.signedOut) {
          ended();
          return null;
        }
        setState((before) => ({
          subject,
          data: outcome.ok ? outcome.value : before.subject === subject ? before.data : null,
          fault: outcome.ok ? null : outcome.fault,
        }));
        return everyMs ?? null;
      }),
    [subject, turn, everyMs, ended],
  );
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  return { data: state.data, fault: state.fault, reload };
}

/** Loads the answer of one path of this Farebox, with the timing of `useResource`. */
export function useAnswer<T>(path: string, everyMs?: number, query: Parameters = {}): Resource<T> {
  const subject = `${path} ${JSON.stringify(query)}`;
  return useResource<T>((signal) => ask(path, { query, signal }), subject, everyMs === undefined ? {} : { everyMs });
}

/**
 * Runs a step and repeats it after the milliseconds that it returns, only while the page is visible. Null ends the repetition,
 * as does the function that is returned.
 */
export function whileVisible(step: (signal: AbortSignal) => Promise<number | null>): () => void {
  const leaving = new AbortController();
  const { signal } = leaving;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const run = async () => {
    const nextMs = await step(signal);
    if (nextMs !== null && !signal.aborted) timer = setTimeout(whenSeen, nextMs);
  };
  const whenSeen = () => {
    if (!document.hidden) return void run();
    document.addEventListener("visibilitychange", () => void run(), { once: true, signal });
  };
  void run();
  return () => {
    leaving.abort();
    clearTimeout(timer);
  };
}

export type Outcome<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: Fault };

/** Returns the value or the Fault. Any other exception is a bug of this page and becomes a Fault. */
export async function attempt<T>(work: () => Promise<T>): Promise<Outcome<T>> {
  try {
    return { ok: true, value: await work() };
  } catch (error) {
    if (error instanceof Fault) return { ok: false, fault: error };
    return {
      ok: false,
      fault: new Fault(`Error in this page: ${String(error)}`, { status: 0, code: "page" }),
    };
  }
}

export interface Action {
  readonly busy: boolean;
  readonly fault: Fault | null;
  /** Runs the work and returns true on success. Returns false at once if earlier work still runs. */
  readonly run: (work: () => Promise<unknown>) => Promise<boolean>;
}

/** Returns a function that runs a change, with the state of that change. */
export function useAction(): Action {
  const { ended } = useVisit();
  const [state, setState] = useState<{ busy: boolean; fault: Fault | null }>({ busy: false, fault: null });
  const busy = useRef(false);
  const run = useCallback(
    async (work: () => Promise<unknown>) => {
      if (busy.current) return false;
      busy.current = true;
      setState({ busy: true, fault: null });
      const outcome = await attempt(work);
      busy.current = false;
      if (!outcome.ok && outcome.fault.signedOut) ended();
      setState({ busy: false, fault: outcome.ok ? null : outcome.fault });
      return outcome.ok;
    },
    [ended],
  );
  return { ...state, run };
}

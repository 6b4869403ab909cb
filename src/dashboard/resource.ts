import { createContext } from "preact";
import { useCallback, useContext, useEffect, useRef, useState } from "preact/hooks";
import { adminBase, ask, Fault, ownBase, type Parameters } from "./api.ts";
import type { DashboardSession } from "./types.ts";

export type Who = Exclude<DashboardSession, { kind: "none" }>;

/** Signed-in user, and the function to call when the session has ended. */
export interface SignedInUser {
  readonly who: Who;
  readonly ended: () => void;
}

export const UserContext = createContext<SignedInUser | null>(null);

export function useUser(): SignedInUser {
  const user = useContext(UserContext);
  if (user === null) throw new Error("no one is signed in");
  return user;
}

/** Returns the API path to read from: the admin API for an admin, or for a key the API that has only its own data. */
export function useSource(): string {
  return useUser().who.kind === "admin" ? adminBase : ownBase;
}

/** Returns true if the user may make changes. */
export function useMayEdit(): boolean {
  const { who } = useUser();
  return who.kind === "admin" && who.role === "editor";
}

/**
 * Data from the server. `data` is null until the first load succeeds. It keeps its last value during a reload and after
 * a failed reload. `fault` is null unless the latest load failed.
 */
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
  const { ended } = useUser();
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

/** Loads JSON from a path of this Farebox. Reloads it at the same times as `useResource`. */
export function useAnswer<T>(path: string, everyMs?: number, query: Parameters = {}): Resource<T> {
  const subject = `${path} ${JSON.stringify(query)}`;
  return useResource<T>((signal) => ask(path, { query, signal }), subject, everyMs === undefined ? {} : { everyMs });
}

/**
 * Runs a step at once, and repeats it while the page is visible. Each run returns the pause before the next one in
 * milliseconds, or null to stop. Returns a function that stops the repetition and aborts the current run.
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

type Outcome<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: Fault };

/**
 * Runs `work` and returns its value or its Fault. Any other exception is a bug in this page and also becomes a Fault.
 */
export async function attempt<T>(work: () => Promise<T>): Promise<Outcome<T>> {
  try {
    return { ok: true, value: await work() };
  } catch (error) {
    if (error instanceof Fault) return { ok: false, fault: error };
    return { ok: false, fault: new Fault(`Error in this page: ${String(error)}`, 0) };
  }
}

interface Action {
  readonly busy: boolean;
  readonly fault: Fault | null;
  /** Runs the work. Returns true if it succeeds, and false if it fails or if earlier work is still running. */
  readonly run: (work: () => Promise<unknown>) => Promise<boolean>;
}

/** Returns a function that runs a change, and the state of that change. */
export function useAction(): Action {
  const { ended } = useUser();
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

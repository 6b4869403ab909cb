import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ask, type Fault, type Parameters } from "../api.ts";
import { attempt, useVisit, whileVisible, type Resource } from "../resource.ts";
import type { Charge, ChargeList, Live } from "../types.ts";

/** Live list of requests, newest first. Older requests load on demand. */
export interface Feed extends Resource<readonly Charge[]> {
  readonly hasOlder: boolean;
  readonly loadingOlder: boolean;
  readonly loadOlder: () => void;
}

const pageLength = 50;
const everyMs = 1000;
const afterFaultMs = 5000;
/** Largest number of live requests to keep. Older requests that the user loaded raise it. */
const keptMax = 200;

interface Known {
  readonly charges: readonly Charge[] | null;
  readonly hasOlder: boolean;
}

const nothing: Known = { charges: null, hasOlder: false };

/** Polls `source` while `live` is true and the page is visible: every second, and 5 seconds after a fault. */
export function useFeed(source: string, filter: Parameters, live: boolean): Feed {
  const { ended } = useVisit();
  const [known, setKnown] = useState<Known>(nothing);
  const [fault, setFault] = useState<Fault | null>(null);
  const [loadingOlder, setLoadingOlder] = useState(false);
  const [turn, setTurn] = useState(0);
  const subject = JSON.stringify(filter);
  const cursor = useRef<string | null>(null);
  const shown = useRef("");

  useEffect(() => {
    if (shown.current !== subject) {
      shown.current = subject;
      cursor.current = null;
      setKnown(nothing);
    }
    const wanted = JSON.parse(subject) as Parameters;
    if (!live && cursor.current !== null) return undefined;
    return whileVisible(async (signal) => {
      const after = cursor.current;
      const query = { limit: pageLength, ...wanted, after };
      const outcome = await attempt(() => ask<Live>(`${source}/requests/live`, { query, signal }));
      if (signal.aborted) return null;
      if (!outcome.ok && outcome.fault.signedOut) {
        ended();
        return null;
      }
      setFault(outcome.ok ? null : outcome.fault);
      if (outcome.ok) {
        const { charges, cursor: next } = outcome.value;
        cursor.current = next;
        setKnown((before) =>
          after === null
            ? { charges, hasOlder: charges.length >= pageLength }
            : merged(before, charges, wanted["state"]),
        );
      }
      if (!live && cursor.current !== null) return null;
      return outcome.ok ? everyMs : afterFaultMs;
    });
  }, [source, subject, live, turn, ended]);

  const last = known.charges?.at(-1)?.request_id;
  const loadOlder = useCallback(() => {
    if (last === undefined) return;
    setLoadingOlder(true);
    const query = { limit: pageLength, ...(JSON.parse(subject) as Parameters), cursor: last };
    void attempt(() => ask<ChargeList>(`${source}/charges`, { query })).then((outcome) => {
      setLoadingOlder(false);
      if (shown.current !== subject) return;
      if (!outcome.ok) return outcome.fault.signedOut ? ended() : setFault(outcome.fault);
      const { charges, next } = outcome.value;
      setKnown((before) => ({ charges: [...(before.charges ?? []), ...charges], hasOlder: next !== null }));
    });
  }, [source, subject, last, ended]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  return { data: known.charges, hasOlder: known.hasOlder, fault, loadingOlder, loadOlder, reload };
}

/** Merges new charges into the list, newest first. Drops charges that no longer have the wanted state. */
function merged(before: Known, news: readonly Charge[], state: Parameters[string]): Known {
  if (news.length === 0 || before.charges === null) return before;
  const arrived = new Map(news.map((charge) => [charge.request_id, charge]));
  const updated = before.charges.map((charge) => {
    const newer = arrived.get(charge.request_id);
    arrived.delete(charge.request_id);
    return newer ?? charge;
  });
  const all = [...[...arrived.values()].toSorted((one, other) => (one.time < other.time ? 1 : -1)), ...updated];
  const kept = Math.max(keptMax, before.charges.length);
  const matching = typeof state === "string" && state !== "" ? all.filter((charge) => charge.state === state) : all;
  return { charges: matching.slice(0, kept), hasOlder: before.hasOlder || matching.length > kept };
}

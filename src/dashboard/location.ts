import { useEffect, useState } from "preact/hooks";

/** Where the reader is: a path below /dashboard without slashes at its ends ("requests", "" for the first view), and its parameters. */
export interface Place {
  readonly view: string;
  readonly query: URLSearchParams;
}

const base = "/dashboard";
const heard = new Set<() => void>();

function here(): Place {
  return {
    view: location.pathname.slice(base.length).replace(/^\/+|\/+$/g, ""),
    query: new URLSearchParams(location.search),
  };
}

export function addressOf(view: string, query: Readonly<Record<string, string | null | undefined>> = {}): string {
  const given = Object.entries(query).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string" && entry[1] !== "",
  );
  const search = given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
  return `${base}${view === "" ? "" : `/${view}`}${search}`;
}

/** Goes there; with `replace`, the way back does not pass here again. */
export function goTo(address: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  for (const listener of heard) listener();
}

/** Changes parameters of the view that is shown. */
export function setQuery(change: Readonly<Record<string, string | null>>): void {
  const { view, query } = here();
  goTo(addressOf(view, { ...Object.fromEntries(query), ...change }), { replace: true });
}

export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const listener = () => setPlace(here());
    heard.add(listener);
    addEventListener("popstate", listener);
    return () => {
      heard.delete(listener);
      removeEventListener("popstate", listener);
    };
  }, []);
  return place;
}

/** For links: a plain click stays on this page, any other is the browser's. */
export function follow(event: MouseEvent): void {
  const link = event.currentTarget as HTMLAnchorElement;
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  goTo(link.pathname + link.search);
}

import { useEffect, useState } from "preact/hooks";

/**
 * Current view and its parameters. The view is its path below /dashboard, without slashes at the ends; "" is the first view.
 */
export interface Route {
  readonly view: string;
  readonly query: URLSearchParams;
}

const base = "/dashboard";
const listeners = new Set<() => void>();

function here(): Route {
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

/** Navigates to an address. `replace` replaces the current entry of the history. */
export function goTo(address: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  for (const listener of listeners) listener();
}

/** Changes parameters of the current view. Null removes a parameter. */
export function setQuery(change: Readonly<Record<string, string | null>>): void {
  const { view, query } = here();
  goTo(addressOf(view, { ...Object.fromEntries(query), ...change }), { replace: true });
}

export function useRoute(): Route {
  const [route, setRoute] = useState(here);
  useEffect(() => {
    const listener = () => setRoute(here());
    listeners.add(listener);
    addEventListener("popstate", listener);
    return () => {
      listeners.delete(listener);
      removeEventListener("popstate", listener);
    };
  }, []);
  return route;
}

/** Follows a plain click on a link without loading the page. The browser handles other clicks. */
export function follow(event: MouseEvent): void {
  const link = event.currentTarget as HTMLAnchorElement;
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  goTo(link.pathname + link.search);
}

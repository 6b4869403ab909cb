import { useLayoutEffect, useState } from "preact/hooks";
import { queryOf, type Parameters } from "./api.ts";

/**
 * Parsed address of a page: the view, the name in the path (null if there is none), and the parameters.
 * `/dashboard/keys/alice?q=a` has the view "keys" and the name "alice". The overview has the view "".
 */
interface Route {
  readonly view: string;
  readonly name: string | null;
  readonly query: URLSearchParams;
}

/** Path of a view, or of one item of a view, such as ["keys", "alice"]. */
type ViewPath = string | readonly [view: string, name: string];

const base = "/dashboard";
const listeners = new Set<() => void>();

function currentRoute(): Route {
  const [view = "", ...rest] = location.pathname
    .slice(base.length)
    .replace(/^\/+|\/+$/g, "")
    .split("/");
  return {
    view,
    name: rest.length === 0 ? null : decoded(rest.join("/")),
    query: new URLSearchParams(location.search),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // The address contains a percent sign that begins no escape.
    return text;
  }
}

export function addressOf(path: ViewPath, query: Parameters = {}): string {
  const text = typeof path === "string" ? path : `${path[0]}/${pathOf(path[1])}`;
  return `${base}${text === "" ? "" : `/${text}`}${queryOf(query)}`;
}

/**
 * Encodes a name for a path, except for its slashes. Model ids may contain slashes, and the server refuses encoded
 * slashes.
 */
export function pathOf(name: string): string {
  return name.split("/").map(encodeURIComponent).join("/");
}

/**
 * State of an entry in the browser's history. `over` marks the entry of a drawer or dialog above a page. `earlier`
 * contains the cursors of the previous pages of a list.
 */
interface EntryState {
  readonly over?: "drawer" | "dialog";
  readonly earlier?: readonly string[];
}

export function entryState(): EntryState {
  return (history.state as EntryState | null) ?? {};
}

/**
 * Navigates to an address. `replace` replaces the current entry of the history, and keeps its state unless `state` is
 * given.
 */
export function goTo(
  address: string,
  { replace = false, state }: { replace?: boolean; state?: EntryState } = {},
): void {
  const before = location.pathname;
  if (replace) history.replaceState(state ?? history.state, "", address);
  else history.pushState(state ?? null, "", address);
  if (location.pathname !== before) scrollTo(0, 0);
  for (const listener of listeners) listener();
}

/** Returns the address of the current view with changed parameters. Null removes a parameter. */
export function addressWith(change: Parameters): string {
  return addressOf(currentPath(), { ...Object.fromEntries(currentRoute().query), ...change });
}

function currentPath(): ViewPath {
  const { view, name } = currentRoute();
  return name === null ? view : [view, name];
}

/** Changes parameters of the current view without a new entry in the history. */
export function setQuery(change: Parameters): void {
  goTo(addressWith(change), { replace: true });
}

/** Opens a drawer by changing parameters of the address. The browser's Back closes the drawer. */
export function openDrawer(change: Parameters): void {
  goTo(addressWith(change), { replace: entryState().over === "drawer", state: { ...entryState(), over: "drawer" } });
}

/**
 * Closes a drawer. Goes back in the history if `openDrawer` opened it. Otherwise the user opened a link to it, and
 * `change` removes it from the address.
 */
export function closeDrawer(change: Parameters): void {
  if (entryState().over === "drawer") history.back();
  else setQuery(change);
}

let dialogs = 0;

/**
 * Adds an entry to the history for a dialog, so that the browser's Back closes the dialog. Returns the function to call
 * when the dialog closes. A dialog that replaces another one reuses its entry.
 */
export function enterDialog(close: () => void): () => void {
  dialogs++;
  if (entryState().over !== "dialog") history.pushState({ ...entryState(), over: "dialog" }, "", location.href);
  const listener = () => entryState().over !== "dialog" && close();
  addEventListener("popstate", listener);
  return () => {
    dialogs--;
    removeEventListener("popstate", listener);
    setTimeout(() => dialogs === 0 && entryState().over === "dialog" && history.back());
  };
}

export function useRoute(): Route {
  const [route, setRoute] = useState(currentRoute);
  // An effect that runs after the paint would miss an earlier change of the address.
  useLayoutEffect(() => {
    const listener = () => setRoute(currentRoute());
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

/** Returns `text` if it is one of the known values, and `otherwise` if not. */
export function oneOf<T extends string>(known: readonly T[], text: string | null, otherwise: T): T {
  return known.find((each) => each === text) ?? otherwise;
}

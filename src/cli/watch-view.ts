/** Orders of the list of requests. The key `s` selects the next one. */
const watchOrders = ["time", "cost", "duration", "tokens"] as const;
export type WatchOrder = (typeof watchOrders)[number];

/** State of the screen that the user changes with keys. */
export interface WatchView {
  readonly order: WatchOrder;
  /** Text that a shown request must contain; "" for all requests. */
  readonly filter: string;
  /** True while the user types the filter. */
  readonly isTyping: boolean;
  readonly isPaused: boolean;
  readonly hasEnded: boolean;
}

export const firstView: WatchView = { order: "time", filter: "", isTyping: false, isPaused: false, hasEnded: false };

/** Sequences that a terminal sends for arrows and other keys without a character. */
// oxlint-disable-next-line no-control-regex -- it must match the escape character
const sequences = /\x1b[[O][0-9;]*[A-Za-z~]/g;

/** Returns the view after the user has typed these characters. */
export function viewAfter(view: WatchView, typed: string): WatchView {
  return [...typed.replaceAll(sequences, "")].reduce(afterKey, view);
}

function afterKey(view: WatchView, key: string): WatchView {
  return view.isTyping ? afterFilterKey(view, key) : afterCommandKey(view, key);
}

function afterFilterKey(view: WatchView, key: string): WatchView {
  if (key === "\r" || key === "\n") return { ...view, isTyping: false };
  if (key === "\x1b") return { ...view, isTyping: false, filter: "" };
  if (key === "\x7f" || key === "\b") return { ...view, filter: view.filter.slice(0, -1) };
  return key < " " || view.filter.length >= 100 ? view : { ...view, filter: view.filter + key };
}

function afterCommandKey(view: WatchView, key: string): WatchView {
  switch (key.toLowerCase()) {
    case "q":
      return { ...view, hasEnded: true };
    case "s":
      return { ...view, order: watchOrders[(watchOrders.indexOf(view.order) + 1) % watchOrders.length] ?? "time" };
    case "/":
      return { ...view, isTyping: true };
    case "\x1b":
      return { ...view, filter: "" };
    case "p":
    case " ":
      return { ...view, isPaused: !view.isPaused };
    default:
      return view;
  }
}

import { useEffect, useState } from "preact/hooks";
import { div, p, type View } from "./dom.ts";
import { icon } from "./icons.ts";

const heard = new Set<(text: string) => void>();
const shownMs = 4000;

/** Confirms a change in a message that disappears after a few seconds. Screen readers read it. */
export function say(text: string): void {
  for (const listener of heard) listener(text);
}

export function Toasts(): View {
  const [said, setSaid] = useState<{ text: string; turn: number } | null>(null);
  useEffect(() => {
    const listener = (text: string) => setSaid((before) => ({ text, turn: (before?.turn ?? 0) + 1 }));
    heard.add(listener);
    return () => void heard.delete(listener);
  }, []);
  useEffect(() => {
    if (said === null) return undefined;
    const timer = setTimeout(() => setSaid(null), shownMs);
    return () => clearTimeout(timer);
  }, [said]);
  return div(
    { class: "toasts", role: "status" },
    said !== null && p({ key: said.turn, class: "toast" }, icon("done"), said.text),
  );
}

import { useEffect, useState } from "preact/hooks";
import { div, p, type View } from "./dom.ts";
import { icon } from "./icons.ts";

const listeners = new Set<(text: string) => void>();
/** Time for which a message is shown, in milliseconds. */
const shownMs = 4000;

/** Shows a message that disappears after a few seconds. Screen readers read it. */
export function showToast(text: string): void {
  for (const listener of listeners) listener(text);
}

/** Shows the latest message of `showToast`, until its time is over. */
export function Toasts(): View {
  const [toast, setToast] = useState<{ text: string; number: number } | null>(null);
  useEffect(() => {
    const listener = (text: string) => setToast((before) => ({ text, number: (before?.number ?? 0) + 1 }));
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  useEffect(() => {
    if (toast === null) return undefined;
    const timer = setTimeout(() => setToast(null), shownMs);
    return () => clearTimeout(timer);
  }, [toast]);
  return div(
    { class: "toasts", role: "status" },
    toast !== null && p({ key: toast.number, class: "toast" }, icon("done"), toast.text),
  );
}

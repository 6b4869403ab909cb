import { useEffect, useState } from "preact/hooks";

export type Theme = "auto" | "light" | "dark";
const place = "farebox.theme";

function remembered(): Theme {
  try {
    const found = localStorage.getItem(place);
    return found === "light" || found === "dark" ? found : "auto";
  } catch {
    // A browser that forbids storage.
    return "auto";
  }
}

let theme = remembered();
const heard = new Set<() => void>();
const system = matchMedia("(prefers-color-scheme: dark)");

/** Shows what was chosen, now and when the system's own choice changes. */
export function applyTheme(): void {
  system.addEventListener("change", apply);
  apply();
}

function apply(): void {
  if (theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  for (const listener of heard) listener();
}

export function setTheme(next: Theme): void {
  theme = next;
  try {
    if (next === "auto") localStorage.removeItem(place);
    else localStorage.setItem(place, next);
  } catch {
    // It holds until the page is left.
  }
  apply();
}

/** What the reader chose, and whether it comes out dark; whoever uses it is drawn anew at a change. */
export function useTheme(): { readonly theme: Theme; readonly dark: boolean } {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((drawn) => drawn + 1);
    heard.add(listener);
    return () => void heard.delete(listener);
  }, []);
  return { theme, dark: theme === "auto" ? system.matches : theme === "dark" };
}

/** What a custom property of the style sheet comes to now, as a colour that a canvas takes. */
export function colour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

import { useEffect, useState } from "preact/hooks";

export type Theme = "auto" | "light" | "dark";
const storageKey = "farebox.theme";

function storedTheme(): Theme {
  try {
    const stored = localStorage.getItem(storageKey);
    return stored === "light" || stored === "dark" ? stored : "auto";
  } catch {
    // The browser does not permit storage.
    return "auto";
  }
}

let theme = storedTheme();
const listeners = new Set<() => void>();
const system = matchMedia("(prefers-color-scheme: dark)");

/** Applies the chosen theme, now and when the system's theme changes. */
export function applyTheme(): void {
  system.addEventListener("change", apply);
  apply();
}

function apply(): void {
  if (theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  for (const listener of listeners) listener();
}

export function setTheme(next: Theme): void {
  theme = next;
  try {
    if (next === "auto") localStorage.removeItem(storageKey);
    else localStorage.setItem(storageKey, next);
  } catch {
    // Without storage, the choice applies until the page is closed.
  }
  apply();
}

/** Returns the theme and whether it is dark. Renders the component again when the theme changes. */
export function useTheme(): { readonly theme: Theme; readonly dark: boolean } {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((drawn) => drawn + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return { theme, dark: theme === "auto" ? system.matches : theme === "dark" };
}

/** Resolves a custom property of the style sheet to a color that a canvas accepts. */
export function color(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

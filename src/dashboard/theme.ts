import { useEffect, useState } from "preact/hooks";

export type Theme = "auto" | "light" | "dark";
const place = "farebox.theme";

function remembered(): Theme {
  try {
    const found = localStorage.getItem(place);
    return found === "light" || found === "dark" ? found : "auto";
  } catch {
    // The browser does not permit storage.
    return "auto";
  }
}

let theme = remembered();
const heard = new Set<() => void>();
const system = matchMedia("(prefers-color-scheme: dark)");

/** Applies the chosen theme, now and when the system's theme changes. */
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
    // Without storage, the choice applies until the page is closed.
  }
  apply();
}

/** Returns the theme and whether it is dark. Renders the component again when the theme changes. */
export function useTheme(): { readonly theme: Theme; readonly dark: boolean } {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((drawn) => drawn + 1);
    heard.add(listener);
    return () => void heard.delete(listener);
  }, []);
  return { theme, dark: theme === "auto" ? system.matches : theme === "dark" };
}

/** Resolves a custom property of the style sheet to a colour that a canvas accepts. */
export function colour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

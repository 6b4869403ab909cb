import { h, type ComponentType } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { currentSession, signOut, type Fault } from "./api.ts";
import { a, div, footer, h1, header, li, main, nav, p, span, ul, type View } from "./dom.ts";
import { brandMark, icon, type IconName } from "./icons.ts";
import { addressOf, follow, useRoute } from "./location.ts";
import { attempt, VisitContext, type Who } from "./resource.ts";
import { setTheme, useTheme, type Theme } from "./theme.ts";
import { Toasts } from "./toasts.ts";
import { failure, iconButton, link } from "./ui.ts";
import { Health } from "./views/health.ts";
import { Keys } from "./views/keys.ts";
import { Overview } from "./views/overview.ts";
import { MyBudgets } from "./views/my-budgets.ts";
import { Prices } from "./views/prices.ts";
import { Requests } from "./views/requests.ts";
import { SignIn } from "./views/sign-in.ts";

interface Section {
  readonly view: string;
  readonly name: string;
  readonly icon: IconName;
  readonly content: ComponentType;
}

const overview: Section = { view: "", name: "Overview", icon: "overview", content: Overview };
const requests: Section = { view: "requests", name: "Requests", icon: "requests", content: Requests };

const sections: Record<Who["kind"], readonly Section[]> = {
  admin: [
    overview,
    requests,
    { view: "keys", name: "Keys & budgets", icon: "keys", content: Keys },
    { view: "prices", name: "Prices", icon: "prices", content: Prices },
    { view: "health", name: "Health", icon: "health", content: Health },
  ],
  key: [overview, requests, { view: "standing", name: "My budgets", icon: "standing", content: MyBudgets }],
};

type Visit =
  | { readonly is: "unknown"; readonly fault: Fault | null }
  | { readonly is: "signed-out"; readonly notice: string | null }
  | { readonly is: "signed-in"; readonly who: Who };

export function App(): View {
  const [visit, setVisit] = useState<Visit>({ is: "unknown", fault: null });
  const ask = useCallback(async () => {
    const outcome = await attempt(currentSession);
    if (!outcome.ok) setVisit({ is: "unknown", fault: outcome.fault });
    else
      setVisit(
        outcome.value.kind === "none" ? { is: "signed-out", notice: null } : { is: "signed-in", who: outcome.value },
      );
  }, []);
  useEffect(() => void ask(), [ask]);
  const ended = useCallback(
    () => setVisit({ is: "signed-out", notice: "Your session has ended. Sign in to continue." }),
    [],
  );
  const leave = useCallback(async () => {
    await attempt(signOut);
    setVisit({ is: "signed-out", notice: "You are signed out." });
  }, []);
  if (visit.is === "signed-in") return h(Shell, { who: visit.who, ended, leave: () => void leave() });
  if (visit.is === "signed-out")
    return h(SignIn, { notice: visit.notice, onSignedIn: (who: Who) => setVisit({ is: "signed-in", who }) });
  return main({ class: "sign-in" }, visit.fault !== null && failure(visit.fault, () => void ask()));
}

function Shell({
  who,
  ended,
  leave,
}: {
  readonly who: Who;
  readonly ended: () => void;
  readonly leave: () => void;
}): View {
  const route = useRoute();
  const mine = sections[who.kind];
  const current = mine.find(({ view }) => view === route.view);
  const visit = useMemo(() => ({ who, ended }), [who, ended]);
  const content = useRef<HTMLElement>(null);
  const arrived = useRef(false);
  useEffect(() => {
    // Screen readers continue at a new view, but read the first view from the start of the page.
    if (arrived.current) content.current?.focus();
    arrived.current = true;
  }, [current]);
  useEffect(() => {
    document.title = `${current?.name ?? "Not found"} · Farebox`;
  }, [current]);
  useEnd(who.expires_at, ended);
  return h(
    VisitContext.Provider,
    { value: visit },
    div(
      { class: "shell" },
      a({ class: "skip", href: "#content" }, "Skip to the content"),
      header(
        { class: "side" },
        div({ class: "brand" }, brandMark(), span(null, "Farebox")),
        nav(
          { "aria-label": "Views" },
          ul(
            { class: "views" },
            mine.map((each) =>
              li(
                { key: each.view },
                a(
                  { href: addressOf(each.view), onClick: follow, ...(each === current && { "aria-current": "page" }) },
                  icon(each.icon),
                  span(null, each.name),
                ),
              ),
            ),
          ),
        ),
        account(who, leave),
      ),
      main(
        { id: "content", tabIndex: -1, ref: content },
        current === undefined ? notFound() : h(current.content, { key: current.view }),
      ),
      h(Toasts, null),
    ),
  );
}

function notFound(): View {
  return div({ class: "view" }, h1(null, "Page not found"), p(null, link(addressOf(""), "Go to the overview")));
}

/** Signs the user out when the session expires, instead of at the next request. */
function useEnd(expiresAt: string, ended: () => void): void {
  useEffect(() => {
    const leftMs = Date.parse(expiresAt) - Date.now();
    const timer = setTimeout(ended, Math.max(Math.min(leftMs, 2 ** 31 - 1), 0));
    return () => clearTimeout(timer);
  }, [expiresAt, ended]);
}

function account(who: Who, leave: () => void): View {
  const what = who.kind === "key" ? "internal key" : who.role;
  return footer(
    { class: "account" },
    div({ class: "who" }, span({ class: "who-name" }, who.name), span({ class: "muted" }, what)),
    h(ThemeSwitch, null),
    iconButton("signOut", "Sign out", leave),
  );
}

const nextTheme: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
const themeNames: Record<Theme, string> = { auto: "as the system", light: "light", dark: "dark" };

function ThemeSwitch(): View {
  const { theme } = useTheme();
  const what = `Colours: ${themeNames[theme]}. Change to ${themeNames[nextTheme[theme]]}.`;
  return iconButton(theme, what, () => setTheme(nextTheme[theme]));
}

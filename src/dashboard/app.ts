import { Fragment, h, type ComponentType } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { currentSession, signIn, signOut, type Fault } from "./api.ts";
import { a, button, classes, div, h1, header, li, main, nav, p, span, ul, type View } from "./dom.ts";
import { brandMark, icon, type IconName } from "./icons.ts";
import { addressOf, follow, goTo, useRoute } from "./location.ts";
import { attempt, UserContext, type SignedInUser, type Who } from "./resource.ts";
import { SecretDialog } from "./secret.ts";
import { setTheme, useTheme, type Theme } from "./theme.ts";
import { Toasts } from "./toasts.ts";
import { failure, iconButton, link, muted } from "./ui.ts";
import { Admins } from "./views/admins.ts";
import { Audit } from "./views/audit.ts";
import { Budgets } from "./views/budgets.ts";
import { Health } from "./views/health.ts";
import { KeyPage } from "./views/key.ts";
import { Keys } from "./views/keys.ts";
import { ModelPage, Models } from "./views/models.ts";
import { Overview } from "./views/overview.ts";
import { MyBudgets } from "./views/my-budgets.ts";
import { Requests } from "./views/requests.ts";
import { SignIn } from "./views/sign-in.ts";
import { TeamPage, Teams } from "./views/teams.ts";

interface Section {
  readonly view: string;
  readonly name: string;
  readonly icon: IconName;
  readonly content: ComponentType;
  /**
   * Page of one item of the view, such as one key. The path contains the item's name. Absent if the view has no such
   * pages.
   */
  readonly page?: ComponentType<{ readonly name: string }>;
}

const overview: Section = { view: "", name: "Overview", icon: "overview", content: Overview };
const requests: Section = { view: "requests", name: "Requests", icon: "requests", content: Requests };

const sections: Record<Who["kind"], readonly Section[]> = {
  admin: [
    overview,
    requests,
    { view: "keys", name: "Keys", icon: "keys", content: Keys, page: KeyPage },
    { view: "teams", name: "Teams", icon: "teams", content: Teams, page: TeamPage },
    { view: "budgets", name: "Budgets", icon: "standing", content: Budgets },
    { view: "models", name: "Models", icon: "prices", content: Models, page: ModelPage },
    { view: "health", name: "Health", icon: "health", content: Health },
    { view: "audit", name: "Audit", icon: "audit", content: Audit },
    { view: "admins", name: "Admins", icon: "admins", content: Admins },
  ],
  key: [overview, requests, { view: "standing", name: "My budgets", icon: "standing", content: MyBudgets }],
};

type SessionState =
  | { readonly is: "unknown"; readonly fault: Fault | null }
  | { readonly is: "signed-out"; readonly notice: string | null }
  | { readonly is: "signed-in"; readonly who: Who };

export function App(): View {
  const [session, setSession] = useState<SessionState>({ is: "unknown", fault: null });
  const ask = useCallback(async () => {
    const code = takeSignInCode();
    if (code !== null) {
      const outcome = await attempt(() => signIn(code));
      if (outcome.ok && outcome.value.kind !== "none") return setSession({ is: "signed-in", who: outcome.value });
      return setSession({
        is: "signed-out",
        notice: "This sign-in link was used or has expired. Sign in with a token.",
      });
    }
    const outcome = await attempt(currentSession);
    if (!outcome.ok) setSession({ is: "unknown", fault: outcome.fault });
    else
      setSession(
        outcome.value.kind === "none" ? { is: "signed-out", notice: null } : { is: "signed-in", who: outcome.value },
      );
  }, []);
  useEffect(() => void ask(), [ask]);
  const ended = useCallback(
    () => setSession({ is: "signed-out", notice: "Your session has ended. Sign in to continue." }),
    [],
  );
  const leave = useCallback(async () => {
    await attempt(signOut);
    setSession({ is: "signed-out", notice: "You are signed out." });
  }, []);
  return h(Fragment, null, content(), h(SecretDialog, null));

  function content(): View {
    if (session.is === "signed-in") return h(Shell, { who: session.who, ended, leave: () => void leave() });
    if (session.is === "signed-out")
      return h(SignIn, { notice: session.notice, onSignedIn: (who: Who) => setSession({ is: "signed-in", who }) });
    return main({ class: "sign-in" }, session.fault !== null && failure(session.fault, () => void ask()));
  }
}

/**
 * Returns the code of a sign-in link, and removes the code from the address and the history. Returns null if the
 * address has no code.
 */
function takeSignInCode(): string | null {
  const code = /^#sign-in=(fb-once-[\w-]+)$/.exec(location.hash)?.[1];
  if (code === undefined) return null;
  history.replaceState(history.state, "", location.pathname + location.search);
  return code;
}

function Shell({ who, ended, leave }: SignedInUser & { readonly leave: () => void }): View {
  const route = useRoute();
  const mine = sections[who.kind];
  const current = mine.find(({ view, page }) => view === route.view && (route.name === null || page !== undefined));
  const title = current === undefined ? "Not found" : (route.name ?? current.name);
  const user = useMemo(() => ({ who, ended }), [who, ended]);
  const content = useRef<HTMLElement>(null);
  const arrived = useRef(false);
  // An effect that runs after the paint could take the focus from a field that the user has already selected.
  useLayoutEffect(() => {
    // Screen readers continue at the focused element. They should read the first view from the start of the page.
    if (arrived.current) content.current?.focus();
    arrived.current = true;
  }, [current, route.name]);
  /**
   * Moves the focus to the content. A fragment in the address would add an entry to the history, so that Back would not
   * leave the view.
   */
  const skip = (event: MouseEvent) => {
    event.preventDefault();
    content.current?.focus();
  };
  useEffect(() => {
    if (route.view !== "prices") return;
    const model = route.query.get("model");
    goTo(addressOf(model === null ? "models" : ["models", model]), { replace: true });
  }, [route]);
  useEffect(() => {
    document.title = `${title} · Farebox`;
  }, [title]);
  useSessionEnd(who.expires_at, ended);
  return h(
    UserContext.Provider,
    { value: user },
    div(
      { class: "shell" },
      a({ class: "skip", href: "#content", onClick: skip }, "Skip to the content"),
      header(
        { class: "side" },
        div({ class: "brand" }, brandMark(), span(null, "Farebox")),
        h(Views, { sections: mine, current }),
        account(who, leave),
      ),
      main(
        { id: "content", tabIndex: -1, ref: content },
        current === undefined ? notFound() : shown(current, route.name),
      ),
      h(Toasts, null),
    ),
  );
}

/**
 * Largest number of tabs on a phone. If there are more views, the last tab is a button that shows the remaining views.
 */
const tabsMax = 5;

function Views({
  sections: all,
  current,
}: {
  readonly sections: readonly Section[];
  readonly current: Section | undefined;
}): View {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [current]);
  const isUnderMore = current !== undefined && all.indexOf(current) >= tabsMax - 1;
  return nav(
    { "aria-label": "Views" },
    ul(
      { class: classes("views", all.length > tabsMax && "many", isOpen && "open") },
      all.map((each) =>
        li(
          { key: each.view },
          a(
            { href: addressOf(each.view), onClick: follow, ...(each === current && { "aria-current": "page" }) },
            icon(each.icon),
            span(null, each.name),
          ),
        ),
      ),
      all.length > tabsMax &&
        li(
          { key: "more", class: "more-views" },
          button(
            {
              type: "button",
              class: isUnderMore ? "current" : "",
              "aria-expanded": isOpen,
              onClick: () => setOpen(!isOpen),
            },
            icon("more"),
            span(null, isOpen ? "Fewer" : "More"),
          ),
        ),
    ),
  );
}

function shown({ view, content, page }: Section, name: string | null): View {
  return page === undefined || name === null ? h(content, { key: view }) : h(page, { key: `${view} ${name}`, name });
}

function notFound(): View {
  return div({ class: "view" }, h1(null, "Page not found"), p(null, link(addressOf(""), "Go to the overview")));
}

/** Calls `ended` when the session expires, without waiting for the next request to fail. */
function useSessionEnd(expiresAt: string, ended: () => void): void {
  useEffect(() => {
    const leftMs = Date.parse(expiresAt) - Date.now();
    const timer = setTimeout(ended, Math.max(Math.min(leftMs, 2 ** 31 - 1), 0));
    return () => clearTimeout(timer);
  }, [expiresAt, ended]);
}

function account(who: Who, leave: () => void): View {
  const what = who.kind === "key" ? "internal key" : who.role;
  return div(
    { class: "account" },
    div({ class: "who" }, span({ class: "who-name" }, who.name), muted(what)),
    h(ThemeSwitch, null),
    iconButton("signOut", "Sign out", leave),
  );
}

const nextTheme: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
const themeNames: Record<Theme, string> = { auto: "system", light: "light", dark: "dark" };

function ThemeSwitch(): View {
  const { theme } = useTheme();
  const what = `Theme: ${themeNames[theme]}. Switch to ${themeNames[nextTheme[theme]]}.`;
  return iconButton(theme, what, () => setTheme(nextTheme[theme]));
}

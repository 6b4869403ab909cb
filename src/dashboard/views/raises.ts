import { h } from "preact";
import { adminBase, ask, ownBase } from "../api.ts";
import { div, li, p, span, strong, ul, type Children, type View } from "../dom.ts";
import { ago, count, exactMoney, instant } from "../format.ts";
import { icon } from "../icons.ts";
import { addressOf } from "../location.ts";
import { useAnswer, useMayEdit, type Resource } from "../resource.ts";
import type { AdminRaiseRequestJson, MeJson, RaiseRequestJson, RaiseRequestListJson, StandingJson } from "../types.ts";
import { isOfSession, isWindowOf } from "../scopes.ts";
import { actionButton, amount, badge, Card, failure, iconButton, instantOf, link, timeAgo, type Tone } from "../ui.ts";
import { confirmation, field, textOf, usdField, useDialogs, type Form, type Show } from "./forms.ts";
import { budgetName, keyLink, plainSubject, subjectOf, upperFirst } from "./labels.ts";

function useOpenRaises(): Resource<RaiseRequestListJson> {
  return useAnswer<RaiseRequestListJson>(`${adminBase}/raises`, 15_000, { open: "true" });
}

/**
 * Lists the open requests for raises, with buttons for editors to approve or deny them. Shows nothing if there are
 * none.
 */
export function OpenRaises({ onDecided }: { readonly onDecided: () => void }): View | null {
  const { data, fault, reload } = useOpenRaises();
  const mayEdit = useMayEdit();
  const { show, dialog } = useDialogs(() => {
    reload();
    onDecided();
  });
  if (data === null) return fault && failure(fault, reload);
  return div(
    { class: "raises-card" },
    data.raises.length > 0 &&
      h(
        Card,
        { title: "Requests for raises" },
        ul(
          { class: "raises", "aria-label": "Requests for raises" },
          data.raises.map((request) => requestRow(request, mayEdit && show)),
        ),
      ),
    dialog,
  );
}

function requestRow(request: AdminRaiseRequestJson, show: Show | false): View {
  const { id, key, why, created_at: created, lapses_at: lapses } = request;
  return li(
    { key: id },
    div(
      null,
      p(null, strong(null, key === null ? "A key" : keyLink(key)), " asks for ", wanted(request)),
      p(null, `“${why}”`),
      p(
        { class: "hint" },
        spendersText(request),
        " ",
        "Asked ",
        timeAgo(created),
        lapses !== null && [", ", "lapses ", timeAgo(lapses)],
        ".",
      ),
    ),
    show !== false &&
      div(
        { class: "actions" },
        actionButton(() => show(approve(request)), "Approve", { class: "button small" }),
        actionButton(() => show(deny(request)), "Deny", { class: "button small" }),
      ),
  );
}

/** Describes what a request asks for, such as "$5.00 more in the daily budget of key alice". */
function wanted({ amount_usd: usd, subject, ...budget }: AdminRaiseRequestJson): Children {
  return [amount(usd), ` more in the ${budgetName(budget)}`, windowLink(subject)];
}

/** Names the window of an each-… budget, such as ", for alice". */
function windowLink(subject: string | null): Children {
  return subject !== null && [", for ", subjectOf({ key: keyIn(subject), subject })];
}

/** Returns the name of the key if a subject consists only of a key; null for other subjects. */
function keyIn(subject: string): string | null {
  return subject.startsWith("key=") && !subject.includes(" ") ? subject.slice("key=".length) : null;
}

/** States which live keys may spend a raise. */
function spendersText({ key, spenders, spender_names: names }: AdminRaiseRequestJson): string {
  if (spenders === 0) return "No live key may spend it.";
  if (spenders === 1) return `Only the key ${names[0] ?? ""} may spend it.`;
  const others = names.filter((name) => name !== key);
  const more = spenders - names.length;
  const includesRequester = others.length < names.length;
  return `${includesRequester ? "Other keys may spend it too" : "These keys may spend it"}: ${others.join(", ")}${more > 0 ? ` and ${count(more)} more` : ""}.`;
}

/**
 * Shows the number of open requests for raises on the overview, with a link to them. Shows nothing if there are none.
 */
export function OpenRaisesHint(): View | null {
  const { data } = useOpenRaises();
  const open = data?.raises.length ?? 0;
  if (open === 0) return null;
  const text = open === 1 ? "1 raise request is open." : `${count(open)} raise requests are open.`;
  return div(
    { class: "notice" },
    icon("standing"),
    p(null, text, " ", link(addressOf("budgets"), "Review the requests")),
  );
}

/** Shows the field for the amount of a raise. */
function amountField(defaultValue = ""): View {
  return usdField("Amount (USD)", { name: "amount", placeholder: "5.00", defaultValue });
}

/** Shows the field for the end of a raise. */
function untilField(): View {
  return field("Until", {
    name: "until",
    placeholder: "the end of the window",
    hint: "A duration such as 3h, or a time such as 2026-11-20T18:00:00Z.",
  });
}

function untilIn(form: FormData): { readonly until?: string } {
  const until = textOf(form, "until");
  return until === "" ? {} : { until };
}

function approve(request: AdminRaiseRequestJson): Form {
  return {
    title: "Approve a raise",
    verb: "Approve",
    fields: [
      p({ class: "hint" }, `${request.key ?? "A key"} asks for `, wanted(request), "."),
      amountField(request.amount_usd),
      request.period !== "total" && untilField(),
    ],
    save: (form) => {
      const body = { amount_usd: textOf(form, "amount"), ...untilIn(form) };
      return ask(`${adminBase}/raises/${request.id}/approve`, { method: "POST", body });
    },
    done: raisedMessage(request),
  };
}

function raisedMessage(budget: Pick<StandingJson, "scope" | "period">): (form: FormData) => string {
  return (form) => `The ${budgetName(budget)} is raised by ${exactMoney(textOf(form, "amount"))}.`;
}

function deny(request: AdminRaiseRequestJson): Form {
  return confirmation([`${request.key ?? "A key"} asks for `, wanted(request), "."], {
    title: "Deny this request?",
    verb: "Deny",
    save: () => ask(`${adminBase}/raises/${request.id}/deny`, { method: "POST" }),
    done: "The request is denied.",
  });
}

/**
 * States how much the raises add to a budget and until when, such as "raised by $2.50 until Nov 23, 6:00 PM and $1.00
 * until Nov 24, 12:00 AM". Returns null without a raise.
 */
export function raisedText({ raises }: Pick<StandingJson, "raises">): View | null {
  if (raises.length === 0) return null;
  const parts = raises.map(({ amount_usd: usd, until }, index) => [
    index > 0 && (index < raises.length - 1 ? ", " : " and "),
    amount(usd),
    until !== null && [" until ", instantOf(until, "moment")],
  ]);
  return span(null, "raised by ", parts);
}

/** Window of a budget, or a budget that has one window. */
type RaisedWindow = Pick<StandingJson, "scope" | "period"> & { readonly subject?: string | null };

/** Returns the form that adds an amount to one window of a budget. */
function raise({ scope, period, subject = null }: RaisedWindow): Form {
  return {
    title: "Raise a budget",
    verb: "Raise",
    fields: [
      p({ class: "hint" }, upperFirst(budgetName({ scope, period })), windowLink(subject)),
      amountField(),
      period !== "total" && untilField(),
      whyField(),
    ],
    save: (form) => {
      const body = { ...raiseIn(form, { scope, period, subject }), ...untilIn(form) };
      return ask(`${adminBase}/budgets/raises`, { method: "POST", body });
    },
    done: raisedMessage({ scope, period }),
  };
}

/** Returns the request body for a raise of one window: the window, and the amount and reason from the form. */
function raiseIn(form: FormData, { scope, period, subject }: RaisedWindow) {
  const given = { amount_usd: textOf(form, "amount"), why: textOf(form, "why") };
  return { scope, period, ...(subject != null && { subject }), ...given };
}

const whyMax = 256;

/** Shows the field for the reason of a raise. */
function whyField(): View {
  return field("Reason", { name: "why", required: true, maxLength: whyMax, spellcheck: true });
}

/**
 * Shows the button that opens the form for a raise of one window. Returns false for a session's budget, which cannot be
 * raised.
 */
export function raiseButton(window: RaisedWindow, show: Show): View | false {
  const name = window.subject == null ? `the ${budgetName(window)}` : plainSubject(window.subject);
  return !isOfSession(window.scope) && iconButton("up", `Raise ${name}`, () => show(raise(window)));
}

/**
 * Lets the user of a key ask for raises of the budgets that refuse its requests, and lists its requests for raises.
 * Shows nothing if there is neither.
 */
export function OwnRaises({ me, onAsked }: { readonly me: MeJson; readonly onAsked: () => void }): View | null {
  const { show, dialog } = useDialogs(onAsked);
  const { blocked, raise_requests: requests } = me;
  const mayAsk = blocked.filter(
    (window) => me.key !== null && !requests.filter(({ state }) => state === "open").some(isWindowOf(window)),
  );
  if (mayAsk.length === 0 && requests.length === 0) return dialog;
  return h(
    Card,
    { title: "Raises" },
    ul(
      { class: "raises", "aria-label": "Raises" },
      mayAsk.map((window) =>
        li(
          { key: `${window.scope} ${window.period} ${window.subject}` },
          p(null, `${upperFirst(budgetName(window))}${windowText(window.subject)} `, badge("bad", "refusing")),
          actionButton(() => show(askForRaise(window)), "Ask for a raise", { class: "button small" }),
        ),
      ),
      requests.map((request) =>
        li(
          { key: request.id },
          div(
            null,
            p(null, amount(request.amount_usd), ` more in the ${budgetName(request)}${windowText(request.subject)}`),
            p(null, `“${request.why}”`),
            p({ class: "hint" }, "Asked ", timeAgo(request.created_at)),
          ),
          p(null, badge(stateTones[request.state], request.state), outcome(request)),
        ),
      ),
    ),
    dialog,
  );
}

/** Names the window of an each-… budget without a link, because the user of a key cannot open the pages of keys. */
function windowText(subject: string | null): string {
  return subject === null ? "" : `, for ${plainSubject(subject)}`;
}

type Blocked = MeJson["blocked"][number];

const stateTones: Record<RaiseRequestJson["state"], Tone> = {
  open: "accent",
  approved: "good",
  denied: "bad",
  lapsed: "calm",
};

function outcome({ state, approved_usd: usd, approved_until: until, lapses_at: lapses }: RaiseRequestJson): Children {
  if (state === "open" && lapses !== null) return ` lapses ${ago(lapses)}`;
  if (state !== "approved") return null;
  return [" ", amount(usd), until !== null && ` until ${instant(until, "moment")}`];
}

function askForRaise({ scope, period, subject }: Blocked): Form {
  return {
    title: "Ask for a raise",
    verb: "Ask",
    fields: [
      p({ class: "hint" }, `${upperFirst(budgetName({ scope, period }))}${windowText(subject)}`),
      amountField(),
      whyField(),
    ],
    save: (form) => ask(`${ownBase}/raises`, { method: "POST", body: raiseIn(form, { scope, period, subject }) }),
    done: "The administrators see your request.",
  };
}

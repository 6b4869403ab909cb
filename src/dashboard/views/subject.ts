import { h } from "preact";
import { adminBase } from "../api.ts";
import { dayOf } from "../calendar.ts";
import { spendChart } from "../chart.ts";
import { div, h2, header, li, p, section, span, ul, type Children, type View } from "../dom.ts";
import { count } from "../format.ts";
import { addressOf, setQuery, useRoute, oneOf } from "../location.ts";
import { RangeControl, useRange } from "../range.ts";
import { useAnswer, useUser, type Resource } from "../resource.ts";
import { dataTable } from "../table.ts";
import { spans } from "../types.ts";
import type {
  ChargeJson,
  ChargeListJson,
  Grouping,
  OverviewJson,
  RefusalCauseJson,
  RefusalCausesJson,
  StandingJson,
  Usage,
} from "../types.ts";
import {
  amount,
  badge,
  Card,
  requestsHeadline,
  headline,
  instantOf,
  link,
  loaded,
  muted,
  segmented,
  timeAgo,
} from "../ui.ts";
import { isWindowOf } from "../scopes.ts";
import { resetOf } from "./budgets.ts";
import {
  keyLink,
  modelLink,
  refusalReason,
  periodWords,
  requestLink,
  sourceBadge,
  upperFirst,
  groupingNames,
} from "./labels.ts";

/** Key, team or model that a page shows. */
interface Subject {
  readonly kind: "key" | "team" | "model";
  readonly name: string;
}

/**
 * Describes a cause of refusals, to use within a sentence, such as "daily budget of key alice" or "model not allowed:
 * gpt-5".
 */
export function causeText(
  cause: Pick<RefusalCauseJson, "code" | "scope" | "period" | "subject" | "key" | "model">,
): string {
  const { code, model } = cause;
  return code === "model_not_allowed" && model !== null ? `${refusalReason(cause)}: ${model}` : refusalReason(cause);
}

interface SubjectProps {
  readonly subject: Subject;
}

function filterOf({ kind, name }: Subject): Readonly<Record<string, string>> {
  return { [kind]: name };
}

/** Loads the causes of refusals since the start of today. */
export function useRefusedToday(source: string, filter: Readonly<Record<string, string>>): Resource<RefusalCausesJson> {
  const since = dayOf(Date.now(), useUser().who.time_zone);
  return useAnswer<RefusalCausesJson>(`${source}/refusals/causes`, 10_000, { ...filter, since });
}

/** Data that the page of a subject loads at the same time as the subject's details. */
export interface SubjectData {
  readonly subject: Subject;
  readonly refused: Resource<RefusalCausesJson>;
  readonly spend: Resource<OverviewJson>;
}

export function useSubject(subject: Subject): SubjectData {
  return { subject, refused: useRefusedToday(adminBase, filterOf(subject)), spend: useSpend(subject) };
}

interface RefusedProps extends SubjectProps {
  readonly refused: Resource<RefusalCausesJson>;
  readonly budgets?: readonly StandingJson[];
}

/**
 * Explains today's refusals of a key, a team or a model. If there are none, explains earlier refusals in the current
 * windows of its budgets.
 */
export function Refused({ refused: { data }, ...rest }: RefusedProps): View | null {
  if (data === null) return null;
  if (data.total > 0) return causeCard({ title: "Refused today", refused: data, ...rest });
  return rest.budgets !== undefined && rest.budgets.length > 0
    ? h(RefusedEarlier, { ...rest, budgets: rest.budgets })
    : null;
}

/** Explains earlier refusals by budgets that happened in the current windows of these budgets. */
function RefusedEarlier({
  subject,
  budgets,
}: SubjectProps & { readonly budgets: readonly StandingJson[] }): View | null {
  const [since] = budgets.map(({ starts_at: start }) => start).toSorted();
  const { data } = useAnswer<RefusalCausesJson>(`${adminBase}/refusals/causes`, undefined, {
    ...filterOf(subject),
    since,
    limit: causesReadMax,
  });
  if (data === null) return null;
  // The letter sorts after every time, so causes other than these budgets are left out.
  const causes = data.causes.filter((cause) => cause.last_at >= (budgetOf(cause, budgets)?.starts_at ?? "z"));
  return causeCard({
    title: "Refused earlier",
    subject,
    refused: { ...data, causes, total: causes.length },
    budgets,
  });
}

function budgetOf(cause: RefusalCauseJson, budgets: readonly StandingJson[]): StandingJson | undefined {
  return budgets.find(isWindowOf(cause));
}

interface CauseProps extends SubjectProps {
  readonly title: string;
  readonly refused: RefusalCausesJson;
  readonly budgets?: readonly StandingJson[];
}

function causeCard({ title, subject, refused, budgets = [] }: CauseProps): View | null {
  const { causes, total, examined_to: examinedTo } = refused;
  if (total === 0) return null;
  return section(
    { class: "card refused-card", "aria-label": title },
    header({ class: "card-head" }, h2(null, title)),
    ul(
      { class: "facts" },
      causes
        .slice(0, causesMax)
        .map((cause) =>
          li(
            { class: "fact", key: JSON.stringify(cause) },
            span(
              null,
              subject.kind !== "key" && [cause.key === null ? "no key" : keyLink(cause.key), muted(" · ")],
              upperFirst(causeText(cause)),
              budgetNote(budgetOf(cause, budgets)),
              cause.needed_usd !== null && muted(", a request needed ", amount(cause.needed_usd)),
            ),
            span({ class: "cause-side" }, muted(timeAgo(cause.last_at)), badge("bad", count(cause.count))),
          ),
        ),
    ),
    total > causesMax && p({ class: "hint" }, `and ${count(total - causesMax)} other causes`),
    examinedTo !== null &&
      p({ class: "hint" }, "Only refusals since ", instantOf(examinedTo, "minute"), " were counted."),
    p({ class: "hint" }, link(refusedAddress(filterOf(subject)), "See the refused requests")),
  );
}

const causesMax = 12;
/** Largest number of causes to request. The page then leaves out causes that are not in a current window. */
const causesReadMax = 1000;

function budgetNote(standing: StandingJson | undefined): Children {
  return (
    standing !== undefined && [
      muted(" ("),
      amount(standing.limit_usd),
      muted(` ${periodWords[standing.period].per}; `, resetOf(standing), ")"),
    ]
  );
}

/** Shows the latest requests, with a link to all requests. */
export function RecentRequests({ subject }: SubjectProps): View {
  const charges = useAnswer<ChargeListJson>(`${adminBase}/charges`, 10_000, { ...filterOf(subject), limit: 8 });
  const all = addressOf("requests", filterOf(subject));
  return h(
    Card,
    { title: "Recent requests", actions: link(all, "All requests", "button small") },
    loaded(charges, 4, ({ charges: rows }) =>
      rows.length === 0
        ? p({ class: "hint quiet" }, "No requests yet.")
        : dataTable<ChargeJson>({
            caption: "Recent requests",
            class: "plain",
            rows,
            keyOf: ({ request_id: id }) => id,
            columns: [
              { head: "Time", cell: ({ request_id: id, time }) => requestLink(id, time) },
              subject.kind !== "key" && { head: "Key", cell: ({ key }) => (key === null ? "no key" : keyLink(key)) },
              subject.kind !== "model" && { head: "Model", cell: ({ model }) => modelLink(model) },
              { head: "Source", class: "wide-only", cell: sourceBadge },
              { head: "Cost", class: "right", cell: ({ cost_usd: usd }) => amount(usd) },
            ],
          }),
    ),
  );
}

/** Shows a number of refused requests as a link to these requests. */
export function refusedLink(refused: number, filter: Readonly<Record<string, string>>): View {
  return link(refusedAddress(filter), badge("bad", count(refused)));
}

const groupingsOf: Record<Subject["kind"], readonly Grouping[]> = {
  key: ["model", "group"],
  team: ["key", "model"],
  model: ["key", "team"],
};

/** Returns the dimension of the chart that the address states; by default the first dimension that the page offers. */
function useGrouping({ kind }: Subject): Grouping {
  const offered = groupingsOf[kind];
  return oneOf(offered, useRoute().query.get("by"), offered[0] ?? "model");
}

function useSpend(subject: Subject): Resource<OverviewJson> {
  const { preset, bounds } = useRange("30d");
  const when = spans.find((each) => each === preset);
  return useAnswer<OverviewJson>(`${adminBase}/overview`, 15_000, {
    ...filterOf(subject),
    ...(when === undefined ? bounds : { span: when }),
    by: useGrouping(subject),
  });
}

interface SpendProps extends SubjectProps {
  readonly spend: Resource<OverviewJson>;
  readonly usage: Usage;
}

/** Shows the spend of a key, a team or a model over time, and its use this month. */
export function SpendCard({ subject, spend, usage }: SpendProps): View {
  const by = useGrouping(subject);
  const grouping = segmented({
    label: "Group by",
    value: by,
    options: groupingsOf[subject.kind].map((value) => ({ value, text: groupingNames[value] })),
    onChoose: (value) => setQuery({ by: value }),
  });
  return h(
    Card,
    { title: "Spend", actions: [h(RangeControl, { defaultPreset: "30d" }), grouping], class: "chart-card" },
    loaded(spend, 4, (data) => [
      div(
        { class: "headlines" },
        headline("Spent", amount(data.span.cost_usd)),
        requestsHeadline(data.span.requests),
        headline("Spent this month", amount(usage.spent_usd)),
        headline("Last used", timeAgo(usage.last_used_at)),
      ),
      spendChart(data, filterOf(subject)),
    ]),
  );
}

/** Returns the address of the refused requests of a key, a team or a model. */
function refusedAddress(filter: Readonly<Record<string, string>>): string {
  return addressOf("requests", { ...filter, status: "refused" });
}

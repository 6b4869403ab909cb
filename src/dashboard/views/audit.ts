import { h } from "preact";
import { adminBase } from "../api.ts";
import { code, div, li, p, ul, type Children, type View } from "../dom.ts";
import { count, exactMoney, instant } from "../format.ts";
import { icon } from "../icons.ts";
import { firstPage, listView, useList } from "../list.ts";
import { addressOf, setQuery, useRoute } from "../location.ts";
import { RangeControl, useRange } from "../range.ts";
import { useAnswer } from "../resource.ts";
import type { Column } from "../table.ts";
import type { AuditEntryJson, AuditListJson, Period } from "../types.ts";
import { actionButton, Card, empty, link, loaded, muted, timeAgo, view } from "../ui.ts";
import { budgetName, keyLink, pairsOf, plainName, teamLink } from "./labels.ts";

const verbs: Record<string, string> = {
  create: "Created",
  update: "Changed",
  rotate: "Rotated",
  suspend: "Suspended",
  resume: "Resumed",
  revoke: "Revoked",
  delete: "Deleted",
  set: "Set",
  remove: "Removed",
  raise: "Raised",
  deny: "Denied a raise of",
  adjust: "Corrected",
  end: "Ended",
};

function verbOf({ action }: AuditEntryJson): string {
  return verbs[action.slice(action.indexOf(".") + 1)] ?? action;
}

const auditColumns: readonly Column<AuditEntryJson>[] = [
  { head: "Time", cellClass: "time", cell: ({ time }) => timeAgo(time) },
  { head: "By", cellClass: "by", cell: ({ by }) => by },
  { head: "Change", rowHeader: true, cell: (entry) => [verbOf(entry), " ", objectOf(entry)] },
  { head: "Details", cellClass: "changes", cell: changesOf },
];

/** Shows the changed object, as a link if it has a page. */
function objectOf({ object }: AuditEntryJson): Children {
  const at = object.indexOf(":");
  const [kind, name] = [object.slice(0, at), object.slice(at + 1)];
  if (kind === "key") return ["key ", keyLink(name)];
  if (kind === "team") return ["team ", teamLink(name)];
  if (kind === "charge") return ["charge ", link(addressOf("requests", { request: name }), code(null, name))];
  if (kind !== "budget") return `${kind} ${name}`;
  const end = name.lastIndexOf("/");
  const budget = { scope: name.slice(0, end), period: name.slice(end + 1) as Period };
  return link(addressOf("budgets", budget), budgetName(budget));
}

/** Fields to leave out, because the action, the object or the time of an entry already states them. */
const stated = new Set([
  "id",
  "name",
  "scope",
  "period",
  "created_at",
  "rotated_at",
  "revoked_at",
  "suspended_at",
  "correction",
  "key",
]);

/**
 * Lists the changed fields with the old and the new value of each. A created or removed object has only one value for
 * each.
 */
function changesOf({ before, after }: AuditEntryJson): Children {
  const [was, is] = [flat(before), flat(after)];
  const names = [...new Set([...was.keys(), ...is.keys()])].filter((name) => was.get(name) !== is.get(name));
  if (names.length === 0) return null;
  return ul(
    null,
    names.map((name) =>
      li(
        { key: name },
        muted(`${fieldNames[name] ?? plainName(name)} `),
        before !== null && after !== null && [valueOf(name, was.get(name)), muted(" → ")],
        valueOf(name, (after === null ? was : is).get(name)),
      ),
    ),
  );
}

/** Fields that contain pairs of name and value. All pairs of a field are shown together. */
const pairs = new Set(["labels", "tags"]);

/**
 * Returns the values of all fields by name, including the fields of inner objects such as `limits`. Leaves out fields
 * without a value and those in `stated`.
 */
function flat(facts: AuditEntryJson["before"]): Map<string, string> {
  const entries = Object.entries(facts ?? {}).flatMap(([name, value]): [string, unknown][] =>
    typeof value === "object" && value !== null && !Array.isArray(value) && !pairs.has(name)
      ? Object.entries(value)
      : [[name, pairs.has(name) ? pairsOf((value ?? {}) as Readonly<Record<string, string>>) : value]],
  );
  return new Map(
    entries
      .filter(
        ([name, value]) =>
          value !== null && value !== undefined && !stated.has(name) && (!Array.isArray(value) || value.length > 0),
      )
      .map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : String(value)]),
  );
}

const fieldNames: Record<string, string> = {
  limit_usd: "limit",
  budget_usd: "budget",
  cost_usd: "cost",
  amount_usd: "amount",
  held_usd: "held",
  warn_percent: "warning threshold",
  rpm: "requests a minute",
  tpm: "tokens a minute",
  parallel: "parallel requests",
  expires_at: "expires",
  previous_valid_until: "previous secret until",
};

const numbers = new Set(["rpm", "tpm", "parallel", "output_cap"]);

const absent: Record<string, string> = { hosted_tools: "inherited", models: "all", expires_at: "never" };

function valueOf(name: string, value: string | undefined): View | string {
  if (value === undefined) return muted(absent[name] ?? "none");
  if (name === "warn_percent") return `${value}%`;
  if (numbers.has(name)) return count(Number(value));
  if (name.endsWith("_usd")) return exactMoney(value);
  return name.endsWith("_at") || name.endsWith("until") ? instant(value, "moment") : value;
}

/** Lists the changes to keys, teams, budgets, admins and charges, newest first. */
export function Audit(): View {
  const { query } = useRoute();
  const { bounds } = useRange(null);
  const chosen = (["object", "about"] as const).find((name) => query.get(name) !== null);
  const list = useList<AuditEntryJson>({
    path: `${adminBase}/audit`,
    field: "entries",
    filters: ["object", "about"],
    query: bounds,
  });
  return view(
    {
      title: "Audit",
      hint: "Changes to keys, teams, budgets, admins and charges. Entries are never changed or deleted.",
    },
    listView({
      list,
      search: "Find a change",
      tools: [
        h(RangeControl, { key: "range", defaultPreset: null, resets: firstPage }),
        chosen !== undefined &&
          actionButton(() => setQuery({ [chosen]: null, ...firstPage }), [icon("close"), query.get(chosen)], {
            key: "object",
            class: "button small",
            "aria-label": `Remove the filter ${query.get(chosen) ?? ""}`,
          }),
      ],
      whenEmpty: empty("No changes yet", "Changes made in the dashboard, with commands and over the API appear here."),
      caption: "Changes, newest first",
      class: "keys audit",
      keyOf: ({ id }) => String(id),
      columns: auditColumns,
    }),
  );
}

/**
 * Shows the latest changes to a key or a team, and to the budgets that name it. `about` names the object, such as
 * "key:alice".
 */
export function AuditTrail({ about }: { readonly about: string }): View {
  const audit = useAnswer<AuditListJson>(`${adminBase}/audit`, 10_000, { about, limit: 8 });
  return h(
    Card,
    { title: "Changes", actions: link(addressOf("audit", { about }), "Audit log", "button small") },
    loaded(audit, 3, ({ entries }) =>
      entries.length === 0
        ? p({ class: "hint quiet" }, "No changes yet.")
        : ul(
            { class: "facts" },
            entries.map((entry) =>
              li(
                { key: entry.id, class: "fact" },
                div(
                  null,
                  verbOf(entry),
                  entry.object !== about && [" ", objectOf(entry)],
                  div({ class: "changes" }, changesOf(entry)),
                ),
                muted(entry.by, " · ", timeAgo(entry.time)),
              ),
            ),
          ),
    ),
  );
}

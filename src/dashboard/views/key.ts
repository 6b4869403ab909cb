import { h } from "preact";
import { adminBase } from "../api.ts";
import { div, type Children, type View } from "../dom.ts";
import { count, instant } from "../format.ts";
import { addressOf } from "../location.ts";
import { icon } from "../icons.ts";
import { useAnswer, useMayEdit } from "../resource.ts";
import { isWindowOf } from "../scopes.ts";
import type { KeyDetailsJson, StandingJson } from "../types.ts";
import { actionButton, badge, Card, empty, factsOf, instantOf, link, muted, page, timeAgo } from "../ui.ts";
import { AuditTrail } from "./audit.ts";
import { budgetsPart } from "./budgets.ts";
import { toolPolicies, useDialogs } from "./forms.ts";
import type { Restrictions, Show } from "./forms.ts";
import { changeState, editKey, rotateKey } from "./key-dialogs.ts";
import { pairsOf, teamLink } from "./labels.ts";
import { RecentRequests, Refused, SpendCard, useSubject, type SubjectData } from "./subject.ts";

/** Shows one key: its spend, budgets, requests, refusals, limits and changes. */
export function KeyPage({ name }: { readonly name: string }): View {
  const resource = useAnswer<KeyDetailsJson>(`${adminBase}/keys/${encodeURIComponent(name)}`, 5000);
  const loads = useSubject({ kind: "key", name });
  const mayEdit = useMayEdit();
  const { show, dialog } = useDialogs(resource.reload);
  const { data } = resource;
  return page(
    {
      title: name,
      back: link(addressOf("keys"), "Keys"),
      side: data !== null && [data.state !== "live" && badge("calm", data.state), mayEdit && actions(data, show)],
      resource,
      lines: 6,
      content: (key) => content(key, loads, mayEdit ? show : null),
    },
    dialog,
  );
}

function actions(key: KeyDetailsJson, show: Show): Children {
  if (key.state === "revoked") return false;
  return div(
    { class: "actions" },
    actionButton(() => show(editKey(key)), [icon("edit"), "Edit"]),
    key.state !== "expired" && [
      actionButton(() => show(rotateKey(key)), [icon("rotate"), "Rotate"]),
      key.state === "live"
        ? actionButton(() => show(changeState(key, "suspend")), [icon("pause"), "Suspend"])
        : actionButton(() => show(changeState(key, "resume")), [icon("play"), "Resume"]),
      actionButton(() => show(changeState(key, "revoke")), [icon("stop"), "Revoke"]),
    ],
  );
}

function content(key: KeyDetailsJson, { subject, refused, spend }: SubjectData, show: Show | null): View {
  const { name, team, usage, budgets } = key;
  const causes = refused.data?.causes ?? [];
  const refusedBy = (standing: StandingJson) =>
    causes.filter(isWindowOf(standing)).reduce((sum, { count: each }) => sum + each, 0);
  return div(
    { class: "stack" },
    h(Refused, { subject, refused, budgets }),
    h(SpendCard, { subject, spend, usage }),
    budgetsPart({
      budgets,
      scope: key.state === "live" || key.state === "suspended" ? `key:${name}` : null,
      show,
      refusedBy,
      whenEmpty: empty("No budget applies to this key", "It may spend the whole balance of the gateway’s account."),
    }),
    div(
      { class: "columns" },
      h(RecentRequests, { subject }),
      h(
        Card,
        { title: "Access" },
        factsOf({
          Team: team === null ? "none" : teamLink(team),
          ...restrictionFacts(key),
          Labels: pairsOf(key.labels).join(", "),
          "Pinned tags": pairsOf(key.tags).join(", "),
          "Pinned user": key.user,
          Required: key.requires.join(", "),
          Created: instantOf(key.created_at, "minute"),
          Expires: timeAgo(key.expires_at),
          "Previous secret":
            isAhead(key.previous_valid_until) && `valid until ${instant(key.previous_valid_until ?? "", "moment")}`,
          Suspended: key.suspended_at && timeAgo(key.suspended_at),
          Revoked: key.revoked_at && timeAgo(key.revoked_at),
        }),
      ),
    ),
    h(AuditTrail, { about: `key:${name}` }),
  );
}

function isAhead(at: string | null): boolean {
  return at !== null && Date.parse(at) > Date.now();
}

/** Returns the models and limits of a key or team as named values, for `factsOf`. */
export function restrictionFacts({
  models,
  limits: { rpm, tpm, parallel },
  output_cap: cap,
  hosted_tools: policy,
}: Restrictions): Record<string, Children> {
  const number = (value: number | null, unit: string) =>
    value === null ? muted("no limit") : `${count(value)} ${unit}`;
  return {
    Models: models === null ? "all" : models.join(", "),
    Requests: number(rpm, "a minute"),
    Tokens: number(tpm, "a minute"),
    Parallel: number(parallel, "requests"),
    "Output cap": number(cap, "tokens"),
    "Hosted tools": policy === null ? muted("inherited") : toolPolicies[policy],
  };
}
